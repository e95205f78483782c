"""Privacy filters: whether a ledger may accept one more release, and what it has promised when it stops.

A filter is asked before every release and may refuse; who asks chooses every release, and how much it spends,
after seeing all earlier answers. One policy is chosen for a dataset and never changed.

PURE      accept iff   sum epsilon <= epsilon_B, every release being pure.
APPROX    accept iff   sum epsilon <= epsilon_B and sum delta <= delta_B.
ZCDP      accept iff   Z: sum rho <= rho_B and sum rho_delta <= delta_0, or
                       C: sum epsilon <= epsilon_B and sum delta <= delta_C,
          where delta_B = delta' + delta_0 + delta_C in the proportion 8 : 1 : 1, and rho_B is the largest rho
          that converts to at most epsilon_B at delta' (Canonne, Kamath and Steinke 2020, Corollary 13).

All four sums run over every accepted release, whichever branch let it in.

**Theorem.** Under each policy everything accepted is together (epsilon_B, delta_B)-DP.

*Setting.* Fix neighbours, and an adversary who at each step picks a mechanism from the transcript so far (its
own coins are part of the transcript), or stops. Its price is a function of what it picks. A refused step
touches no data, and the adversary may go on. Let P and Q be the laws of the final transcript t on the two
tables, with densities p and q: products over the accepted steps of the steps' densities given what came
before. Write H(P, Q) = integral of (p - e^epsilon_B q)_+ over t; (epsilon_B, delta_B)-DP is H <= delta_B,
both ways round.

*Branch C alone* (also APPROX, and PURE with no delta at all). Each accepted step splits as in
`accountant.Forms`: p_i = (1 - d_i) p'_i + d_i (anything), likewise q_i with the same d_i, and p'_i <=
e^(epsilon_i) q'_i; here d_i and epsilon_i may depend on the transcript. Let w = prod (1 - d_i), p' = prod
p'_i, q' = prod q'_i. Then p >= w p' and q >= w q', and the mass of p - w p' is the probability that some step
takes its exceptional part, at most the expected sum of d_i up to the first such step, at most delta_C, for
the sum is so bounded on every path. Also p' <= e^(sum epsilon_i) q' <= e^epsilon_B q'. So H <= delta_C +
integral of w (p' - e^epsilon_B q')_+ = delta_C. (Rogers, Roth, Ullman and Vadhan 2016.)

*Branch Z alone.* The same split, but with D_a(P'_i||Q'_i) <= a rho_i for every a > 1. Then, as before, H <=
delta_0 + integral of (p' - e^epsilon_B q')_+, and D_a(P'||Q') <= a rho_B: with remaining budget r, the
largest integral of p'^a q'^(1-a) that any adversary reaches, V(r), satisfies V(r) <= e^((a-1) a rho_1) V(r -
rho_1) by conditioning on the first step, so V(r) <= e^((a-1) a r) by induction on the number of steps. One
conversion gives delta' for the integral. The order a is free after the fact, for the bound holds at every a
at once. (Feldman and Zrnic 2021; Whitehouse, Ramdas, Rogers and Wu 2023 for the approximate form.)

*The union.* The sums never fall, so a transcript whose final sums satisfy Z satisfied Z after every step, and
likewise C; and the final sums satisfy Z or C, for the last accepted step was so accepted. Let T_Z be the
transcripts that end in Z, and let P_Z, Q_Z be the laws of the same run, by the same adversary before the same
filter, but halted before the first accepted step that would break Z. In the halted run the sums satisfy Z on
every path, so H(P_Z, Q_Z) <= delta' + delta_0. A transcript of T_Z is never halted, so p = p_Z and q = q_Z at
every point of T_Z. And H is an integral of a non-negative function of the point, so its part over T_Z is at
most H(P_Z, Q_Z). All other transcripts end in C, and in the same way their part is at most H(P_C, Q_C) <=
delta_C. Together delta_B. QED

It matters that both branches speak of one epsilon_B and that delta_B is split between them: two budgets with
different epsilons, or each branch with the whole delta_B, would not add up so. A release that is given back
before it touched data never ran: read every sum above as running over what ran, which the ledger's sums
bound.

*Interactive sessions* (online multiplicative weights) are charged in full when they are opened. Their rounds
may then interleave with other releases: filters for (epsilon, delta)-DP and for Rényi DP of each fixed order
extend to concurrent composition (Haney et al. 2023), and Z with no rho_delta is the latter at every order. A
session whose own price has a rho_delta is not covered by that theorem and must not be interleaved.

Sums are whole units, prices rounded up and caps rounded down. A form a release does not have is booked as
CLOSED, an amount no cap reaches, so its branch is shut from then on; sums saturate there, so they always fit
a signed 64-bit column: `spent = LEAST(spent + amount, CLOSED)`. To give back a release that never ran, add up
the remaining entries anew; subtraction cannot undo a saturated sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any

from releases.engine.accountant import DELTA_PLACES, EPSILON_PLACES, Price
from releases.engine.certified import ceiling, floor
from releases.engine.composition import Guarantee, Question
from releases.engine.conversions import epsilon_of_rho, largest_rho, rho_of_pure
from releases.engine.errors import InvalidInput, Unpriceable
from releases.engine.privacy import LARGEST_EPSILON, decimal_text

#: Booked where a release has no such form, and where a sum stops: above every cap (the largest, of delta, is
#: below 10**18), and twice it still fits a signed 64-bit integer.
CLOSED = 4 * 10**18


class Policy(StrEnum):
    """What a dataset's ledger adds up. Chosen once, when the budget is granted."""

    PURE = "pure"
    APPROX = "approx"
    ZCDP = "zcdp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Sums over all accepted releases, or the amounts one release adds to them; named as the ledger's
    columns.

    Attributes:
        spent_epsilon, spent_rho: in 10**-12.
        spent_delta, spent_rho_delta: in 10**-18.
    """

    spent_epsilon: int = 0
    spent_delta: int = 0
    spent_rho: int = 0
    spent_rho_delta: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            amount = getattr(self, field.name)
            if isinstance(amount, bool) or not isinstance(amount, int) or not 0 <= amount <= CLOSED:
                raise InvalidInput(field.name, amount, f"must be a whole number from 0 to {CLOSED}")

    def plus(self, amounts: Totals) -> Totals:
        """The sums after one more release; each stops at CLOSED."""
        return Totals(**{name: min(CLOSED, amount + getattr(amounts, name)) for name, amount in self.columns().items()})

    def columns(self) -> dict[str, int]:
        """Column name to amount, for an UPDATE."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def of(entries: Iterable[Totals]) -> Totals:
        """The sums of a ledger, anew from its entries."""
        sums = Totals()
        for entry in entries:
            sums = sums.plus(entry)
        return sums


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """One condition: the column, with the release's amount added, is at most the cap."""

    column: str
    cap: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """Conditions that must all hold. A release is accepted if those of any one branch do."""

    name: str
    limits: tuple[Limit, ...]

    def holds(self, totals: Totals) -> bool:
        return all(getattr(totals, limit.column) <= limit.cap for limit in self.limits)


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """A budget in the ledger's units, rounded down, under one policy. Made by `Caps.of`.

    Attributes:
        epsilon: epsilon_B, in 10**-12.
        delta: delta_B, in 10**-18.
        rho: rho_B, in 10**-12; 0 unless the policy is ZCDP.
    """

    policy: Policy
    epsilon: int
    delta: int
    rho: int

    @staticmethod
    def of(policy: Policy, *, epsilon: Fraction, delta: Fraction) -> Caps:
        """The integer caps of a budget, rounded down.

        Raises:
            InvalidInput: epsilon or delta is out of range, or the policy has no use for that delta.
            Unpriceable: the budget is too small for a rho of 10**-12.
        """
        _check_budget(policy, epsilon=epsilon, delta=delta)
        whole = Caps(
            policy=policy,
            epsilon=floor(epsilon, places=EPSILON_PLACES),
            delta=floor(delta, places=DELTA_PLACES),
            rho=0,
        )
        if policy is not Policy.ZCDP:
            return whole
        conversion = Fraction(whole.delta - 2 * whole._share, 10**DELTA_PLACES)
        rho = largest_rho(epsilon=whole.guarantee.epsilon, delta=conversion)
        return replace(whole, rho=floor(rho, places=EPSILON_PLACES))

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The conditions as an OR of ANDs over the ledger's columns, as a conditional UPDATE states them."""
        basic = Branch(
            name="basic",
            limits=(
                Limit(column="spent_epsilon", cap=self.epsilon),
                Limit(column="spent_delta", cap=self._share if self.policy is Policy.ZCDP else self.delta),
            ),
        )
        if self.policy is not Policy.ZCDP:
            return (basic,)
        concentrated = Branch(
            name="concentrated",
            limits=(
                Limit(column="spent_rho", cap=self.rho),
                Limit(column="spent_rho_delta", cap=self._share),
            ),
        )
        return concentrated, basic

    @property
    def guarantee(self) -> Guarantee:
        """What holds for everything accepted, however it was chosen: the theorem above."""
        return Guarantee(
            epsilon=Fraction(self.epsilon, 10**EPSILON_PLACES),
            delta=Fraction(self.delta, 10**DELTA_PLACES),
            question=Question.FILTER,
            source=f"{self.policy.value} filter",
        )

    @property
    def _share(self) -> int:
        """delta_0 and delta_C: a tenth of delta_B each. delta' is the rest."""
        return self.delta // 10

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy.value,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortfall:
    """Why one branch refuses: the column, what it would reach, and its cap."""

    branch: str
    column: str
    would_be: int
    cap: int

    def in_words(self) -> str:
        places = EPSILON_PLACES if self.column in ("spent_epsilon", "spent_rho") else DELTA_PLACES
        what = self.column.removeprefix("spent_").replace("_", " ")
        if self.would_be >= CLOSED:
            return f"there is no {what} left to add up by in the {self.branch} form"
        would_be, cap = (
            decimal_text(Fraction(units, 10**places), places=places) for units in (self.would_be, self.cap)
        )
        return f"{what} would come to {would_be}, and the budget allows {cap}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Remaining:
    """What could still be accepted as one more release, each figure by itself, in the ledger's units.

    Attributes:
        pure_epsilon: the largest epsilon of one more pure mechanism. epsilon, delta: what is left of the
        basic sums; 0 and 0 where that branch is shut. rho, rho_delta: what is left of the concentrated sums;
        0 and 0 where that branch is shut or not in the policy.
    """

    pure_epsilon: int
    epsilon: int
    delta: int
    rho: int
    rho_delta: int


def amounts(price: Price, *, policy: Policy) -> Totals:
    """What a release adds to each sum; CLOSED where it has no such form.

    Under PURE its pure form. Under APPROX its approximate form, at the delta it allowed itself. Under ZCDP
    the pure form where there is one, since it leaves the small delta of the basic branch alone, else the
    approximate one.
    """
    epsilon, delta = price.epsilon, price.delta
    if policy is Policy.PURE or (policy is Policy.ZCDP and price.pure_epsilon is not None):
        epsilon, delta = price.pure_epsilon, 0
    return Totals(
        spent_epsilon=CLOSED if epsilon is None else min(CLOSED, epsilon),
        spent_delta=CLOSED if epsilon is None else min(CLOSED, delta),
        spent_rho=CLOSED if price.rho is None else min(CLOSED, price.rho),
        spent_rho_delta=CLOSED if price.rho is None else min(CLOSED, price.rho_delta),
    )


def admits(spent: Totals, charge: Price, caps: Caps) -> bool:
    """Whether a release of this price may be accepted after what was spent."""
    after = spent.plus(amounts(charge, policy=caps.policy))
    return any(branch.holds(after) for branch in caps.branches)


def shortfalls(spent: Totals, charge: Price, caps: Caps) -> tuple[Shortfall, ...]:
    """Every condition that a refused release breaks, for the page that explains it; empty if it is
    accepted.
    """
    if admits(spent, charge, caps):
        return ()
    after = spent.plus(amounts(charge, policy=caps.policy))
    return tuple(
        Shortfall(branch=branch.name, column=limit.column, would_be=getattr(after, limit.column), cap=limit.cap)
        for branch in caps.branches
        for limit in branch.limits
        if getattr(after, limit.column) > limit.cap
    )


def report(spent: Totals, caps: Caps) -> Guarantee:
    """The strongest statement that holds for what was spent.

    Precisely: any run, however adaptive, whose sums can never exceed `spent` in any column is (epsilon,
    delta)-DP with what is returned; it is the theorem above with `spent` in place of the caps, the lesser
    epsilon of the basic sums and of the converted rho at the budget's whole delta. For a history whose sums
    came about by chance it is therefore a description (DISPLAY); what was promised to the people in the table
    is `Caps.guarantee`, which it never exceeds while the filter is kept. Under PURE it holds without that
    reservation: every transcript's ratio is at most e^(sum epsilon) of that transcript.

    Raises:
        Unpriceable: no branch of the policy has all its forms.
    """
    proved = []
    delta = Fraction(spent.spent_delta, 10**DELTA_PLACES)
    if spent.spent_epsilon < CLOSED and spent.spent_delta <= caps.delta:
        proved.append((Fraction(spent.spent_epsilon, 10**EPSILON_PLACES), delta, "sums of epsilon and delta"))
    spare = Fraction(caps.delta - spent.spent_rho_delta, 10**DELTA_PLACES)
    if caps.policy is Policy.ZCDP and spent.spent_rho < CLOSED and spare > 0:
        rho = Fraction(spent.spent_rho, 10**EPSILON_PLACES)
        converted = Fraction(ceiling(epsilon_of_rho(rho=rho, delta=spare), places=EPSILON_PLACES))
        budget = Fraction(caps.delta, 10**DELTA_PLACES)
        proved.append((converted / 10**EPSILON_PLACES, budget, "sum of rho, converted"))
    if not proved:
        raise Unpriceable("What was spent fits no branch of this policy, so nothing can be stated about it.")
    epsilon, delta, source = min(proved)
    exact = caps.policy is Policy.PURE
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        question=Question.FILTER if exact else Question.DISPLAY,
        source=source,
    )


def remaining(spent: Totals, caps: Caps) -> Remaining:
    """What one more release may cost."""
    left = {}
    for branch in caps.branches:
        is_open = branch.holds(spent)
        for limit in branch.limits:
            left[limit.column] = limit.cap - getattr(spent, limit.column) if is_open else 0
    pure = max(left["spent_epsilon"], _largest_pure(left.get("spent_rho", 0), most=LARGEST_EPSILON))
    return Remaining(
        pure_epsilon=pure,
        epsilon=left["spent_epsilon"],
        delta=left["spent_delta"],
        rho=left.get("spent_rho", 0),
        rho_delta=left.get("spent_rho_delta", 0),
    )


def _check_budget(policy: Policy, *, epsilon: Fraction, delta: Fraction) -> None:
    if not isinstance(epsilon, Fraction) or not Fraction(1, 10**EPSILON_PLACES) <= epsilon <= LARGEST_EPSILON:
        raise InvalidInput("epsilon", str(epsilon), f"must be an exact rational from 10**-12 to {LARGEST_EPSILON}")
    if not isinstance(delta, Fraction) or not 0 <= delta < 1:
        raise InvalidInput("delta", str(delta), "must be an exact rational from 0 to below 1")
    if policy is Policy.PURE and delta != 0:
        raise InvalidInput("delta", str(delta), "must be 0 under the pure policy")
    if policy is Policy.APPROX and delta < Fraction(1, 10**DELTA_PLACES):
        raise InvalidInput("delta", str(delta), "must be at least 10**-18 under the approx policy")
    if policy is Policy.ZCDP and delta < Fraction(10, 10**DELTA_PLACES):
        raise InvalidInput("delta", str(delta), "must be at least 10**-17 under the zcdp policy, which splits it")


def _largest_pure(rho_units: int, *, most: int) -> int:
    """The largest epsilon, in units, whose rho, in units and rounded up, is at most `rho_units`; by
    bisection.
    """
    low, high = 0, most * 10**EPSILON_PLACES + 1
    while high - low > 1:
        middle = (low + high) // 2
        rho = rho_of_pure(epsilon=Fraction(middle, 10**EPSILON_PLACES))
        if ceiling(rho, places=EPSILON_PLACES) <= rho_units:
            low = middle
        else:
            high = middle
    return low
