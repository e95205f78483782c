"""What mechanisms are seen to spend: lower bounds of epsilon proved from runs on two neighbouring tables.

A mechanism that is (epsilon, delta)-private gives every event E probabilities with P(E) <= e^epsilon P'(E) + delta on
neighbours. So epsilon >= ln((P(E) - delta) / P'(E)), whatever E is. On one half of the runs the event is picked that
promises most, on the other half its two probabilities are bounded (Clopper and Pearson 1934): the idea of StatDP
(Ding et al. 2018) and DP-Sniper (Bichsel et al. 2021). Such a bound below the claim proves little; one above it proves
the mechanism wrong. So each is looked at a second time with too little noise, when it must be seen to pass its claim.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import log

from scipy.stats import beta as beta_law

from releases.engine.accounting import accountant
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan, mechanisms
from releases.engine.noise.randomness import Randomness
from releases.engine.verification.cases import NeighbouringTables, case_for, ways_of
from releases.engine.verification.recording import with_noise_scaled
from releases.engine.verification.tables import counts_of

#: The factor on all noise that is tried first; where too few runs show it, the pair's own follows.
_MILDEST, _RUNS_FOR_MILDEST = Fraction(1, 2), 1_000
#: With fewer, no event could prove anything at the confidence asked for.
_FEWEST_RUNS = 200
#: Sets of outcomes that are tried: more than this many outcomes are too rare to be picked.
_MAX_EVENTS = 60


@dataclass(frozen=True, kw_only=True, slots=True)
class LossSeen:
    """One mechanism under one relation, with units of one kind.

    Attributes:
        mechanism, way, neighbours, unit: which.
        epsilon, delta: what its plan claims.
        proved: a lower bound of epsilon at that delta.
        weakened: the factor on its noise at which a second bound was taken: the mildest that was noticed.
        proved_weakened: that bound.
        runs: on each of the two tables.
        infeasible: why it could not be run; empty where it could.
    """

    mechanism: str
    neighbours: NeighbouringRelation
    way: str = ""
    unit: str = "row"
    epsilon: float = 0.0
    delta: float = 0.0
    proved: float = 0.0
    weakened: Fraction = Fraction(1)
    proved_weakened: float = 0.0
    runs: int = 0
    infeasible: str = ""

    @property
    def is_within_claim(self) -> bool:
        return not self.infeasible and self.proved <= self.epsilon

    @property
    def would_be_noticed(self) -> bool:
        """Whether the same look proves too little noise wrong."""
        return self.proved_weakened > self.epsilon

    @property
    def is_as_it_should_be(self) -> bool:
        return self.is_within_claim and self.would_be_noticed


def losses_seen(
    *, runs: int, false_alarm: float, rng: Randomness, names: Sequence[str] | None = None
) -> Iterator[LossSeen]:
    """Look at every way of every mechanism under both relations, with rows for units and with persons.

    Args:
        runs: on each of two tables.
        false_alarm: the probability that any private mechanism at all is seen to pass its claim.
        rng: where the noise comes from.
        names: which mechanisms; all where not given.
    """
    looked_at = [(name, way) for name in names or mechanisms() for way in ways_of(name)]
    looks = list(product(looked_at, (False, True), NeighbouringRelation))
    for (name, way), of_persons, neighbours in looks:
        yield loss_seen(
            name, neighbours, way=way, of_persons=of_persons, runs=runs, false_alarm=false_alarm / len(looks), rng=rng
        )


def loss_seen(
    name: str,
    neighbours: NeighbouringRelation,
    *,
    runs: int,
    false_alarm: float,
    rng: Randomness,
    way: str = "",
    of_persons: bool = False,
) -> LossSeen:
    try:
        case = case_for(name, way=way, of_persons=of_persons)
    except InvalidInput as unknown:
        return LossSeen(mechanism=name, way=way, neighbours=neighbours, infeasible=str(unknown))
    plan = case.plan(name, neighbours)
    if plan.infeasible:
        return LossSeen(mechanism=name, way=way, neighbours=neighbours, unit=case.unit, infeasible=plan.infeasible)
    price = accountant.price(plan.events, delta=plan.delta, neighbours=neighbours)
    assert price.epsilon is not None
    runs = max(_FEWEST_RUNS, int(runs * case.share))
    pair = case.pairs[neighbours]
    proved = epsilon_proved(plan, pair, runs=runs, false_alarm=false_alarm, rng=rng)
    factor, weakened = Fraction(1), 0.0
    for factor in (_MILDEST, pair.weakened) if runs >= _RUNS_FOR_MILDEST else (pair.weakened,):
        with with_noise_scaled(factor):
            weakened = epsilon_proved(plan, pair, runs=runs, false_alarm=false_alarm, rng=rng)
        if weakened * 10**accountant.EPSILON_PLACES > price.epsilon:
            break
    return LossSeen(
        mechanism=name,
        way=way,
        neighbours=neighbours,
        unit=case.unit,
        epsilon=price.epsilon / 10**accountant.EPSILON_PLACES,
        delta=price.delta / 10**accountant.DELTA_PLACES,
        proved=proved,
        weakened=factor,
        proved_weakened=weakened,
        runs=runs,
    )


def epsilon_proved(plan: Plan, pair: NeighbouringTables, *, runs: int, false_alarm: float, rng: Randomness) -> float:
    """A lower bound of epsilon at the plan's delta, from so many runs on each of two tables.

    Wrong, that is above the least epsilon that is true, with probability at most `false_alarm`.
    """
    look = pair.look_at(plan, pair.one, pair.other)
    outcomes = []
    for table in (pair.one, pair.other):
        counts = counts_of(plan.schema.universe, table)
        outcomes.append([look(plan.run(counts, rng=rng)) for _ in range(runs)])
    return epsilon_of_outcomes(*outcomes, delta=float(plan.delta), false_alarm=false_alarm)


def epsilon_of_outcomes(
    ones: Sequence[Hashable], others: Sequence[Hashable], *, delta: float, false_alarm: float
) -> float:
    """The same from what was looked at: equally many outcomes of either table, in the order of the runs."""
    half = len(ones) // 2
    promised, event, swapped = 0.0, frozenset[Hashable](), False
    for is_swapped, (first, second) in enumerate(((ones, others), (others, ones))):
        for candidate, hits in _events(first[:half], second[:half]):
            bound = least_epsilon(*hits, runs=half, delta=delta, false_alarm=false_alarm)
            if bound > promised:
                promised, event, swapped = bound, candidate, bool(is_swapped)
    first, second = (others, ones) if swapped else (ones, others)
    often, seldom = (sum(outcome in event for outcome in each[half:]) for each in (first, second))
    return least_epsilon(often, seldom, runs=len(ones) - half, delta=delta, false_alarm=false_alarm)


def _events(
    first: Sequence[Hashable], second: Sequence[Hashable]
) -> Iterator[tuple[frozenset[Hashable], tuple[int, int]]]:
    """Sets of outcomes that grow by falling ratio and, of numbers, by falling value; how often each came on both."""
    ones, others = Counter(first), Counter(second)
    outcomes = set(ones) | set(others)
    orders = [sorted(outcomes, key=lambda each: (-(ones[each] + 1) / (others[each] + 1), str(each)))[:_MAX_EVENTS]]
    if all(isinstance(each, float) for each in outcomes):
        numbers: list[Hashable] = [*sorted(each for each in outcomes if isinstance(each, float))]
        orders += [numbers, numbers[::-1]]
    for order in orders:
        event, often, seldom = set[Hashable](), 0, 0
        for outcome in order:
            event.add(outcome)
            often, seldom = often + ones[outcome], seldom + others[outcome]
            yield frozenset(event), (often, seldom)


def least_epsilon(often: int, seldom: int, *, runs: int, delta: float, false_alarm: float) -> float:
    """A lower bound of epsilon where an event came so often in so many runs on each of two neighbours."""
    least = float(beta_law.ppf(false_alarm / 2, often, runs - often + 1)) if often else 0.0
    most = float(beta_law.isf(false_alarm / 2, seldom + 1, runs - seldom)) if seldom < runs else 1.0
    return max(0.0, log((least - delta) / most)) if least > delta else 0.0
