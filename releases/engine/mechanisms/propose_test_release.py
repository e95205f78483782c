r"""Propose, test, release: a median, quantile or trimmed mean with noise for a sensitivity that was guessed and tested.

The curator proposes eta, how far one unit could move the answer in a table like this one. The table is tested, with
noise, for being far from any where that is untrue. If it passes, the answer is released with noise of scale
eta / epsilon_2; if not, "no answer" is, at the same price (Dwork and Lei 2009, section 1.2; Dwork and Roth 2014,
section 7.2; Avella-Medina and Brunel 2020).

The distance. Let phi(D) be a whole number that one row's step (add or remove, or replace where a row may also vanish or
appear) changes by at most 1, such that where phi(D) >= g the answer of every neighbour is within eta of D's, g being
the most rows of a unit. A unit's step is at most g of a row's, so phi // g changes by at most 1 from a table to its
neighbour, and is 0 where some neighbour's answer is more than eta away.

1.  A quantile: the least k with A_k(D) > eta (`smooth_sensitivity.distance_to_instability`). A unit changes the answer
    by at most A_(g-1), so phi >= g is enough.
2.  The mean without the a smallest and the a largest values, N = n - 2a values being left and W_k = x_(n-a+1+k) -
    x_(a-k) (values past the ends are those of the declared range). A row that joins m rows adds to the N left its own
    value, clamped between the a-th smallest and the a-th largest: it moves their mean by at most W_0 / (N + 1). The
    gap W_0 shrinks when a row goes, so a row added, removed or replaced moves the mean by at most psi_0, where
    psi_k = W_k / (N - k), if two values or more are left. A step moves ranks by at most 1 and adds at most one row:
    W_k <= W'_(k+1), N' - (k + 1) <= N - k, psi_k <= psi'_(k+1). Let phi be the least k with g psi_k > eta or
    N - k <= 1. It changes by at most 1 in a step, and where phi >= g the j-th of a unit's g steps moves the mean by at
    most psi_j <= psi_(g-1) <= eta / g, j = 0 ... g - 1.
    (The plain mean is a = 0: W_0 is the whole range and testing finds out nothing but the number of rows.)

The test passes if phi // g + X >= T, X discrete Laplace of scale 1 / epsilon_1 and T the least integer with
Pr[X >= T] = e^(-epsilon_1 T) / (1 + e^(-epsilon_1)) <= delta.

Proof of (epsilon_1 + epsilon_2, delta)-DP, the noisy distance being released too. Let D, D' be neighbours. If their
answers are within eta, the noisy distance is epsilon_1-DP, and given it, released or not is decided, and the answer,
rounded to a lattice of which eta is a multiple, moves by at most eta: epsilon_2-DP. If they are not, phi // g is 0 on
both: the noisy distances have one law, and both pass with probability at most delta; but for that they are alike.

Corrected from the notes. (i) Their distance, the least k such that some table within k steps has |f(D) - f(D')| > eta,
is measured from f(D), which changes too: from (0 twice, 4 twice) in [0, 7] with eta = 3 it is 1, with a 3 among them it
is 6, and no noise for a sensitivity of 1 hides that. Distances to a table of large local sensitivity (Dwork and Roth)
move by 1. (ii) Its threshold 1 + ln(2 / delta) / epsilon is larger than need be: an unstable table has distance 0, and
the tail of Laplace noise gives ln(1 / (2 delta)) / epsilon. (iii) A refusal is an output and is paid for.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from releases.engine.accounting.calibration import laplace_passes
from releases.engine.accounting.events import ApproximateEvent
from releases.engine.arithmetic.intervals import ceil_div
from releases.engine.bounds.accuracy import Bound, Proof, laplace_max_quantile
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.privacy import ApproxDP, decimal_text, exact
from releases.engine.errors import InvalidInput
from releases.engine.estimation.result import Result
from releases.engine.mechanisms.base import Mechanism, Option, Plan, PlanRequest, Progress, Work, infeasible, register
from releases.engine.mechanisms.smooth_median import quantile_in_words
from releases.engine.noise.discrete import LARGEST_SCALE, discrete_laplace
from releases.engine.noise.randomness import Randomness
from releases.engine.tables.counts import Counts
from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.kinds.quantile import Quantile
from releases.engine.workload.questions import Inquiry
from releases.engine.workload.smooth_sensitivity import SortedColumn, distance_to_instability
from releases.engine.workload.statistic import Statistic

#: A mean is released on a lattice of so many parts of the proposal; rounding then adds a 2000th of it.
_PARTS = 1024
NO_ANSWER = "no answer"
_FORMULA = (
    r"\alpha = \min\left\{ m : \Pr[|X| > m] \le \beta \right\} \approx "
    r"\frac{2 \eta}{\varepsilon} \ln\frac{1}{\beta}"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Amount(Option):
    """An option that is a decimal number above 0, kept as its shortest text."""

    def read(self, value: object) -> int | str | None:
        if value is None or value == "":
            return self.default
        if not isinstance(value, (str, int)) or isinstance(value, bool):
            raise InvalidInput(f"options.{self.name}", value, "must be a decimal number above 0, such as 2.5")
        amount = exact(value, field=f"options.{self.name}")
        if amount <= 0:
            raise InvalidInput(f"options.{self.name}", value, "must be a decimal number above 0, such as 2.5")
        return decimal_text(amount, places=30)


PROPOSE = Amount(
    name="propose",
    help="How far one unit could move the answer, in the column's units (days of dates, seconds of times): a public "
    "guess. If the table is not far from breaking it, there is no answer, at the same price. Left empty, 1% of the "
    "declared range (0.1% for a mean).",
)
TRIM = Option(
    name="trim",
    help="For a mean: how many of the smallest and of the largest values are left out. Left empty, so many that the "
    "test does not meet the ends of the range.",
    lowest=0,
    highest=10**9,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """What is guessed of one answer, and how it is tested. All public; lengths in units of the column's last place.

    Attributes:
        eta: how far one unit could move the answer.
        step: of the lattice the answer is on; eta is a whole number of steps.
        threshold: T, in units of the table.
        trim: a, of a mean.
        epsilon: for the test, and again for the answer.
    """

    eta: Fraction
    step: Fraction
    threshold: int
    trim: int
    epsilon: Fraction

    @property
    def scale(self) -> Fraction:
        """Of the answer's noise, in steps."""
        return self.eta / self.step / self.epsilon


@register
class ProposeTestRelease(Mechanism):
    name = "propose-test-release"
    title = "Propose, test, release"
    summary = (
        "Tests whether one unit could move the answer by more than a proposed step: little noise if not; if so, no "
        "answer is given and the price is paid all the same."
    )
    may_refuse = True
    source = "Dwork and Lei, Differential Privacy and Robust Statistics (2009); Dwork and Roth (2014), section 7.2"
    options = (PROPOSE, TRIM)
    answers = (Quantile, Mean)

    def _plan(self, request: PlanRequest) -> Plan:
        if not isinstance(request.budget, ApproxDP):
            return infeasible(request, "It needs a delta above 0: a table at the edge passes the test now and then.")
        if isinstance(request.statistic, Mean) and request.statistic.weight is not None:
            return infeasible(request, "It answers no weighted means.")
        if len(request.statistic.attributes) > 1:
            return infeasible(request, "It answers one mean at a time: each needs a proposal of its own.")
        attribute = request.schema.universe[request.statistic.attributes[0]]
        proposal = _proposal(request, attribute)
        if proposal.eta <= 0:
            least = attribute.span(1)
            what = "the last place of the column" if attribute.dates is None else "the least step between dates"
            return infeasible(request, f"Its proposal must be at least {least}, {what}.")
        if max(proposal.scale, 1 / proposal.epsilon) > LARGEST_SCALE:
            return infeasible(request, "Its noise would not fit 64-bit numbers at so small an epsilon.")
        return ProposeTestReleasePlan(
            **request.inputs(),
            proposal=proposal,
            events=(ApproximateEvent(epsilon=request.budget.epsilon, delta=request.budget.delta),),
            parameters=_facts(request, attribute, proposal),
            bound=_bound_of_answer(request, attribute, proposal),
            work=Work(cells=0, seconds=0.5, bytes=80_000_000),
        )


@dataclass(frozen=True, kw_only=True)
class ProposeTestReleasePlan(Plan):
    """One quantile or trimmed mean, or no answer."""

    proposal: Proposal

    def _run(self, counts: Counts, rng: Randomness, progress: Progress) -> Result:
        assert isinstance(self.workload, Inquiry)
        statistic = self.workload.statistic
        attribute = self.schema.universe[statistic.attributes[0]]
        progress("Counting the table", 0.0)
        column = SortedColumn.of(counts.tally(statistic.attributes), attribute)
        progress("Testing the proposal", 0.4)
        distance = self._distance(column, statistic) // self.schema.rows_of_unit
        noisy = distance + int(discrete_laplace(scale=1 / self.proposal.epsilon, size=1, rng=rng)[0])
        progress("Adding noise", 0.7)
        # Drawn whether it is used or not, so that a refusal takes as long.
        noise = int(discrete_laplace(scale=self.proposal.scale, size=1, rng=rng)[0])
        exact_steps = _truth(column, statistic, self.proposal.trim) / self.proposal.step
        steps = (2 * exact_steps.numerator + exact_steps.denominator) // (2 * exact_steps.denominator)
        noisy_answer = (steps + noise) * self.proposal.step
        answer = min(max(noisy_answer, Fraction(attribute.lowest)), Fraction(attribute.highest))
        notes = {"noisy distance": noisy, "threshold": self.proposal.threshold}
        if noisy < self.proposal.threshold:
            return self._refused(attribute, {"answered": False, **notes})
        assert self.bound is not None
        estimates = (np.array([_in_units(answer, attribute)]),)
        return Result(estimates=estimates, bound=self.bound, total=0.0, notes={"answered": True, **notes})

    def _distance(self, column: SortedColumn, statistic: Statistic) -> int:
        """phi, in a row's steps."""
        if isinstance(statistic, Quantile):
            neighbours = self.schema.neighbours
            return distance_to_instability(column, q=statistic.at, neighbours=neighbours, bound=int(self.proposal.eta))
        rows = self.schema.rows_of_unit
        return distance_of_trimmed_mean(column, trim=self.proposal.trim, bound=self.proposal.eta / rows)

    def _refused(self, attribute: Attribute, notes: dict[str, Any]) -> Result:
        """No answer: the middle of the declared range stands where a number must."""
        low, high = (_in_units(Fraction(end), attribute) for end in (attribute.lowest, attribute.highest))
        (part,) = self.workload.families
        bound = Bound(
            beta=self.beta,
            half_widths=((high - low) / 2,),
            proof=Proof.BEFORE,
            formula=r"\alpha = \frac{U - L}{2}",
            source="the declared range",
            says=f"nothing is known but that the {part.title(self.schema.universe)} lies in the declared range: the "
            f"proposal was refused, at its full price.",
        )
        return Result(
            estimates=(np.array([(low + high) / 2]),), bound=bound, total=0.0, chosen=(NO_ANSWER,), notes=notes
        )


def distance_of_trimmed_mean(column: SortedColumn, *, trim: int, bound: Fraction) -> int:
    """The least k with W_k > bound (N - k), or N - k <= 1: case 2 at the head of this file, by bisection."""
    left = column.rows - 2 * trim

    def is_unstable(k: int) -> bool:
        if left - k <= 1:
            return True
        low, high = column.at(np.asarray([trim - k, column.rows - trim + 1 + k])).tolist()
        return bool(high - low > bound * (left - k))

    low, high = 0, max(0, left - 1)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_unstable(middle) else (middle + 1, high)
    return low


def trimmed_mean(column: SortedColumn, *, trim: int) -> Fraction:
    """The mean without the `trim` smallest and largest values; the middle of the range where none is left."""
    left = column.rows - 2 * trim
    if left <= 0:
        return Fraction(column.lowest + column.highest, 2)
    below = np.clip(column.last, trim, column.rows - trim)
    kept = np.diff(below, prepend=trim)
    # Python's own integers: a sum of 10^9 values of 2^53 passes 64 bits.
    return Fraction(int(np.dot(column.values.astype(object), kept.astype(object))), left)


def _proposal(request: PlanRequest, attribute: Attribute) -> Proposal:
    """The curator's, or one from the declared range alone."""
    assert isinstance(request.budget, ApproxDP)
    share = request.budget.epsilon / 2
    threshold = laplace_passes(scale=1 / share, probability=request.budget.delta)
    typed, trim = request.options["propose"], request.options["trim"]
    is_mean = isinstance(request.statistic, Mean)
    width = attribute.highest - attribute.lowest
    if typed is not None:
        eta = exact(typed, field="options.propose") * 10**attribute.decimals
    else:
        eta = Fraction(width, 1000) if is_mean else Fraction(ceil_div(width, 100))
    if not is_mean:
        eta = Fraction(int(eta))
    return Proposal(
        eta=eta,
        step=eta / _PARTS if is_mean else Fraction(1),
        threshold=threshold,
        trim=2 * threshold * request.schema.rows_of_unit if not isinstance(trim, int) else trim,
        epsilon=share,
    )


def _truth(column: SortedColumn, statistic: Statistic, trim: int) -> Fraction:
    if isinstance(statistic, Quantile):
        return Fraction(column.quantile(statistic.at))
    return trimmed_mean(column, trim=trim)


def _bound_of_answer(request: PlanRequest, attribute: Attribute, proposal: Proposal) -> Bound:
    """Noise is independent of the test, so an answer further off is given with probability at most beta."""
    steps = Fraction(laplace_max_quantile(scale=proposal.scale, count=1, beta=float(request.beta)))
    if isinstance(request.statistic, Mean):
        steps += Fraction(1, 2)  # rounding to the lattice
    width = min(steps * proposal.step, Fraction(attribute.highest - attribute.lowest))
    of_column = "" if attribute.dates is not None else f", in units of {attribute.name},"
    return Bound(
        beta=request.beta,
        half_widths=(_in_units(width, attribute),),
        proof=Proof.BEFORE,
        formula=_FORMULA,
        source="Dwork and Roth (2014), Theorem 3.8, with the exact quantile",
        says=f"either no answer is given, or one within {_shown(width, attribute)}{of_column} of "
        f"{_what(request, proposal)}.",
    )


def _what(request: PlanRequest, proposal: Proposal) -> str:
    (part,) = request.workload.families
    name = f"the {part.title(request.schema.universe)} of the table"
    if isinstance(request.statistic, Quantile) or not proposal.trim:
        return name
    return f"{name} without its {proposal.trim:,} smallest and {proposal.trim:,} largest values"


def _facts(request: PlanRequest, attribute: Attribute, proposal: Proposal) -> dict[str, str]:
    facts = {
        "answer": quantile_in_words(request.statistic, request.schema.counted)
        if isinstance(request.statistic, Quantile)
        else _what(request, proposal),
        "proposal": _shown(proposal.eta, attribute),
        "threshold": f"{proposal.threshold:,}",
        "noise scale": _shown(proposal.scale * proposal.step, attribute),
        "epsilon of the test and of the answer": f"{decimal_text(proposal.epsilon)} each",
    }
    if isinstance(request.statistic, Mean):
        facts["left out at each end"] = f"{proposal.trim:,}"
    return facts


def _shown(units: Fraction, attribute: Attribute) -> str:
    """A length in the column's units, rounded up to four digits or to its last place; of dates to a whole step."""
    if attribute.dates is not None:
        return attribute.span(ceil_div(units.numerator, units.denominator))
    length = units / 10**attribute.decimals
    places = attribute.decimals
    while length * 10**places < 10**3 and (length * 10**places).denominator != 1:
        places += 1
    return decimal_text(length, places=places)


def _in_units(units: Fraction, attribute: Attribute) -> float:
    return float(units / 10**attribute.decimals)
