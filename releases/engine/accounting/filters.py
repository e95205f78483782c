"""Privacy filters: whether a ledger may accept one more release, and what it has promised when it stops.

A filter is asked before every release and may refuse; who asks chooses every release, and how much it spends,
after seeing all earlier answers. One policy is chosen for a dataset and never changed.

PURE      accept iff   sum epsilon <= epsilon_B, every release being pure.
APPROX    accept iff   sum epsilon <= epsilon_B and sum delta <= delta_B.
ZCDP      accept iff   M: for every x, (1 - e^(epsilon_B - x))_+ <= delta' sum_j lambda_j e^((a_j - 1)(x - R_j)), and
                          sum rho_delta <= delta_0, or
                       C: sum epsilon <= epsilon_B and sum delta <= delta_C,
          where delta' + delta_0 + delta_C <= delta_B in the proportion 8 : 1 : 1, and R_j is the sum of the releases'
          Rényi divergences of order a_j, a public grid of orders whose public weights lambda_j depend on epsilon_B
          and delta_B alone. `mixture` has the grid, the weights, and the exact test of M.

All sums run over every accepted release, whichever branch let it in. A release of rho costs a rho at order a, a pure
one at most the divergence of randomized response of its epsilon, which no pure mechanism exceeds.

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

*Branch M alone.* The same split, but with D_a(P'_i||Q'_i) <= r_i(a) at every a of the grid, r_i a function of
what was picked. Halt the run before the first accepted step that would break M or sum rho_delta <= delta_0. As
before H <= delta_0 + integral of (p' - e^epsilon_B q')_+, for sum d_i <= delta_0 on every path. Let L =
ln(p'/q') and R_j the sum of r_i(a_j) so far. Given the past, the mean of e^((a_j - 1) l_i) under P'_i, l_i the
step's own part of L, is e^((a_j - 1) D) <= e^((a_j - 1) r_i(a_j)), so e^((a_j - 1)(L - R_j)) is a
supermartingale under P' that begins at 1. So is the mixture M_t = sum_j lambda_j e^((a_j - 1)(L - R_j)),
beginning at sum lambda_j <= 1, and its mean at the end is at most 1. At the end M holds, for x = L too: (1 -
e^(epsilon_B - L))_+ <= delta' M_t. So the integral, which is the mean of the left side under P', is at most
delta'. (Feldman and Zrnic 2021 for one order; Whitehouse, Ramdas, Rogers and Wu 2023 for mixtures.) An infinite
number of steps is the limit of finite ones.

*The union.* The sums never fall, and where M holds it holds for all smaller sums, so a transcript whose final
sums satisfy M satisfied M after every step, and likewise C; and the final sums satisfy M or C, for the last
accepted step was so accepted. Let T_M be the transcripts that end in M, and let P_M, Q_M be the laws of the
same run, by the same adversary before the same filter, but halted before the first accepted step that would
break M. In the halted run the sums satisfy M on every path, so H(P_M, Q_M) <= delta' + delta_0. A transcript of
T_M is never halted, so p = p_M and q = q_M at every point of T_M. And H is an integral of a non-negative
function of the point, so its part over T_M is at most H(P_M, Q_M). All other transcripts end in C, and in the
same way their part is at most H(P_C, Q_C) <= delta_C. Together delta_B. QED

*A budget that is raised.* Both branches of a smaller budget imply those of a larger one (`mixture`, on the
weights), so what was accepted before a grant is within the largest grant's promise, whoever raised it and
whatever they had seen. Larger means in epsilon and in delta: after (1, 10**-3) and (10, 10**-6) the promise is
(10, 10**-3), and neither alone holds. So no grant may be smaller than an earlier one in either, once something was
charged: what was accepted under the larger stays accepted, and a smaller number shown later would not be proved. The
ledger refuses such a grant, the database too, and freezing stops a budget instead.

*The rule of before.* Budgets granted under it have Z in place of M: sum rho <= rho_B and sum rho_delta <=
delta_0, rho_B the largest rho that converts to epsilon_B at delta' (Canonne, Kamath and Steinke 2020, Corollary
13). At every order D_a <= a rho_B, so the bound above holds with one order and weight 1, and the proof of the
union is the same. But an adversary could end in Z where it knows that the rule will change, and in M elsewhere,
and the two parts of delta' would add up. So such a budget keeps Z until a grant whose M holds at the sums a_j
rho_B, for the largest rho_B it ever had: then Z implies M (`replaces`). A budget that nothing was charged to
may change at any grant.

It matters that both branches speak of one epsilon_B and that delta_B is split between them: two budgets with
different epsilons, or each branch with the whole delta_B, would not add up so. A release that is given back
before it touched data never ran: read every sum above as running over what ran, which the ledger's sums
bound.

*Interactive sessions* (online multiplicative weights) are charged in full when they are opened. Their rounds
may then interleave with other releases: filters for (epsilon, delta)-DP and for Rényi DP of each fixed order
extend to concurrent composition (Haney et al. 2023). M needs it of each order by itself: that the mean of
e^((a_j - 1)(L - R_j)) over the halted concurrent run is at most 1, for its bound is the weighted sum of these
means. The theorem says so of a fixed cap B in place of R_j. Let B be above R_j on every path of a run of so
many steps, and let the adversary end with Gaussian noise whose divergence of order a_j is B - R_j exactly: that
fits under B, and its factor is e^((a_j - 1)(B - R_j)), so the mean with R_j is at most 1 as well. A session
whose own price has a rho_delta is not covered by that theorem and must not be interleaved. A proof of this step
without that theorem is in docs/explanation/filter.md.

Sums are whole units, prices rounded up and caps rounded down. A form a release does not have is booked as
CLOSED, an amount no cap reaches, so its branch is shut from then on; sums saturate there, so they always fit
a signed 64-bit column. To give back a release that never ran, add up
the remaining entries again; subtraction cannot undo a saturated sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from math import ceil, log, log1p
from typing import Any

from releases.engine.accounting.accountant import DELTA_PLACES, EPSILON_PLACES, Price
from releases.engine.accounting.composition import FigureUse, Guarantee
from releases.engine.accounting.conversions import epsilon_of_renyi, epsilon_of_rho, largest_rho, rho_of_pure
from releases.engine.accounting.mixture import ORDERS, MixtureRule, divergences, largest
from releases.engine.arithmetic.rounding import ceiling, floor
from releases.engine.domain.privacy import LARGEST_EPSILON, decimal_text
from releases.engine.errors import InvalidInput, Unpriceable

#: Booked where a release has no such form, and where a sum stops: above every cap (the largest, of delta, is
#: below 10**18), and twice it still fits a signed 64-bit integer.
CLOSED = 4 * 10**18


class Policy(StrEnum):
    """What a dataset's ledger adds up. Chosen once, when the budget is granted."""

    PURE = "pure"
    APPROX = "approx"
    ZCDP = "zcdp"


#: Of one release or sum: nothing at any order.
_NO_ORDERS = (0,) * len(ORDERS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Sums over all accepted releases, or the amounts one release adds to them; named as the ledger's
    columns.

    Attributes:
        spent_epsilon, spent_rho: in 10**-12.
        spent_delta, spent_rho_delta: in 10**-18.
        spent_orders: Rényi divergences at each of `mixture.ORDERS`, in 10**-12.
    """

    spent_epsilon: int = 0
    spent_delta: int = 0
    spent_rho: int = 0
    spent_rho_delta: int = 0
    spent_orders: tuple[int, ...] = _NO_ORDERS

    def __post_init__(self) -> None:
        object.__setattr__(self, "spent_orders", tuple(self.spent_orders))
        if len(self.spent_orders) != len(ORDERS):
            raise InvalidInput("spent_orders", len(self.spent_orders), f"must be {len(ORDERS)} amounts")
        # All at once: pages make thousands of these. A bool is no int here.
        everything = (*self.amounts().values(), *self.spent_orders)
        if {*map(type, everything)} == {int} and min(everything) >= 0 and max(everything) <= CLOSED:
            return
        for name, amount in [*self.amounts().items(), *(("spent_orders", each) for each in self.spent_orders)]:
            if type(amount) is not int or not 0 <= amount <= CLOSED:
                raise InvalidInput(name, amount, f"must be a whole number from 0 to {CLOSED}")

    def plus(self, amounts: Totals) -> Totals:
        """The sums after one more release; each stops at CLOSED."""
        return self._with(amounts, lambda one, other: min(CLOSED, one + other))

    def times(self, number: int) -> Totals:
        """So many of these amounts; each stops at CLOSED."""
        return self._with(self, lambda one, _: min(CLOSED, number * one))

    def beyond(self, others: Totals) -> Totals:
        """What these sums have that the others do not, each at least 0."""
        return self._with(others, lambda one, other: max(0, one - other))

    def without(self, amounts: Totals) -> Totals:
        """The sums before these amounts; one that was stopped at CLOSED stays there: subtraction cannot undo it."""
        return self._with(amounts, lambda one, other: one if one >= CLOSED else max(0, one - other))

    def _with(self, others: Totals, join: Callable[[int, int], int]) -> Totals:
        orders = tuple(join(one, other) for one, other in zip(self.spent_orders, others.spent_orders, strict=True))
        added = {name: join(amount, getattr(others, name)) for name, amount in self.amounts().items()}
        return Totals(**added, spent_orders=orders)

    def amounts(self) -> dict[str, int]:
        """The sums that are one number each, by the name of their column."""
        return {name: getattr(self, name) for name in _NUMBERS}

    def columns(self) -> dict[str, Any]:
        """Column name to amount, for an UPDATE; the sums at each order are a list."""
        return {**self.amounts(), "spent_orders": list(self.spent_orders)}

    @staticmethod
    def read(stored: Mapping[str, Any]) -> Totals:
        """Sums that were stored as columns. Where the sums at each order are missing, what they can have been at most.

        That is a rho, for no release costs more, and 10**-6 for the rounding of up to a million releases.
        """
        numbers = {name: stored[name] for name in _NUMBERS}
        orders = stored.get("spent_orders")
        if not orders and (rho := numbers["spent_rho"]):
            most = divergences(pure_epsilon=None, rho=rho, closed=CLOSED)
            orders = tuple(min(CLOSED, amount + 10**6) for amount in most)
        return Totals(**numbers, spent_orders=tuple(orders or _NO_ORDERS))

    @staticmethod
    def of(entries: Iterable[Totals]) -> Totals:
        """The sums of a ledger, again from its entries. Stopping once at CLOSED is as stopping at every step."""
        found = [(*each.amounts().values(), *each.spent_orders) for each in entries]
        if not found:
            return Totals()
        sums = [min(CLOSED, sum(column)) for column in zip(*found, strict=True)]
        return Totals(**dict(zip(_NUMBERS, sums, strict=False)), spent_orders=tuple(sums[len(_NUMBERS) :]))


_NUMBERS = ("spent_epsilon", "spent_delta", "spent_rho", "spent_rho_delta")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """One condition: the column, with the release's amount added, is at most the cap."""

    column: str
    cap: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Branch:
    """Conditions that must all hold. A release is accepted if those of any one branch do.

    Attributes:
        name: basic, concentrated or mixture.
        limits: on single columns. Of a mixture the one on rho decides nothing: rho never exceeds the divergence of the
            lowest order, which the mixture never lets pass epsilon. The database checks it, whoever writes.
        mixture: the condition on the sums at each order, where the branch has one.
    """

    name: str
    limits: tuple[Limit, ...]
    mixture: MixtureRule | None = None

    def holds(self, totals: Totals) -> bool:
        if any(getattr(totals, limit.column) > limit.cap for limit in self.limits):
            return False
        return self.mixture is None or _holds(self.mixture, totals.spent_orders)

    def share(self, amounts: Totals) -> Fraction:
        """What some amounts are of what the branch allows, for a page: at least that, and up to 10**-9 more."""
        if self.mixture is not None:
            return _share(self.mixture, amounts.spent_orders)
        limit = next(limit for limit in self.limits if not limit.column.endswith("delta"))
        return Fraction(getattr(amounts, limit.column), limit.cap) if limit.cap else Fraction(1)


@lru_cache(maxsize=16384)
def _holds(mixture: MixtureRule, sums: tuple[int, ...]) -> bool:
    return mixture.holds(sums)


@lru_cache(maxsize=16384)
def _share(mixture: MixtureRule, sums: tuple[int, ...]) -> Fraction:
    share = mixture.share(sums)
    return Fraction(1) if share == float("inf") else Fraction(ceil(share * 10**9 * (1 + 1e-9)), 10**9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """A budget in the ledger's units, rounded down, under one policy. Made by `Caps.of`.

    Attributes:
        epsilon: epsilon_B, in 10**-12.
        delta: delta_B, in 10**-18.
        rho: rho_B, in 10**-12, of a budget that keeps the rule of before; else 0.
    """

    policy: Policy
    epsilon: int
    delta: int
    rho: int = 0

    @staticmethod
    def of(policy: Policy, *, epsilon: Fraction, delta: Fraction, is_before: bool = False) -> Caps:
        """The integer caps of a budget, rounded down.

        Args:
            is_before: whether it keeps the rule of before (Z in the theorem).

        Raises:
            InvalidInput: epsilon or delta is out of range, or the policy has no use for that delta.
            Unpriceable: under the rule of before the budget is too small for a rho of 10**-12.
        """
        _check_budget(policy, epsilon=epsilon, delta=delta)
        whole = Caps(
            policy=policy,
            epsilon=floor(epsilon, places=EPSILON_PLACES),
            delta=floor(delta, places=DELTA_PLACES),
        )
        if policy is not Policy.ZCDP or not is_before:
            return whole
        conversion = Fraction(whole.delta - 2 * whole._share, 10**DELTA_PLACES)
        rho = largest_rho(epsilon=whole.guarantee.epsilon, delta=conversion)
        return replace(whole, rho=floor(rho, places=EPSILON_PLACES))

    @property
    def mixture(self) -> MixtureRule | None:
        """The rule for the sums at each order; None where there is none."""
        if self.policy is not Policy.ZCDP or self.rho:
            return None
        return MixtureRule(epsilon=self.epsilon, delta=self.delta * 8 // 10)

    def replaces(self, rho: int) -> bool:
        """Whether whatever a rule of before with this rho_B accepts is accepted: all its sums are at most a rho_B."""
        most = divergences(pure_epsilon=None, rho=rho, closed=CLOSED)
        return self.mixture is not None and self.mixture.holds(most)

    @property
    def branches(self) -> tuple[Branch, ...]:
        """The conditions as an OR of ANDs over the ledger's columns."""
        basic = Branch(
            name="basic",
            limits=(
                Limit(column="spent_epsilon", cap=self.epsilon),
                Limit(column="spent_delta", cap=self._share if self.policy is Policy.ZCDP else self.delta),
            ),
        )
        if self.policy is not Policy.ZCDP:
            return (basic,)
        finer = Branch(
            name="concentrated" if self.rho else "mixture",
            limits=(
                Limit(column="spent_rho", cap=self.rho or self.epsilon),
                Limit(column="spent_rho_delta", cap=self._share),
            ),
            mixture=self.mixture,
        )
        return finer, basic

    @property
    def guarantee(self) -> Guarantee:
        """What holds for everything accepted, however it was chosen: the theorem above."""
        return Guarantee(
            epsilon=Fraction(self.epsilon, 10**EPSILON_PLACES),
            delta=Fraction(self.delta, 10**DELTA_PLACES),
            question=FigureUse.FILTER,
            source=f"{self.policy.value} filter",
        )

    @property
    def _share(self) -> int:
        """delta_0 and delta_C: a tenth of delta_B each. delta' is the rest."""
        return self.delta // 10

    def to_json(self) -> dict[str, Any]:
        # Of a mixture, which one: a later grid or other weights would have another number.
        version = {} if self.mixture is None else {"mixture": 1}
        return {
            "policy": self.policy.value,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rho": self.rho,
            **version,
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Shortfall:
    """Why one branch refuses: the column, what it would reach, and its cap.

    Of the sums at each order, how much of the rule they would use up, and all of it, in 10**-9.
    """

    branch: str
    column: str
    would_be: int
    cap: int

    def in_words(self) -> str:
        places = EPSILON_PLACES if self.column in ("spent_epsilon", "spent_rho") else DELTA_PLACES
        what = self.column.removeprefix("spent_").replace("_", " ")
        if self.column == "spent_orders":
            return (
                "Gaussian releases, and others added up with them, would come to "
                f"{decimal_text(Fraction(self.would_be, 10**7), places=1)}% of what they may"
            )
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
        basic sums; 0 and 0 where that branch is shut. rho, rho_delta: the largest rho of one more release with no other
        form, and what is left of the sum of rho_delta; 0 and 0 where that branch is shut or not in the policy.
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
        spent_orders=divergences(pure_epsilon=price.pure_epsilon, rho=price.rho, closed=CLOSED),
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
    found = [
        Shortfall(branch=branch.name, column=limit.column, would_be=getattr(after, limit.column), cap=limit.cap)
        for branch in caps.branches
        for limit in branch.limits
        if getattr(after, limit.column) > limit.cap
    ]
    for branch in caps.branches:
        if branch.mixture is not None and not _holds(branch.mixture, after.spent_orders):
            would_be = max(10**9 + 1, ceil(branch.share(after) * 10**9))
            found.append(Shortfall(branch=branch.name, column="spent_orders", would_be=would_be, cap=10**9))
    return tuple(found)


@lru_cache(maxsize=4096)
def times_admitted(spent: Totals, charge: Price, caps: Caps, *, most: int) -> int:
    """How many releases of this price may be accepted after what was spent, one after the other; at most `most`."""
    each = amounts(charge, policy=caps.policy)

    def fits(number: int) -> bool:
        after = spent.plus(each.times(number))
        return any(branch.holds(after) for branch in caps.branches)

    # The branches only ever close, so what fits so often fits less often too.
    return max(0, largest(fits, near=0, most=most))


def report(spent: Totals, caps: Caps) -> Guarantee:
    """The strongest statement that holds for what was spent.

    Precisely: any run, however adaptive, whose sums can never exceed `spent` in any column is (epsilon,
    delta)-DP with what is returned; it is the theorem above with `spent` in place of the caps, the least
    epsilon of the basic sums, of the converted rho and of one converted order at the budget's whole delta. For a
    history whose sums came about by chance it is therefore a description (DISPLAY); what was promised to the people
    in the table is `Caps.guarantee`, which it never exceeds while the filter is kept. Under PURE it holds without that
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
        proved += [(_of_one_order(spent.spent_orders, delta=spare), budget, "sum of one Rényi order, converted")]
    if not proved:
        raise Unpriceable("What was spent fits no branch of this policy, so nothing can be stated about it.")
    epsilon, delta, source = min(proved)
    exact = caps.policy is Policy.PURE
    return Guarantee(
        epsilon=epsilon,
        delta=delta,
        question=FigureUse.FILTER if exact else FigureUse.DISPLAY,
        source=source,
    )


def remaining(spent: Totals, caps: Caps) -> Remaining:
    """What one more release may cost."""
    return _remaining(spent, caps)


@lru_cache(maxsize=4096)
def _remaining(spent: Totals, caps: Caps) -> Remaining:
    left = {}
    for branch in caps.branches:
        is_open = branch.holds(spent)
        for limit in branch.limits:
            left[limit.column] = limit.cap - getattr(spent, limit.column) if is_open else 0
    pure = left["spent_epsilon"]
    mixed = caps.branches[0]
    if (rule := mixed.mixture) is not None and mixed.holds(spent):

        def fits(rho: int) -> bool:
            return mixed.holds(spent.plus(amounts(_noise(rho), policy=caps.policy)))

        near = int(rule.rho_left(spent.spent_orders) * 10**EPSILON_PLACES)
        left["spent_rho"] = max(0, largest(fits, near=near, most=caps.epsilon))
        about = rule.pure_left(spent.spent_orders, most=caps.epsilon / 10**EPSILON_PLACES)
        pure = max(pure, _largest_pure_in(mixed, spent, near=int(about * 10**EPSILON_PLACES), most=caps.epsilon))
    elif caps.rho:
        pure = max(pure, _largest_pure(left["spent_rho"], most=LARGEST_EPSILON))
    return Remaining(
        pure_epsilon=pure,
        epsilon=left["spent_epsilon"],
        delta=left["spent_delta"],
        rho=left.get("spent_rho", 0),
        rho_delta=left.get("spent_rho_delta", 0),
    )


def _noise(rho: int) -> Price:
    return Price(pure_epsilon=None, epsilon=None, delta=0, rho=max(1, rho), rho_delta=0)


def _largest_pure_in(mixed: Branch, spent: Totals, *, near: int, most: int) -> int:
    """The largest epsilon of one more pure release that the branch accepts, in units."""

    def fits(epsilon: int) -> bool:
        if not epsilon:
            return True
        rho = ceiling(rho_of_pure(epsilon=Fraction(epsilon, 10**EPSILON_PLACES)), places=EPSILON_PLACES)
        price = Price(pure_epsilon=epsilon, epsilon=epsilon, delta=0, rho=rho, rho_delta=0)
        return mixed.holds(spent.plus(amounts(price, policy=Policy.ZCDP)))

    return max(0, largest(fits, near=near, most=most))


def _of_one_order(sums: tuple[int, ...], *, delta: Fraction) -> Fraction:
    """The least epsilon that one order gives at delta, rounded up. Between two orders (a - 1) D_a is convex in a, so
    the line between the two sums bounds it; the order is found by floats, and any is valid.
    """
    candidates = []
    for low, high in zip(range(len(ORDERS)), [*range(1, len(ORDERS)), len(ORDERS) - 1], strict=True):
        for part in range(8):
            share = Fraction(part, 8)
            order = ORDERS[low] + share * (ORDERS[high] - ORDERS[low])
            bound = (ORDERS[low] - 1) * sums[low] * (1 - share) + (ORDERS[high] - 1) * sums[high] * share
            candidates.append((order, bound / (order - 1) / 10**EPSILON_PLACES))
    spare = -log(delta)

    def about(candidate: tuple[Fraction, Fraction]) -> float:
        a = float(candidate[0])
        return float(candidate[1]) + log1p(-1 / a) + (spare - log(a)) / (a - 1)

    order, divergence = min(candidates, key=about)
    epsilon = epsilon_of_renyi(order=order, divergence=divergence, delta=delta)
    return Fraction(ceiling(epsilon, places=EPSILON_PLACES), 10**EPSILON_PLACES)


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
