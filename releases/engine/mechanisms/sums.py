"""What `laplace-numbers` and `gaussian-numbers` share: independent noise on the exact sums that an answer is read off.

Each sum is rounded to a public lattice where its sensitivity is so large that the noise would not fit 64 bits, and gets
noise in proportion to its own sensitivity. How the budget is shared out is decided by the declared ranges alone; for
whatever shares, the noise is such that the worst change by one privacy unit costs exactly the budget.

By group each group's rows are a table of their own with the same noise; what a unit can change then, and why bounds
hold for all groups at once, is proved in `releases.engine.workload.measurements`.

`laplace-numbers`:
Discrete Laplace noise on sums of numbers, each sum's scale in proportion to its own sensitivity.

Privacy: a sum with scale t_j that one privacy unit moves by c_j has a privacy loss of at most c_j / t_j (Dwork and Roth
2014, Theorem 3.6, on the integers: Ghosh, Roughgarden and Sundararajan 2009), and losses of independent draws add. The
scales are such that the largest Σ c_j / t_j over all changes of one unit is exactly epsilon. With one share for each of
k sums that is t_j = k Δ_j / ε; dividing by the largest Σ c_j / t_j gives back what the sums cannot spend together.

Means of one or two columns are read off pairs of sums, of what the values are above their lowest and below their
highest value, at the price of one such sum, where rows are added and removed or means are asked for by group: of one
column half the squared error of a sum and a count, and an interval that holds for every number of rows, also none.
Proofs and figures: `releases.engine.workload.row_means`. Variances are read off three sums of each column at the price
of one of them: `releases.engine.workload.row_variances`.

The lecture notes on sensitivity print the density as p(x) ∝ e^{λ|x|}, which for λ > 0 is no density: λ = -ε/Δ.

Accuracy: the exact quantile of the largest of k draws, each over its own scale; sharper than Theorem 3.8.

`gaussian-numbers`:
Discrete Gaussian noise on sums of numbers, each sum's deviation in proportion to its own sensitivity.

Privacy: Canonne, Kamath and Steinke (2020), Theorem 14: integer sums that one privacy unit moves by c_j, with
independent discrete Gaussian noise of variances v_j, are ρ-zCDP where Σ c_j² / (2 v_j) <= ρ for every change. The
variances are such that the largest of these sums is exactly ρ. That is the largest that is (ε, δ)-DP by
`calibration.discrete_gaussian_delta`, or with the option `accounting` of "rho" the largest that converts by their
Corollary 13. (A lecture prints ρ = Δ / (2 σ²); the units ask for Δ², as in Bun and Steinke 2016, Proposition 1.6.)

`discrete_gaussian_delta` asks for moves d_j by whole numbers with Σ d_j² / v_j <= 2 ρ, here in one step. On its lattice
each rounded sum is a whole number, so a unit moves it by one; and `Changes.on_lattice` bounds the norm of all moves, by
group too (`measurements`). It asks neither that moves are equal nor that a lattice is fine.

For reference the plan shows the deviations that two calibrations of *continuous* Gaussian noise would ask for: the
classical √(2 ln(1.25/δ)) / ε (Dwork and Roth 2014, Theorem 3.22, proved for ε < 1; a lecture has "ε <= 1"), and the
analytic one (Balle and Wang 2018), which is exact. Neither is run: discrete noise of such a deviation may exceed its δ,
and continuous noise cannot be drawn exactly.

Accuracy: the exact quantile of the largest of k draws, each over its own deviation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from math import ceil, expm1, log1p, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from releases.engine.accounting.calibration import calibrations
from releases.engine.accounting.events import (
    AdaptiveDiscreteGaussianEvent,
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
)
from releases.engine.bounds.accuracy import (
    Bound,
    Proof,
    gaussian_max_quantile,
    laplace_and_normal_quantile,
    laplace_max_quantile,
    laplace_pair_reach,
)
from releases.engine.domain.privacy import PureDP, decimal_text
from releases.engine.errors import EngineError
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import (
    NEEDS_DELTA,
    Mechanism,
    Option,
    Plan,
    PlanRequest,
    Progress,
    Work,
    infeasible,
    register,
)
from releases.engine.mechanisms.budget_split import ACCOUNTING, Allowance
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_gaussian, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.logistic_regression import LogisticRegression
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.regression import Regression
from releases.engine.workload.kinds.second_moments import SecondMoments
from releases.engine.workload.kinds.sum import Sum
from releases.engine.workload.kinds.variance import Variance
from releases.engine.workload.kinds.votes import Votes
from releases.engine.workload.kinds.weighted_count import WeightedCount
from releases.engine.workload.measurements import Grouped, measurements
from releases.engine.workload.row_means import PAIR_SHARES, OfMeans
from releases.engine.workload.row_regression import Fitted
from releases.engine.workload.row_sentences import within
from releases.engine.workload.row_sums import Ballots, Measurement, NoisySums, OfColumns, Reading, Sharing
from releases.engine.workload.sensitivity import Case, Changes, divided

#: A sum that can move by more than this is rounded to this many steps of what it can move by: that leaves room for any
#: noise in 64 bits, and costs a 30-millionth of the sensitivity in accuracy.
_STEPS = 1 << 24
#: A release of more numbers than this is a mistake.
_MAX_NUMBERS = 5_000
#: Of how many sums the noise is written out in a plan.
_DESCRIBED = 12

#: In a regression's plan.
LEAST_ROWS = "rows below which nothing is said"

EXPECTED_ROWS = Option(
    name="expected_rows",
    help="How many rows are counted at least, if you may say so; only used to estimate the error of a mean, of a "
    "variance or of a regression.",
    lowest=1,
    highest=10**9,
)


class SharingLaw(Sharing, Protocol):
    """A law of integer noise within a budget, for sums that need different amounts of it."""

    @property
    def event(self) -> Event:
        """What adding it is, for the accountant."""
        ...

    @property
    def quantile(self) -> tuple[str, str]:
        """What one sum's noise stays within, and its closed upper bound, in LaTeX."""
        ...

    def spreads(self, moved: Changes, shares: Sequence[Fraction], *, base: Case) -> tuple[Fraction, ...]:
        """Each sum's scale or variance for these shares of the budget, such that the worst change costs all of it.

        Args:
            base: what each sum's noise is in proportion to.
        """
        ...

    def cost(self, moved: Changes, spreads: Sequence[Fraction]) -> Fraction:
        """What noise of these spreads costs, over the budget."""
        ...

    def can_draw(self, spread: Fraction) -> bool: ...

    def draw(self, spread: Fraction, size: int, rng: Randomness) -> NDArray[np.int64]: ...

    def largest(self, spread: Fraction, *, count: int, beta: float) -> int:
        """An m with Pr[|X| <= m]^count >= 1 - beta."""
        ...

    def variance(self, spread: Fraction) -> Fraction:
        """At least the variance of a draw; of wide noise, next to it."""
        ...

    def pair_reach(self, spread: Fraction, *, pairs: int, beta: float) -> tuple[float, ...]:
        """For each p of `PAIR_SHARES` what |(1 - p) X - p Y| stays within, in each of so many pairs of draws at once.

        Raises:
            NotImplementedError: the law takes no pairs.
        """
        ...

    @property
    def takes_pairs(self) -> bool:
        """Whether sums are measured in pairs where that gains: see `row_means`."""
        ...

    def within(self, deviations: NDArray[np.float64], variance: float, beta: float) -> float:
        """See `row_sums.Within`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Noised:
    """A measurement with the noise on it.

    Attributes:
        measurement: which sums.
        law: of the noise.
        units: of each sum's lattice, in the sum's own units.
        spreads: of each sum's noise, on its lattice.
        reach: what each noisy sum is within of the truth, all at once, with probability 1 - beta; in its own units.
        pair_reach: r(p) of `row_means.PairedMeans` for all pairs at once, with the same probability, in rows; empty
            where no pairs are measured.
        beta: see `reach`.
    """

    measurement: Measurement
    law: SharingLaw
    beta: Fraction
    units: tuple[Fraction, ...]
    spreads: tuple[Fraction, ...]
    reach: tuple[Fraction, ...]
    pair_reach: tuple[float, ...] = ()

    @staticmethod
    def within(measurement: Measurement, law: SharingLaw, *, beta: Fraction) -> Noised:
        exact = measurement.moved
        units = measurement.units(_STEPS)
        moved = exact.on_lattice(units)
        spreads = law.spreads(moved, measurement.shares(law), base=divided(measurement.base, units))
        assert law.cost(moved, spreads) <= 1, "the noise would cost more than the budget"
        drawn = {spread: law.largest(spread, count=len(spreads), beta=float(beta)) for spread in set(spreads)}
        # Rounding to a lattice that the sums do not lie on adds half a step.
        reach = tuple(
            unit * drawn[spread] + (unit / 2 if unit != 1 else 0) for unit, spread in zip(units, spreads, strict=True)
        )
        pair_reach: tuple[float, ...] = ()
        if measurement.pairs:
            # Every pair has the same noise, in steps of its range.
            (spread,), step = set(spreads), units[0] / measurement.coordinates[0].span.largest
            rounded = law.pair_reach(spread, pairs=measurement.pairs, beta=float(beta))
            pair_reach = tuple(float(step) * (each + 0.5) for each in rounded)
        return Noised(
            measurement=measurement,
            law=law,
            beta=beta,
            units=units,
            spreads=spreads,
            reach=reach,
            pair_reach=pair_reach,
        )

    def exactly(self, counts: Counts) -> list[int]:
        """The exact sums, rounded to their lattices: what noise is added to. Private."""
        return self.measurement.rounded(self.measurement.totals(counts), self.units)

    def noise(self, rng: Randomness) -> Iterator[int]:
        """One draw for each sum, on its lattice."""
        for spread, equal in groupby(self.spreads):
            yield from self.law.draw(spread, len(list(equal)), rng).tolist()

    def read(self, noisy: Sequence[int]) -> Reading:
        values = tuple(unit * step for unit, step in zip(self.units, noisy, strict=True))
        measured = NoisySums(
            values=values,
            reach=self.reach,
            variances=self._variances,
            pair_reach=self.pair_reach,
            within=self.law.within,
            beta=float(self.beta),
        )
        return self.measurement.read(measured)

    @cached_property
    def variances(self) -> tuple[Fraction, ...]:
        """Of the noise on each sum, in its own units squared."""
        of_spread = {spread: self.law.variance(spread) for spread in set(self.spreads)}
        return tuple(unit**2 * of_spread[spread] for unit, spread in zip(self.units, self.spreads, strict=True))

    @cached_property
    def _variances(self) -> tuple[float, ...]:
        return tuple(map(float, self.variances))

    @property
    def loss(self) -> Fraction:
        return self.measurement.loss(self.reach, self.variances)

    @property
    def parameters(self) -> dict[str, str]:
        """The noise of each sum, in units of its columns."""
        form = self.measurement
        described = {"measured": form.form} if form.form else {}
        if isinstance(form, OfColumns) and form.weight:
            described["measured"] += f"; a {form.schema.counted.one} counts as often as its weight says"
        if isinstance(form, Grouped):
            described |= {"groups": f"{form.groups:,}"}
        listed = list(zip(form.described(), form.moved.most, self.units, self.spreads, strict=False))
        for coordinate, most, unit, spread in listed[:_DESCRIBED]:
            deviation = sqrt(self.law.variance(spread)) * float(unit) / coordinate.places
            described[f"sensitivity of {coordinate.label}"] = decimal_text(Fraction(most, coordinate.places))
            described[f"standard deviation of the noise on {coordinate.label}"] = f"{deviation:.6g}"
        if isinstance(form, Ballots):
            whole = form.moved.sensitivity()
            described |= {"l1 sensitivity": str(whole.l1), "l2 sensitivity, squared": str(whole.l2_squared)}
        return described


@dataclass(frozen=True, kw_only=True)
class NoisyNumbersPlan(Plan):
    noised: Noised

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        progress("Adding up the table", 0.0)
        steps = self.noised.exactly(counts)
        progress("Adding noise", 0.7)
        noisy = [step + noise for step, noise in zip(steps, self.noised.noise(rng), strict=True)]
        reading = self.noised.read(noisy)
        return Result(
            estimates=reading.estimates,
            bound=self.bound or self._bound(reading),
            total=reading.total,
            notes=reading.notes,
            spans=reading.spans,
            chosen=reading.chosen,
        )

    def _bound(self, reading: Reading) -> Bound:
        return Bound(
            beta=self.beta,
            half_widths=reading.half_widths,
            proof=Proof.TESTED if self.noised.measurement.is_tested else Proof.AFTER,
            formula=self.formula,
            source=self.source,
            says=reading.says,
        )


def plan_noisy_numbers(request: PlanRequest, law: SharingLaw, *, source: str, parameters: Mapping[str, str]) -> Plan:
    """Plan a statistic with noise of this law, in the form that makes its bound least."""
    numbers = sum(part.cells(request.schema.universe) for part in request.workload.families)
    if numbers > _MAX_NUMBERS:
        fewer = "columns or groups" if numbers > len(request.workload.families) else "columns"
        reason = f"It would release {numbers:,} numbers; the most is {_MAX_NUMBERS:,}. Ask for fewer {fewer}."
        return infeasible(request, reason)
    forms = measurements(request.statistic, request.schema, takes_pairs=law.takes_pairs)
    planned = [Noised.within(form, law, beta=request.beta) for form in forms]
    drawable = [each for each in planned if all(map(law.can_draw, each.spreads))]
    if not drawable:
        return infeasible(request, "Its noise would not fit 64 bits at so small an epsilon. Spend more.")
    noised = min(drawable, key=lambda each: each.loss)
    least = _least_rows(noised)
    expected = request.options[EXPECTED_ROWS.name]
    if expected is not None and int(expected) < least:
        many = f"{int(expected):,} {request.schema.counted.many}"
        reason = f"Of {many} nothing could be said with so much noise. Spend more, or name fewer predictors."
        return infeasible(request, reason)
    # Groups have the same noise: a law is made ready once for each sum of one group, and drawn from for all.
    draws, laws = len(noised.spreads), len(noised.measurement.described())
    return NoisyNumbersPlan(
        **request.inputs(),
        noised=noised,
        formula=noised.measurement.formula(*law.quantile),
        source=source,
        events=(law.event,),
        parameters={**parameters, **noised.parameters, **({LEAST_ROWS: f"{least:,}"} if least else {})},
        bound=_bound_before(noised, request.beta, source),
        expectation=_expectation(noised, request, source),
        work=Work(cells=draws, seconds=0.3 + laws * 3e-2 + draws * 2e-4, bytes=1 << 26),
    )


def _bound_before(noised: Noised, beta: Fraction, source: str) -> Bound | None:
    if noised.measurement.widths(noised.reach) is None:
        return None
    # What such a reading says and how wide it is do not depend on what comes out, so zeros will do.
    reading = noised.read([0] * len(noised.spreads))
    return Bound(
        beta=beta,
        half_widths=reading.half_widths,
        proof=Proof.BEFORE,
        formula=noised.measurement.formula(*noised.law.quantile),
        source=source,
        says=reading.says,
    )


def _least_rows(noised: Noised) -> int:
    """Of a regression how many rows it needs at least; of others 0."""
    form = noised.measurement
    return ceil(form.least_rows(noised.variances)) if isinstance(form, Fitted) else 0


def _expectation_of_fit(form: Fitted, noised: Noised, request: PlanRequest, rows: int, source: str) -> Bound | None:
    """What the intervals come to in an example, for the rows decide it."""
    found = form.example(noised.variances, rows=rows, within=noised.law.within, beta=float(request.beta))
    if found is None:
        return None
    width, says = found
    return Bound(
        beta=request.beta,
        half_widths=(width,),
        proof=Proof.EXPECTED,
        formula=form.formula(*noised.law.quantile),
        source=source,
        says=says,
    )


def _expectation(noised: Noised, request: PlanRequest, source: str) -> Bound | None:
    """For means, what the noise comes to on a table of as many rows as the curator says it has; by group, on one whose
    groups have equally many. There a mean is read off all groups together and may be anywhere in its interval."""
    form, rows = noised.measurement, request.options[EXPECTED_ROWS.name]
    each = form.each if isinstance(form, Grouped) else form
    if isinstance(form, Fitted) and rows is not None:
        return _expectation_of_fit(form, noised, request, int(rows), source)
    if not isinstance(each, OfMeans) or rows is None:
        return None
    fewest, where, formula = int(rows), "", each.formula_foretold()
    labels = tuple(f"{each.read_off} of {name}" for name in each.names)
    if isinstance(form, Grouped):
        fewest, where = int(rows) // form.groups, " in each group"
        labels = tuple(f"{label} in every group" for label in labels)
        formula = each.formula_of_intervals()
        widths = each.intervals_foretold(noised.reach[: len(each.coordinates)], rows=fewest * each.weight_places)
    else:
        widths = each.foretold(noised.reach, rows=fewest * each.weight_places)
    many = each.schema.counted.many
    counted = f"at least {fewest:,} {many} are counted{where}"
    if each.weight:
        counted = f"the weights of the {many} counted{where} add up to at least {fewest:,}"
    return Bound(
        beta=request.beta,
        half_widths=tuple(map(float, widths)),
        proof=Proof.ASSUMED,
        formula=formula,
        source=source,
        says=f"if {counted}, {within(labels, widths, after=each.after)}",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LaplaceLaw:
    """Discrete Laplace noise; a spread is its scale. See `SharingLaw`."""

    epsilon: Fraction

    @property
    def event(self) -> Event:
        return DiscreteLaplaceEvent(noise_multiplier=1 / self.epsilon)

    @property
    def quantile(self) -> tuple[str, str]:
        return r"\min\left\{m : \Pr[|X_j| \le m]^k \ge 1 - \beta\right\}", r"t_j \ln\frac{k}{\beta}"

    @property
    def takes_pairs(self) -> bool:
        return True

    @property
    def beside_replaced(self) -> Fraction:
        return Fraction(1, 2)

    def share_of_count(self, *, sums: int, own: float, shared: float) -> float:
        # The least of sums · own / (1 - s) + shared / s.
        return sqrt(shared) / (sqrt(sums * own) + sqrt(shared))

    def spreads(self, moved: Changes, shares: Sequence[Fraction], *, base: Case) -> tuple[Fraction, ...]:
        alone = [most / share for most, share in zip(base, shares, strict=True)]
        together = moved.l1(scales=alone)
        return tuple(each * together / self.epsilon for each in alone)

    def cost(self, moved: Changes, spreads: Sequence[Fraction]) -> Fraction:
        return moved.l1(scales=spreads) / self.epsilon

    def can_draw(self, spread: Fraction) -> bool:
        return spread <= LARGEST_SCALE

    def draw(self, spread: Fraction, size: int, rng: Randomness) -> NDArray[np.int64]:
        return discrete_laplace(scale=spread, size=size, rng=rng)

    def largest(self, spread: Fraction, *, count: int, beta: float) -> int:
        return laplace_max_quantile(scale=spread, count=count, beta=beta)

    def variance(self, spread: Fraction) -> Fraction:
        return 2 * spread**2

    def pair_reach(self, spread: Fraction, *, pairs: int, beta: float) -> tuple[float, ...]:
        # Draws of different pairs are independent.
        one = -expm1(log1p(-beta) / pairs)
        return tuple(laplace_pair_reach(shares=PAIR_SHARES, scale=spread, beta=one).tolist())

    def within(self, deviations: NDArray[np.float64], variance: float, beta: float) -> float:
        return laplace_and_normal_quantile(deviations, variance, beta)


@register
class LaplaceNumbers(Mechanism):
    name = "laplace-numbers"
    title = "Laplace noise on sums"
    summary = "Adds noise to each sum or count that the answer is read off, in proportion to its range."
    source = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014), Theorem 3.6"
    options = (EXPECTED_ROWS,)
    answers = (Sum, Mean, Variance, SecondMoments, Regression, LogisticRegression, Votes, WeightedCount)

    def _plan(self, request: PlanRequest) -> Plan:
        law = LaplaceLaw(epsilon=request.budget.epsilon)
        return plan_noisy_numbers(request, law, source=self.source, parameters={})


#: Above this variance the law's tail is bounded by the normal one instead of being summed.
_WIDE = 10**8


@dataclass(frozen=True, kw_only=True, slots=True)
class GaussianLaw:
    """Discrete Gaussian noise; a spread is its variance. See `SharingLaw`.

    Attributes:
        is_one_event: see `Allowance`.
    """

    rho: Fraction
    is_one_event: bool = False

    @property
    def event(self) -> Event:
        kind = AdaptiveDiscreteGaussianEvent if self.is_one_event else DiscreteGaussianEvent
        return kind(noise_variance=1 / (2 * self.rho))

    @property
    def quantile(self) -> tuple[str, str]:
        least = r"\min\left\{m : \Pr[|Z_j| \le m]^k \ge 1 - \beta\right\}"
        return least, r"\sigma_j \sqrt{2 \ln\frac{k}{\beta}} + 1"

    @property
    def takes_pairs(self) -> bool:
        return False

    @property
    def beside_replaced(self) -> Fraction:
        return Fraction(3, 4)

    def share_of_count(self, *, sums: int, own: float, shared: float) -> float:
        # The least of √sums · own / √(1 - s) + shared / √s.
        ours, counts = float(np.cbrt(sqrt(sums) * own)) ** 2, float(np.cbrt(shared)) ** 2
        return counts / (ours + counts)

    def spreads(self, moved: Changes, shares: Sequence[Fraction], *, base: Case) -> tuple[Fraction, ...]:
        alone = [most * most / share for most, share in zip(base, shares, strict=True)]
        together = moved.l2_squared(variances=alone)
        return tuple(each * together / (2 * self.rho) for each in alone)

    def cost(self, moved: Changes, spreads: Sequence[Fraction]) -> Fraction:
        return moved.l2_squared(variances=spreads) / (2 * self.rho)

    def can_draw(self, spread: Fraction) -> bool:
        return spread <= LARGEST_SCALE**2

    def draw(self, spread: Fraction, size: int, rng: Randomness) -> NDArray[np.int64]:
        return discrete_gaussian(variance=spread, size=size, rng=rng)

    def largest(self, spread: Fraction, *, count: int, beta: float) -> int:
        """The law's own quantile or, for wide noise, the normal one rounded up.

        That is never too small: the weights w(x) = exp(-x² / (2 v)) fall, so those past m sum to at most the integral
        of w from m, and all of them sum to at least √(2 π v) by Poisson's formula; hence Pr[|X| > m] is at most
        that of a normal variable of variance v, for every whole m.
        """
        if spread <= _WIDE:
            return gaussian_max_quantile(variance=spread, count=count, beta=beta)
        allowed = -expm1(log1p(-beta) / count) * (1 - 1e-9)
        return ceil(sqrt(spread) * -float(ndtri(allowed / 2)) * (1 + 1e-12))

    def variance(self, spread: Fraction) -> Fraction:
        return spread

    def pair_reach(self, spread: Fraction, *, pairs: int, beta: float) -> tuple[float, ...]:
        raise NotImplementedError("no pairs are measured with Gaussian noise")

    def within(self, deviations: NDArray[np.float64], variance: float, beta: float) -> float:
        return float(-ndtri(beta / 2) * np.sqrt(np.square(deviations).sum() + variance))


@register
class GaussianNumbers(Mechanism):
    name = "gaussian-numbers"
    title = "Gaussian noise on sums"
    summary = "Adds Gaussian noise to each sum or count that the answer is read off; best when there are several."
    source = "Canonne, Kamath and Steinke, The Discrete Gaussian for Differential Privacy (2020), Theorem 14"
    options = (EXPECTED_ROWS, ACCOUNTING)
    answers = (Sum, Mean, Variance, SecondMoments, Regression, LogisticRegression, Votes, WeightedCount)

    def _plan(self, request: PlanRequest) -> Plan:
        if isinstance(request.budget, PureDP):
            return infeasible(request, NEEDS_DELTA)
        try:
            allowance = Allowance.of_whole_noise(request.budget, request.options[ACCOUNTING.name])
        except EngineError:
            return infeasible(request, "No Gaussian noise is calibrated to so small an epsilon and delta. Spend more.")
        rho = allowance.amount
        return plan_noisy_numbers(
            request,
            GaussianLaw(rho=rho, is_one_event=allowance.is_one_event),
            source=self.source,
            parameters={"rho": decimal_text(rho), **calibrations(request.budget, rho=rho)},
        )
