"""What a mechanism may spend, in the one currency its parts add up in: epsilon, or rho where delta is above 0.

A mechanism of several steps gives each a share. Shares of epsilon add up by sequential composition (Dwork and Roth
2014, Theorem 3.14), shares of rho by that of zero-concentrated privacy (Bun and Steinke 2016, Lemma 1.7); either way
the parts of a budget cost the budget, rounded down, and nothing here depends on data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, isqrt

from releases.engine.accounting.calibration import (
    discrete_gaussian_budget,
    fine_gaussian_budget,
    fine_gaussian_variance,
    gaussian_variance_for_rho,
    zcdp_budget,
)
from releases.engine.accounting.events import (
    AdaptiveDiscreteGaussianEvent,
    Event,
    FineDiscreteGaussianEvent,
    ProjectedDiscreteGaussianEvent,
    WeightedDiscreteGaussianEvent,
    WeightedDiscreteLaplaceEvent,
)
from releases.engine.domain.privacy import ZCDP, PrivacyBudget, PureDP, decimal_text
from releases.engine.mechanisms.additive_noise import GaussianNoise, LaplaceNoise, Noise, NoiseLaw
from releases.engine.mechanisms.base import Option
from releases.engine.workload.queries import Sensitivity

#: Amounts are rounded down to so many places, so that receipts can print them.
_PLACES = 24
_UNIT = 10**_PLACES

EXACT, BY_RHO = "exact", "rho"
ACCOUNTING = Option(
    name="accounting",
    help="How noise follows from an epsilon and a delta: “exact” for the least that is proved to be enough, or “rho” "
    "for up to a tenth more, which leaves more of a budget for other releases.",
    choices=(EXACT, BY_RHO),
    default=EXACT,
    before=BY_RHO,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowance:
    """An amount to spend.

    Attributes:
        amount: of epsilon (`is_pure`) or of rho.
        is_pure: which of the two it is; what is drawn is discrete Laplace noise in the one, Gaussian in the other.
        is_one_event: whether all that it is spent on has to be charged as one event, since only together it is worth
            the epsilon and the delta.
    """

    amount: Fraction
    is_pure: bool
    is_one_event: bool = False

    @staticmethod
    def of(budget: PrivacyBudget) -> Allowance:
        """The whole budget: its epsilon, or the largest rho that converts to its epsilon and delta."""
        if isinstance(budget, PureDP):
            return Allowance(amount=budget.epsilon, is_pure=True)
        return Allowance(amount=zcdp_budget(epsilon=budget.epsilon, delta=budget.delta).rho, is_pure=False)

    @staticmethod
    def of_whole_noise(budget: PrivacyBudget, accounting: object) -> Allowance:
        """The same, where all of it is spent on noise on whole numbers: with a delta, as `ACCOUNTING` says."""
        return Allowance._of_one_event(budget, accounting, discrete_gaussian_budget)

    @staticmethod
    def of_fine_noise(budget: PrivacyBudget, accounting: object) -> Allowance:
        """The same, of noise on a fine grid, of which a linear map may be all that is released (`fine_event`)."""
        return Allowance._of_one_event(budget, accounting, fine_gaussian_budget)

    @staticmethod
    def _of_one_event(budget: PrivacyBudget, accounting: object, allowed: Callable[..., ZCDP]) -> Allowance:
        if isinstance(budget, PureDP) or accounting != EXACT:
            return Allowance.of(budget)
        rho = allowed(epsilon=budget.epsilon, delta=budget.delta).rho
        return Allowance(amount=rho, is_pure=False, is_one_event=True)

    @property
    def fine_variance(self) -> Fraction:
        """noise_variance of Gaussian noise on a fine grid that costs all of it."""
        return fine_gaussian_variance(rho=self.amount)

    @property
    def fine_event(self) -> Event:
        """Gaussian noise on a fine grid that costs all of it."""
        kind = FineDiscreteGaussianEvent if self.is_one_event else ProjectedDiscreteGaussianEvent
        return kind(noise_variance=self.fine_variance)

    @property
    def event(self) -> Event:
        """Noise on whole numbers that costs all of it, of different scales."""
        if self.is_pure:
            return WeightedDiscreteLaplaceEvent(noise_multiplier=1 / self.amount)
        variance = gaussian_variance_for_rho(rho=self.amount)
        if self.is_one_event:
            return AdaptiveDiscreteGaussianEvent(noise_variance=variance)
        return WeightedDiscreteGaussianEvent(noise_variance=variance)

    def share(self, part: Fraction) -> Allowance:
        """A part of it, rounded down."""
        return Allowance(amount=Fraction(floor(self.amount * part * _UNIT), _UNIT), is_pure=self.is_pure)

    def shares(self, parts: Sequence[float]) -> list[Allowance]:
        """Parts given as floating-point numbers that sum to 1, and to no more once they are rounded down."""
        ratios = [part.as_integer_ratio() for part in parts]
        # Denominators of floating-point numbers are powers of 2, so the largest is common to all.
        common = max(below for _, below in ratios)
        whole_numbers = [above * (common // below) for above, below in ratios]
        scaled, below = self.amount.numerator * _UNIT, self.amount.denominator * sum(whole_numbers)
        return [
            Allowance(amount=Fraction(scaled * each // below, _UNIT), is_pure=self.is_pure) for each in whole_numbers
        ]

    def noise(self, sensitivity: Sensitivity) -> Noise:
        """Noise on whole numbers that costs all of it."""
        if self.is_pure:
            return LaplaceNoise(epsilon=self.amount, l1_sensitivity=sensitivity.l1)
        return GaussianNoise(
            rho=self.amount, l2_sensitivity_squared=sensitivity.l2_squared, is_one_event=self.is_one_event
        )

    @property
    def epsilon_of_choice(self) -> Fraction:
        """Epsilon of an exponential mechanism that costs all of it: its bounded range makes it ε²/8-zCDP.

        Cesar and Rogers 2021, Lemma 3.2; the root of 8 ρ is rounded down.
        """
        if self.is_pure:
            return self.amount
        return Fraction(isqrt(floor(8 * self.amount * _UNIT * _UNIT)), _UNIT)

    def in_words(self) -> str:
        return f"{'epsilon' if self.is_pure else 'rho'} {decimal_text(self.amount)}"


def noise_within(law: NoiseLaw, budget: PrivacyBudget, sensitivity: Sensitivity, accounting: object = EXACT) -> Noise:
    """The least noise of a law on whole numbers that costs no more than a budget, which has a delta if the law needs
    one; with a delta as `ACCOUNTING` says."""
    if not law.needs_delta:
        return LaplaceNoise.within(budget, sensitivity)
    return Allowance.of_whole_noise(budget, accounting).noise(sensitivity)
