"""What shape a workload has, and so how its small databases are drawn. Public declarations only.

Blum, Ligett and Roth ("A learning theory approach to noninteractive database privacy", J. ACM 60, 2013; Dwork and Roth
2014, Algorithm 4) answer a set Q of counting queries on a table x by a database y of m rows that is chosen with
probability proportional to exp(-epsilon L(y) / (2 Delta)), where L is the largest error over Q. Here

    L(y) = max over q in Q of |W q(y) - m q(x)|        a whole number, in units of 1/m of a count,

W is the number of rows, public or measured with noise beforehand, and q(.) counts rows. Given W, adding, removing or
replacing one privacy unit of g rows changes every q(x) by at most g, so L by at most Delta = m g.

In order of preference: a forest (any size), several forests over separate attributes (databases that are sequences:
each row's parts are then drawn independently, and |R| and F are products), every candidate weighed (few candidates),
queries of which few are open at a time (few states). Anything else is refused with the size at which it could be done.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import ceil, comb, log, prod

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Universe
from releases.engine.noise.randomness import Randomness
from releases.engine.smalldb import existence
from releases.engine.smalldb.candidates import Candidate, Databases, Scaled, log_share_of_worst
from releases.engine.smalldb.enumeration import Enumerated, Signatures, read_signatures, vectors
from releases.engine.smalldb.existence import Rounding
from releases.engine.smalldb.forest_sampler import KEPT_BYTES, ForestCounter
from releases.engine.smalldb.level_sampler import CountedLevels, Layers
from releases.engine.smalldb.state_sampler import FrontierCounter, KindStep, most_work, read_steps
from releases.engine.smalldb.tree import Forest, Indices, read_forest
from releases.engine.workload.queries import Count, Family, Marginal, Prefix, Workload, attributes_asked

#: Cells that a forest is built over.
MAX_CELLS = 4_000_000
#: Rows of a candidate: weights and tables grow with it, and no bound asks for more below 10^12 rows of data.
MAX_ROWS = 10_000
#: Candidates times answers: a choice among so many takes hundredths of a second; with `size` given, up to a second.
_MAX_WEIGHED_EXACTLY = 1_000_000
_MAX_WEIGHED = 50_000_000
_MAX_CANDIDATES = 1_000_000
#: Pairs of a state and a count: a level of so many takes a few seconds at the worst, and usually a hundredth of it.
_MAX_STATES = 3_000_000
#: Queries times kinds that are followed one by one.
_MAX_STEPS = 2_000_000


@dataclass(frozen=True, kw_only=True, eq=False)
class AttributesPart:
    """Counts of some attributes, drawn together.

    Attributes:
        universe: of these attributes.
        kind_of_cell, cells_of_kind: which of its cells no query tells apart.
    """

    universe: Universe
    kind_of_cell: Indices
    cells_of_kind: Indices

    def of_kinds(self, table: NDArray[np.int64]) -> NDArray[np.int64]:
        """The counts of the kinds, from those of the cells."""
        counts = np.zeros(self.cells_of_kind.size, dtype=np.int64)
        np.add.at(counts, self.kind_of_cell, table.reshape(-1))
        return counts

    def gathered(self, counts: Candidate) -> NDArray[np.int64]:
        """A table of cells with each kind's count at its first cell: it answers every query as the candidate does."""
        table = np.zeros(self.kind_of_cell.size, dtype=np.int64)
        _, first = np.unique(self.kind_of_cell, return_index=True)
        table[first] = counts
        return table.reshape(self.universe.shape)

    def spread(self, counts: Candidate) -> NDArray[np.float64]:
        """A table of cells with each kind's count spread evenly over its cells."""
        table: NDArray[np.float64] = (counts / self.cells_of_kind)[self.kind_of_cell]
        return table.reshape(self.universe.shape)


@dataclass(frozen=True, kw_only=True, slots=True)
class DrawSetting:
    """One draw: m, W, epsilon of the choice, g, and what |W - n| is believed to be at most.

    All of it is public or paid for; for a plan W is what is assumed. `off` guides the search for levels alone.
    """

    size: int
    rows: int
    epsilon: Fraction
    unit: int
    off: int

    @property
    def rate(self) -> Fraction:
        return self.epsilon / (2 * self.size * self.unit)

    @property
    def usual_error(self) -> float:
        """About how far counts are off, in rows of the candidate. A guess, for predicting work.

        To hold m steps within h of a path takes away about m / h^2 of ln F, so that d ln F / dh = 2 m / h^3 meets the
        rate of W = epsilon W / (2 m g) about at the cube root of 4 m^2 g / (epsilon W), up to a constant.
        """
        return float(min(self.size, 1.4 * (4 * self.size**2 * self.unit / (self.epsilon * self.rows)) ** (1 / 3)))


@dataclass(frozen=True, kw_only=True, eq=False)
class CountingShape(ABC):
    """How the small databases of one workload are counted.

    Attributes:
        title: in words for a receipt.
        databases: which candidates.
        parts: the attributes drawn together.
        answers: |Q|, different answers besides the total.
        rounding: why some small database fits.
        outside: how many cells of the universe each cell stands for.
    """

    title: str
    databases: Databases
    parts: tuple[AttributesPart, ...]
    answers: int
    rounding: Rounding
    outside: int

    @property
    def kinds(self) -> int:
        """K; of several parts the largest number, which fits worst."""
        return max(part.cells_of_kind.size for part in self.parts)

    @property
    def most_rows(self) -> int:
        """The largest candidates that can be drawn at all."""
        return MAX_ROWS

    @property
    def usual_rows(self) -> int:
        """The largest candidates that are chosen unasked."""
        return self.most_rows

    def fits(self, most: int) -> NDArray[np.float64]:
        """alpha_0 for m = 1 ... `most`."""
        sizes = np.arange(1, most + 1, dtype=np.float64)
        return existence.best_fit(self.rounding, sizes=sizes, kinds=self.kinds, answers=self.answers)

    def log_ratios(self, most: int) -> NDArray[np.float64]:
        """ln(|R| / |R_min|) for m = 1 ... `most`."""
        ratios = np.zeros(most)
        for part in self.parts:
            cells, fewest = int(part.cells_of_kind.sum()), int(part.cells_of_kind.min())
            ratios += log_share_of_worst(
                self.databases,
                cells=self.outside * cells,
                fewest=self.outside * fewest,
                kinds=part.cells_of_kind.size,
                most=most,
            )
        return ratios

    @abstractmethod
    def seconds(self, setting: DrawSetting) -> float:
        """About how long a draw takes: half or twice that, and less on a table that is fitted easily."""

    @abstractmethod
    def bytes(self, setting: DrawSetting) -> int:
        """About how much memory a draw takes."""

    @abstractmethod
    def draw(
        self, counts: list[NDArray[np.int64]], setting: DrawSetting, rng: Randomness, pause: Callable[[], None]
    ) -> list[Candidate]:
        """For each part the counts of its kinds in one small database, drawn exactly."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layered(CountingShape):
    """Databases that are counted level by level."""

    @abstractmethod
    def counted(self, counts: list[NDArray[np.int64]], setting: DrawSetting) -> CountedLevels:
        """The databases of all parts together, for the counts of the kinds of each."""

    def draw(
        self, counts: list[NDArray[np.int64]], setting: DrawSetting, rng: Randomness, pause: Callable[[], None]
    ) -> list[Candidate]:
        drawn = self.layers(self.counted(counts, setting), setting, pause).draw(rng)
        return np.split(drawn, np.cumsum([part.cells_of_kind.size for part in self.parts])[:-1])

    def far(self, setting: DrawSetting) -> int:
        """A level that is hardly ever passed: by the theorem, or because no count is off by more than all rows."""
        fit = float(self.fits(setting.size)[-1])
        likely = float(self.log_ratios(setting.size)[-1]) + 30
        proved = setting.size * (fit * setting.rows + setting.off) + likely / float(setting.rate)
        return min(ceil(proved), setting.size * (setting.rows + setting.off))

    def layers(self, counted: CountedLevels, setting: DrawSetting, pause: Callable[[], None]) -> Layers:
        return Layers(counted, rate=setting.rate, far=self.far(setting), pause=pause)


@dataclass(frozen=True, kw_only=True, eq=False)
class Forests(Layered):
    """One forest, or several over separate attributes."""

    forests: tuple[Forest, ...]

    def seconds(self, setting: DrawSetting) -> float:
        """Some 45 levels of a chain and seven rounds of two levels each, or 20 levels of a tree.

        Before the likely levels, wider and wider ones by halves: together twice the first. Tables of whole width
        convolve m by m numbers.
        """
        chain = sum(forest.chain.size for forest in self.forests)
        slots = sum(forest.is_answer.size for forest in self.forests)
        trees = sum(forest.left.size > 0 for forest in self.forests)
        size = setting.size
        widest = min(size, 2 * self.far(setting) // setting.rows)
        steps = 59 * (5e-8 + 9e-9 * setting.usual_error) + 9e-9 * widest
        return 0.3 + chain * steps + 20 * ((slots - chain) * 4e-8 + trees * size**2 * 7e-9)

    def bytes(self, setting: DrawSetting) -> int:
        """The compiler and its kernels, a few numbers a slot, and the levels that are kept."""
        slots = sum(forest.is_answer.size for forest in self.forests)
        return (120 << 20) + 100 * slots + min(KEPT_BYTES, 25 * (20 * slots + 400 * setting.size))

    def counted(self, counts: list[NDArray[np.int64]], setting: DrawSetting) -> CountedLevels:
        counters = [self.counter(index, each, setting) for index, each in enumerate(counts)]
        return counters[0] if len(counters) == 1 else _Together(counters)

    def counter(self, index: int, counts: NDArray[np.int64], setting: DrawSetting) -> ForestCounter:
        return ForestCounter(
            forest=self.forests[index],
            databases=self.databases,
            outside=self.outside,
            size=setting.size,
            rows=setting.rows,
            counts=counts,
        )


class _Together:
    """Sequences of rows whose parts are independent: weights and numbers of candidates are products."""

    def __init__(self, counters: list[ForestCounter]) -> None:
        self._counters = counters
        self._ends = np.cumsum([counter.forest.kinds for counter in counters])[:-1]

    def everything(self) -> Scaled:
        return _times([counter.everything() for counter in self._counters])

    def within(self, level: int) -> Scaled:
        return _times([counter.within(level) for counter in self._counters])

    def draw_any(self, rng: Randomness) -> Candidate:
        return np.concatenate([counter.draw_any(rng) for counter in self._counters])

    def draw(self, level: int, rng: Randomness) -> Candidate | None:
        drawn = [counter.draw(level, rng) for counter in self._counters]
        kept = [each for each in drawn if each is not None]
        return np.concatenate(kept) if len(kept) == len(drawn) else None

    def error(self, candidate: Candidate) -> int:
        parts = np.split(candidate, self._ends)
        return max(counter.error(part) for counter, part in zip(self._counters, parts, strict=True))


def _times(numbers: list[Scaled]) -> Scaled:
    return prod(mantissa for mantissa, _ in numbers), sum(exponent for _, exponent in numbers)


@dataclass(frozen=True, kw_only=True, eq=False)
class Weighed(CountingShape):
    """Every candidate weighed."""

    signatures: Signatures

    @property
    def most_rows(self) -> int:
        return self._most(_MAX_WEIGHED)

    @property
    def usual_rows(self) -> int:
        return max(min(1, self.most_rows), self._most(_MAX_WEIGHED_EXACTLY))

    def _most(self, weighed: int) -> int:
        """The largest m with few enough vectors of counts; 0 for none."""
        return _largest(
            lambda size: (
                vectors(kinds=self.kinds, size=size) <= _MAX_CANDIDATES
                and vectors(kinds=self.kinds, size=size) * (self.answers + 1) <= weighed
            )
        )

    def seconds(self, setting: DrawSetting) -> float:
        return 0.02 + vectors(kinds=self.kinds, size=setting.size) * (self.answers + self.kinds) * 1e-8

    def bytes(self, setting: DrawSetting) -> int:
        return (1 << 20) + vectors(kinds=self.kinds, size=setting.size) * 8 * (3 * self.answers + 2 * self.kinds + 8)

    def draw(
        self, counts: list[NDArray[np.int64]], setting: DrawSetting, rng: Randomness, pause: Callable[[], None]
    ) -> list[Candidate]:
        pause()
        made = _enumerated(self, setting.size)
        return [made.draw(counts[0], rows=setting.rows, epsilon=setting.epsilon, unit=setting.unit, rng=rng)]


@lru_cache(maxsize=4)
def _enumerated(shape: Weighed, size: int) -> Enumerated:
    return Enumerated(shape.signatures, databases=shape.databases, outside=shape.outside, size=size)


@dataclass(frozen=True, kw_only=True, eq=False)
class Open(Layered):
    """Few queries open at a time."""

    signatures: Signatures

    @cached_property
    def steps(self) -> tuple[KindStep, ...]:
        return read_steps(self.signatures.incidence)

    @cached_property
    def most_rows(self) -> int:
        if self.signatures.incidence.size > _MAX_STEPS:
            return 0
        return _largest(lambda size: most_work(self.steps, size=size, limit=_MAX_STATES) <= _MAX_STATES)

    def seconds(self, setting: DrawSetting) -> float:
        """Between a hundredth of the most states and all of them are met."""
        return 0.02 + 5e-8 * most_work(self.steps, size=setting.size)

    def bytes(self, setting: DrawSetting) -> int:
        return (8 << 20) + 100 * most_work(self.steps, size=setting.size) // setting.size

    def counted(self, counts: list[NDArray[np.int64]], setting: DrawSetting) -> CountedLevels:
        return FrontierCounter(
            self.signatures,
            steps=self.steps,
            databases=self.databases,
            outside=self.outside,
            size=setting.size,
            rows=setting.rows,
            counts=counts[0],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NoShape:
    """Why a workload has no shape here, in one sentence."""

    reason: str


@lru_cache(maxsize=4)
def shape_of(workload: Workload, databases: Databases) -> CountingShape | NoShape:
    """The shape of a workload, or the reason why its small databases cannot be drawn exactly."""
    groups = [list(workload.families)]
    if databases is Databases.SEQUENCES:
        groups = _separate(workload.families)
    universes = [workload.universe.project(attributes_asked(group, workload.universe)) for group in groups]
    largest = max(universe.size for universe in universes)
    if largest > MAX_CELLS:
        return NoShape(
            reason=f"The questions are about {largest:,} cells of the universe's {workload.universe.size:,} at once, "
            f"and small databases are counted over at most {MAX_CELLS:,}: ask about fewer columns together"
            + _hint(workload, databases)
        )
    forests = [read_forest(group, universe) for group, universe in zip(groups, universes, strict=True)]
    found = [forest for forest in forests if forest is not None]
    if len(found) == len(forests):
        outside = workload.universe.size // universes[0].size if len(groups) == 1 else 1
        return _forests(found, universes, databases, outside)
    return _general(workload, databases)


def _forests(forests: list[Forest], universes: list[Universe], databases: Databases, outside: int) -> Forests:
    if all(forest.is_chain_alone for forest in forests):
        title, rounding = "prefixes of one attribute", Rounding.PREFIX
    elif len(forests) == 1 and not forests[0].chain.size and not forests[0].nested:
        title, rounding = "counts of separate sets of cells", Rounding.PARTITION
    else:
        title, rounding = "counts of sets of cells nested in each other", Rounding.NESTED
    if len(forests) > 1:
        title = f"{len(forests)} independent groups of attributes"
    return Forests(
        title=title,
        databases=databases,
        parts=tuple(
            AttributesPart(universe=universe, kind_of_cell=forest.kind_of_cell, cells_of_kind=forest.cells_of_kind)
            for forest, universe in zip(forests, universes, strict=True)
        ),
        answers=sum(forest.answers for forest in forests),
        rounding=rounding,
        outside=outside,
        forests=tuple(forests),
    )


def _general(workload: Workload, databases: Databases) -> CountingShape | NoShape:
    """Weighing every candidate or, where it allows databases twice as large, following the open queries."""
    universe = workload.universe.project(attributes_asked(workload.families, workload.universe))
    signatures = read_signatures(workload.families, universe)
    if signatures is None:
        return NoShape(reason=_no_recursion(workload, f"up to {universe.size:,}", databases))
    weighed = Weighed(
        title="every small database weighed",
        databases=databases,
        parts=(
            AttributesPart(
                universe=universe, kind_of_cell=signatures.kind_of_cell, cells_of_kind=signatures.cells_of_kind
            ),
        ),
        answers=signatures.incidence.shape[0],
        rounding=_rounding(workload),
        outside=workload.universe.size // universe.size,
        signatures=signatures,
    )
    given = {name: getattr(weighed, name) for name in CountingShape.__dataclass_fields__ if name != "title"}
    followed = Open(title="questions of which few are open at a time", signatures=signatures, **given)
    shape: CountingShape = followed if followed.most_rows >= 2 * weighed.usual_rows else weighed
    most = shape.usual_rows
    if most < 1 or shape.fits(most).min() >= 1:
        return NoShape(reason=_no_recursion(workload, f"{signatures.kinds:,}", databases))
    return shape


def _rounding(workload: Workload) -> Rounding:
    """Whether all queries are ranges of one attribute."""
    if len(attributes_asked(workload.families, workload.universe)) > 1:
        return Rounding.ANY
    for family in workload.families:
        if isinstance(family, Count) and family.bins[0] != tuple(range(family.bins[0][0], family.bins[0][-1] + 1)):
            return Rounding.ANY
        assert isinstance(family, (Count, Marginal, Prefix))
    return Rounding.RANGES


def _no_recursion(workload: Workload, kinds: str, databases: Databases) -> str:
    """With rows enough to prove anything of any questions, how many kinds of cells could be done."""
    rows = int(log(2 * workload.size) / 2) + 1
    feasible = _largest(
        lambda kinds: comb(kinds + rows - 1, rows) <= min(_MAX_CANDIDATES, _MAX_WEIGHED_EXACTLY // (workload.size + 1))
    )
    return (
        f"The questions cross each other and tell {kinds} kinds of cells apart in a universe of "
        f"{workload.universe.size:,}; all databases of {rows} rows, enough to prove something of so many questions, "
        f"can be weighed for at most {feasible:,} kinds: ask fewer questions, or with wider bins"
        + _hint(workload, databases)
    )


def _hint(workload: Workload, databases: Databases) -> str:
    """The end of a refusal: that sequences of rows would do, where they would."""
    if databases is Databases.SEQUENCES or len(_separate(workload.families)) == 1:
        return "."
    other = shape_of(workload, Databases.SEQUENCES)
    return "." if isinstance(other, NoShape) else ", or choose databases that are sequences of rows."


def _separate(families: tuple[Family, ...]) -> list[list[Family]]:
    """Families in groups that share no attribute with each other."""
    groups: list[tuple[set[str], list[Family]]] = []
    for family in families:
        names, members = set(family.attributes), [family]
        for group in [group for group in groups if group[0] & names]:
            groups.remove(group)
            names, members = names | group[0], group[1] + members
        groups.append((names, members))
    return [members for _, members in groups]


def _largest(holds: Callable[[int], bool]) -> int:
    """The largest number from 1 to MAX_ROWS for which something holds that holds for all below; 0 for none."""
    low, high = 0, MAX_ROWS
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low
