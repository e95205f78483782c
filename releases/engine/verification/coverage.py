"""How often answers leave their bound, counted over runs on small tables that do not flatter it.

A bound that holds with probability at least 1 - beta is left in R runs as often as a binomial law of R and beta, or
less. What is counted is compared with that law exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product

from scipy.stats import beta as beta_law
from scipy.stats import binom

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan, mechanisms
from releases.engine.noise.randomness import Randomness
from releases.engine.verification.cases import case_for, ways_of
from releases.engine.verification.tables import Remembered, Table, counted_rows
from releases.engine.verification.truths import bound_holds

#: The failure probability asked for: so large that a bound too narrow by little is seen in few runs.
BETA = Fraction(1, 5)
#: A table of a few rows, where noise is all there is, and one of so many copies of it.
_COPIES = (1, 25)
#: Mechanisms that take milliseconds a run are run less often, but at least this often.
_FEWEST_RUNS = 50
#: Of the interval of the rate that is shown beside what was counted.
_CONFIDENCE = 0.99


@dataclass(frozen=True, kw_only=True, slots=True)
class BoundSeen:
    """One mechanism under one relation with units of one kind, on the table where more answers left their bound.

    Attributes:
        mechanism, way, neighbours, unit: which.
        beta: how often an answer may leave its bound.
        left, runs: how often one did, in how many.
        rate: an interval of the true rate, with 99% confidence (Clopper and Pearson 1934).
        chance: the probability that a true bound is left so often, or more.
        needed: `chance` must not be below this.
        infeasible: why it could not be run; empty where it could.
    """

    mechanism: str
    neighbours: NeighbouringRelation
    way: str = ""
    unit: str = "row"
    beta: float = float(BETA)
    left: int = 0
    runs: int = 0
    rate: tuple[float, float] = (0.0, 1.0)
    chance: float = 1.0
    needed: float = 0.0
    infeasible: str = ""

    @property
    def is_as_it_should_be(self) -> bool:
        return not self.infeasible and self.chance >= self.needed


def bounds_seen(
    *, runs: int, false_alarm: float, rng: Randomness, names: Sequence[str] | None = None
) -> Iterator[BoundSeen]:
    """Look at the bound of every way of every mechanism under both relations, with rows and with persons for units.

    Args:
        runs: on each table.
        false_alarm: the probability that any true bound at all is said to be broken.
        rng: where the noise comes from.
        names: which mechanisms; all where not given.
    """
    looked_at = [(name, way) for name in names or mechanisms() for way in ways_of(name)]
    looks = list(product(looked_at, (False, True), NeighbouringRelation))
    each = false_alarm / (len(looks) * len(_COPIES))
    for (name, way), of_persons, neighbours in looks:
        yield bound_seen(name, neighbours, way=way, of_persons=of_persons, runs=runs, false_alarm=each, rng=rng)


def bound_seen(
    name: str,
    neighbours: NeighbouringRelation,
    *,
    runs: int,
    false_alarm: float,
    rng: Randomness,
    way: str = "",
    of_persons: bool = False,
) -> BoundSeen:
    try:
        case = case_for(name, way=way, of_persons=of_persons)
    except InvalidInput as unknown:
        return BoundSeen(mechanism=name, way=way, neighbours=neighbours, infeasible=str(unknown))
    plan = case.plan(name, neighbours, beta=BETA)
    if plan.infeasible:
        return BoundSeen(mechanism=name, way=way, neighbours=neighbours, unit=case.unit, infeasible=plan.infeasible)
    runs = max(_FEWEST_RUNS, int(runs * case.share))
    table = case.pairs[neighbours].other
    left = max(_times_left(plan, [*table] * copies, runs=runs, rng=rng) for copies in _COPIES)
    return BoundSeen(
        mechanism=name,
        way=way,
        neighbours=neighbours,
        unit=case.unit,
        left=left,
        runs=runs,
        rate=interval_of_rate(left, runs),
        chance=float(binom.sf(left - 1, runs, float(BETA))),
        needed=false_alarm,
    )


def _times_left(plan: Plan, table: Table, *, runs: int, rng: Randomness) -> int:
    rows = counted_rows(plan.schema.universe, table)
    counts = Remembered(rows)
    return sum(not bound_holds(plan, plan.run(counts, rng=rng), rows) for _ in range(runs))


def interval_of_rate(hits: int, runs: int) -> tuple[float, float]:
    """The Clopper-Pearson interval of a probability of which so many hits came in so many runs."""
    tail = (1 - _CONFIDENCE) / 2
    low = float(beta_law.ppf(tail, hits, runs - hits + 1)) if hits else 0.0
    high = float(beta_law.isf(tail, hits + 1, runs - hits)) if hits < runs else 1.0
    return low, high
