"""Workloads: sets of linear counting queries over a universe, and what one unit can change in them.

A query asks how many rows lie in a set of cells. Queries come in families that share a marginal: all cells of
a marginal, one predicate, or all prefixes of an attribute; a family's answers are a linear map of that marginal,
with coefficients 0 and 1. A family's weight says how much its answers matter beside the others': mechanisms that add
noise to each answer give it that much less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.attribute import FIRST, LAST, Attribute, number, plain
from releases.engine.domain.schema import Schema, check_version
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.statistic import offered_words

WORKLOAD_VERSION = 1
#: A release of more answers than this is a mistake, and no page or file of it could be read.
MAX_ANSWERS = 50_000_000
MAX_FAMILIES = 200_000
#: Enough to tell questions apart; beyond, the rest would be noise alone.
MAX_WEIGHT = 1_000
#: How many cells are enumerated to find a sensitivity exactly; beyond, a proven upper bound is used.
_ENUMERATED_CELLS = 4_000_000
_ENUMERATED_PAIRS = 2_000
_ENUMERATED_CHANGES = 200_000_000

#: Exact counts (int64) or estimates (float64).
Answers: TypeAlias = NDArray[Any]
#: From attribute names (in universe order) to the marginal over them, one axis each.
MarginalSource: TypeAlias = Callable[[tuple[str, ...]], Answers]


@dataclass(frozen=True, kw_only=True)
class Marginal:
    """Every cell of the marginal over `attributes`: answers are the marginal itself, last attribute fastest."""

    kind: ClassVar[str] = "marginal"
    attributes: tuple[str, ...]
    weight: int = 1

    def cells(self, universe: Universe) -> int:
        return prod(universe[name].size for name in self.attributes)

    def answer(self, marginal: Answers) -> Answers:
        return marginal.reshape(-1)

    def adjoint(self, answers: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
        return answers.reshape(shape)

    def title(self, universe: Universe) -> str:
        return " × ".join(self.attributes)

    def labels(self, universe: Universe) -> Iterator[tuple[str, ...]]:
        indices = np.ndindex(*(universe[name].size for name in self.attributes))
        all_labels = [universe[name].labels for name in self.attributes]
        for index in indices:
            yield tuple(labels[i] for labels, i in zip(all_labels, index, strict=True))

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {"marginal": list(self.attributes), **_weight_to_json(self)}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return self.cells(universe) > 1


@dataclass(frozen=True, kw_only=True)
class Count:
    """How many rows have, in every named attribute, one of the named bins.

    Attributes:
        attributes: in universe order.
        bins: for each attribute the accepted bins, rising.
    """

    kind: ClassVar[str] = "count"
    attributes: tuple[str, ...]
    bins: tuple[tuple[int, ...], ...]
    weight: int = 1

    def cells(self, universe: Universe) -> int:
        return 1

    def answer(self, marginal: Answers) -> Answers:
        chosen: Answers = marginal[np.ix_(*self.bins)].sum().reshape(1)
        return chosen

    def adjoint(self, answers: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
        spread = np.zeros(shape)
        spread[np.ix_(*self.bins)] = answers[0]
        return spread

    def title(self, universe: Universe) -> str:
        return " and ".join(
            f"{name}: {label}" for name, label in zip(self.attributes, self._ranges(universe), strict=True)
        )

    def labels(self, universe: Universe) -> Iterator[tuple[str, ...]]:
        yield tuple(self._ranges(universe))

    def _ranges(self, universe: Universe) -> Iterator[str]:
        for name, bins in zip(self.attributes, self.bins, strict=True):
            yield range_label(universe[name], bins)

    def tells_rows_apart(self, universe: Universe) -> bool:
        pairs = zip(self.attributes, self.bins, strict=True)
        return any(len(bins) < universe[name].size for name, bins in pairs)

    def simplified(self, universe: Universe) -> Count:
        """The same set of rows without the conditions that every bin meets (one is kept where all do)."""
        pairs = list(zip(self.attributes, self.bins, strict=True))
        kept = [(name, bins) for name, bins in pairs if len(bins) < universe[name].size] or pairs[:1]
        return replace(self, attributes=tuple(name for name, _ in kept), bins=tuple(bins for _, bins in kept))

    def summed(self, universe: Universe) -> int:
        """How many cells of the universe it adds up."""
        own = dict(zip(self.attributes, self.bins, strict=True))
        return prod(len(own[each.name]) if each.name in own else each.size for each in universe.attributes)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {
            "count": {
                name: _bins_to_json(universe[name], bins) for name, bins in zip(self.attributes, self.bins, strict=True)
            },
            **_weight_to_json(self),
        }


@dataclass(frozen=True, kw_only=True)
class Prefix:
    """For each bin of one attribute, in declared order: how many rows lie in it or before it."""

    kind: ClassVar[str] = "prefix"
    attributes: tuple[str, ...]
    weight: int = 1

    def cells(self, universe: Universe) -> int:
        return universe[self.attributes[0]].size

    def answer(self, marginal: Answers) -> Answers:
        return np.cumsum(marginal, dtype=marginal.dtype)

    def adjoint(self, answers: NDArray[np.float64], shape: tuple[int, ...]) -> NDArray[np.float64]:
        return np.cumsum(answers[::-1])[::-1]

    def title(self, universe: Universe) -> str:
        return f"{self.attributes[0]}, up to each value"

    def labels(self, universe: Universe) -> Iterator[tuple[str, ...]]:
        attribute = universe[self.attributes[0]]
        for last in range(attribute.size):
            yield (range_label(attribute, tuple(range(last + 1))),)

    def to_json(self, universe: Universe) -> dict[str, Any]:
        return {"prefix": self.attributes[0], **_weight_to_json(self)}

    def tells_rows_apart(self, universe: Universe) -> bool:
        return self.cells(universe) > 1


Family: TypeAlias = Marginal | Count | Prefix


def unweighted(family: Family) -> Family:
    """The same questions at weight 1: by these two families are told to ask the same."""
    return family if family.weight == 1 else replace(family, weight=1)


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """How far one privacy unit can move the whole vector of answers, or of answers times their weights.

    Attributes:
        l1: the greatest sum of absolute changes, in counts.
        l2_squared: the greatest sum of squared changes.
    """

    l1: int
    l2_squared: int


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Families of linear counting queries over one universe, each asked once.

    Attributes:
        universe: what the queries are about; a numeric attribute of which running totals are asked is without the bin
            for what is no number.
        families: in the order asked; a family asked twice is kept once, with the last of its weights.
    """

    kind: ClassVar[str] = "counts"
    is_counts: ClassVar[bool] = True
    is_offered: ClassVar[bool] = True
    is_open: ClassVar[bool] = False
    universe: Universe
    families: tuple[Family, ...]

    def __post_init__(self) -> None:
        if not self.families:
            raise InvalidInput("queries", 0, "must hold at least one query")
        for family in self.families:
            check_weight(family.weight)
        # What is no number lies in no running total, so its row does not count where one is asked.
        running = [family.attributes[0] for family in self.families if isinstance(family, Prefix)]
        object.__setattr__(self, "universe", self.universe.ordered(running))
        object.__setattr__(self, "families", tuple({unweighted(each): each for each in self.families}.values()))
        if self.universe.counts_apart:
            for names in self.marginals:
                # Refuses a table of rows and of persons at once.
                _ = self.universe.project(names).is_of_persons
        if self.size > MAX_ANSWERS:
            raise InvalidInput("queries", f"{self.size:,} answers", f"must be at most {MAX_ANSWERS:,} answers")

    @cached_property
    def size(self) -> int:
        """k, the number of answers."""
        return sum(family.cells(self.universe) for family in self.families)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """Of each family its weight; all 1 where they are equal, for a weight says something beside others alone."""
        given = tuple(family.weight for family in self.families)
        return given if self.is_weighted else (1,) * len(given)

    @cached_property
    def is_weighted(self) -> bool:
        """Whether some questions matter more than others."""
        return len({family.weight for family in self.families}) > 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that some query looks at, in universe order."""
        return attributes_asked(self.families, self.universe)

    @cached_property
    def by_rules(self) -> tuple[Workload, ...]:
        """The families in groups, each of those that count rows, or persons, and whose columns leave out some of them
        by the same rules. Where no table has own rows, all are one group: then the rules of all columns hold for each.
        """
        if not self.universe.own_rows:
            return (self,)
        groups: dict[tuple[bool, frozenset[str]], list[Family]] = {}
        for family in self.families:
            groups.setdefault(self._rules(family), []).append(family)
        return tuple(replace(self, families=tuple(families)) for families in groups.values())

    @property
    def rules_differ(self) -> bool:
        """Whether a rule of some column is about some families alone, or some count rows and others persons."""
        return len({self._rules(family) for family in self.families}) > 1

    def _rules(self, family: Family) -> tuple[bool, frozenset[str]]:
        """Whether it counts persons, and the columns that leave some out."""
        is_of_persons = self.universe[family.attributes[0]].per_person is not None
        return is_of_persons, frozenset(name for name in family.attributes if self.universe[name].may_drop)

    def check_same_rows(self) -> None:
        """See that all families count the same rows, as numbers have to that are put together.

        Raises:
            InvalidInput: some have own rows.
        """
        if self.universe.own_rows and self.rules_differ:
            raise InvalidInput("queries", "tables that count different rows", "must all count the same")

    @property
    def tells_rows_apart(self) -> bool:
        """Whether some answer counts one row and not another. Else every answer is the number of rows."""
        return any(family.tells_rows_apart(self.universe) for family in self.families)

    @cached_property
    def marginals(self) -> tuple[tuple[str, ...], ...]:
        """The distinct attribute sets whose marginals answer everything, in order of first use."""
        return tuple(dict.fromkeys(family.attributes for family in self.families))

    def answer(self, marginal: MarginalSource) -> list[Answers]:
        """The answers of each family, flat, from a source of marginals; each is asked for once, in order of first use,
        and let go before the next.
        """
        members: dict[tuple[str, ...], list[int]] = {}
        for place, family in enumerate(self.families):
            members.setdefault(family.attributes, []).append(place)
        found: dict[int, Answers] = {}
        for names, places in members.items():
            table = marginal(names)
            found.update((place, self.families[place].answer(table)) for place in places)
        return [found[place] for place in range(len(self.families))]

    def split(self, flat: Answers) -> list[Answers]:
        """Cut one vector of k answers into one for each family."""
        ends = np.cumsum([family.cells(self.universe) for family in self.families])
        return list(np.split(flat, ends[:-1]))

    def sensitivity(self, schema: Schema) -> Sensitivity:
        """Δ1 and Δ2² of the vector of all answers under the schema's unit and neighbouring relation.

        Coefficients are 0 or 1, so with x one row and q the vector of queries, adding or removing a row changes
        answers by q(x) and replacing it by q(x) - q(y): changes are in {-1, 0, 1} and the sum of squares equals
        the sum of absolute values. Where rows may vanish (`Schema.rows_may_vanish`) q(y) may be 0. A person has up to
        g rows x_i, replaced by up to g rows y_i; where there are fewer, q is 0 for the rest. The answers change by
        Σ (q(x_i) - q(y_i)), in either norm at most g times the largest term, and by that much where all terms are
        alike: Δ1 grows by g and Δ2² by g². Exact where the cells the predicates and prefixes speak of can be
        enumerated, else an upper bound: the sum over families of the most each can change.

        Where tables have own rows (`Universe.own_rows`), a row may count in some families and not in others. Let each
        column whose rule drops rows have one more bin, for what it drops, and let a family's answers be 0 in the cells
        that have this bin in one of its columns. Then every row has one cell x, and f(D) = Σ q(x) over all rows as
        above, with q of coefficients 0 and 1. Adding a row changes the answers by q(x), which is largest where nothing
        is dropped, for q_f(x) is 0 or as without the new bins: as where all tables count the same rows. Replacing one
        changes them by q(x) - q(y) with x and y among all cells, also the new ones. In a table of several cells that is
        2 either way. In a running total over m bins it is up to m, and not m - 1: a row that had no number may come to
        lie in the first bin. In a count that every bin is in, and in a table of one cell, it is 1, and not 0. A
        person's g rows are the same ones for all families, since they are bounded once, before any of these rules; so
        there are g terms again. (Bounded for each family by itself, two disjoint counts of a person of one row could
        each count another row of that person, and move by 2 where 1 is charged.)

        Where some families count rows, and others persons (`Universe.counts_apart`), the vector is (u, v), with u the
        answers about rows and v those about persons. A unit, which is a person, changes both. The rows of a person that
        u counts are bounded by themselves, whatever v is made of, so u moves as if it were released alone; and v too,
        for a person has one value of every column there, made of all of their rows. So ‖(u, v)‖1 = ‖u‖1 + ‖v‖1 and
        ‖(u, v)‖2² = ‖u‖2² + ‖v‖2² move by at most the sums of both bounds. For a replaced person of g rows and one
        table each, Δ1 is at most 2g + 2, and Δ2² is at most 2g² + 2.
        """
        return self._weighing(schema, (1,) * len(self.families))

    def weighted_sensitivity(self, schema: Schema) -> Sensitivity:
        """Δ1 and Δ2² of the vector of all answers, each times its weight w.

        Noise of scale Δ1/(ε w) on each answer q loses Σ |d_q| ε w_q / Δ1 <= ε when the answers move by d, and variance
        Δ2²/(2 ρ w²) has Σ d_q² w_q² 2 ρ / (2 Δ2²) <= ρ. The maximum is over one unit at a time, so weights of questions
        that no one row touches together do not add up. Since d is in {-1, 0, 1} for one row, Δ2² is the greatest sum
        of w² over changed answers as Δ1 is that of w; exact or an upper bound as `sensitivity`.
        """
        return self._weighing(schema, self.weights)

    def _weighing(self, schema: Schema, weights: Sequence[int]) -> Sensitivity:
        """That of the answers times these weights, which is added up over answers about rows and about persons."""
        l1 = l2_squared = 0
        for under in schema.apart:
            own = [
                (family, weight)
                for family, weight in zip(self.families, weights, strict=True)
                if under.universe is schema.universe or family.attributes[0] in under.universe.names
            ]
            if own:
                part = replace(self, universe=under.universe, families=tuple(family for family, _ in own))
                rows = under.rows_of_unit
                l1 += rows * part._most_changed(under, [weight for _, weight in own])
                l2_squared += rows * rows * part._most_changed(under, [weight * weight for _, weight in own])
        return Sensitivity(l1=l1, l2_squared=l2_squared)

    def _most_changed(self, schema: Schema, costs: Sequence[int]) -> int:
        """The most that one row can change, where each changed answer of a family counts as its cost."""
        one_row = self._most_answers_of_one_row(costs)
        return max(
            schema.changes_of_a_row(
                added=one_row,
                replaced=lambda: min(self._most_answers_changed_by_replacing(costs), 2 * one_row),
            )
        )

    def _most_answers_of_one_row(self, costs: Sequence[int]) -> int:
        """max_x Σ_q c_q q(x): each marginal counts a row once; predicates and prefixes depend on the cell."""
        priced = list(zip(self.families, costs, strict=True))
        marginals = sum(cost for family, cost in priced if isinstance(family, Marginal))
        columns = self._answers_by_cell([each for each in priced if not isinstance(each[0], Marginal)])
        if columns is not None:
            return marginals + int(columns.sum(axis=0).max(initial=0))
        return sum(cost * _most_of(family, self.universe) for family, cost in priced)

    def _most_answers_changed_by_replacing(self, costs: Sequence[int]) -> int:
        """max_{x,y} Σ_q c_q |q(x) - q(y)|, the diameter of the cells' answer vectors in l1.

        A marginal changes in two cells at most, a predicate in one, a prefix family of m bins in m - 1. A marginal over
        an attribute of several bins that no predicate or prefix uses changes whatever they do; one over theirs alone is
        looked at together with them, and so is every one where tables have own rows: what a rule drops of one it may
        drop of others.
        """
        priced = list(zip(self.families, costs, strict=True))
        uneven = [each for each in priced if not isinstance(each[0], Marginal)]
        used = {name for family, _ in uneven for name in family.attributes}
        used |= {each.name for each in self.universe.attributes if each.size == 1 or self.universe.own_rows}
        together = [each for each in priced if isinstance(each[0], Marginal) and used.issuperset(each[0].attributes)]
        columns = self._answers_by_cell([*uneven, *together])
        if columns is None or _is_too_long(columns):
            together, columns = [], self._answers_by_cell(uneven)
        if columns is None or columns.shape[1] > _ENUMERATED_PAIRS:
            return sum(cost * self._most_replaced(family) for family, cost in priced)
        marginals = [each for each in priced if isinstance(each[0], Marginal)]
        apart = sum(cost * self._most_replaced(family) for family, cost in marginals)
        apart -= sum(cost * self._most_replaced(family) for family, cost in together)
        return apart + _diameter(columns)

    def _may_drop(self, name: str) -> bool:
        """Whether a row may have no bin in a column and still count in some family."""
        return self.universe.own_rows and self.universe[name].may_drop

    def _most_replaced(self, family: Family) -> int:
        """The most answers of a family that change when one row is replaced by another."""
        may_drop = any(map(self._may_drop, family.attributes))
        if not family.tells_rows_apart(self.universe):
            return int(may_drop)
        if isinstance(family, Marginal):
            return 2
        return _most_of(family, self.universe) - (isinstance(family, Prefix) and not may_drop)

    def _answers_by_cell(self, priced: Sequence[tuple[Family, int]]) -> NDArray[np.integer[Any]] | None:
        """c_q q(x) for all answers of these families (rows) and all cells of the attributes they use (columns), with
        the bins of what rules drop, where these are rules of some families alone.

        None where that is too large to enumerate.
        """
        used = sorted({name for family, _ in priced for name in family.attributes}, key=self.universe.axis)
        sizes = tuple(self.universe[name].size for name in used)
        shape = tuple(size + self._may_drop(name) for name, size in zip(used, sizes, strict=True))
        rows = sum(family.cells(self.universe) for family, _ in priced)
        if not priced:
            return np.zeros((1, 1), dtype=np.int8)
        if prod(shape) * rows > _ENUMERATED_CELLS:
            return None
        blocks = []
        for family, cost in priced:
            axes = [used.index(name) for name in family.attributes]
            for answer in range(family.cells(self.universe)):
                unit = np.zeros(family.cells(self.universe))
                unit[answer] = cost
                table = family.adjoint(unit, tuple(sizes[axis] for axis in axes))
                table = np.pad(table, [(0, shape[axis] - sizes[axis]) for axis in axes])
                spread = [shape[axis] if axis in axes else 1 for axis in range(len(shape))]
                blocks.append(np.broadcast_to(table.reshape(spread), shape).reshape(-1))
        # At most the square of a weight, which 32 bits hold; sums are taken in 64.
        return np.asarray(blocks, dtype=np.int8 if max(cost for _, cost in priced) == 1 else np.int32)

    def to_json(self) -> dict[str, Any]:
        return {
            "version": WORKLOAD_VERSION,
            **({"states": True} if self.universe.is_of_states else {}),
            "queries": [family.to_json(self.universe) for family in self.families],
        }

    @staticmethod
    def from_json(value: object, universe: Universe) -> Workload:
        """Read a workload of format version 1 against a universe.

        With ``"states": true`` it asks how values read as declared, not what they are: its universe is that of states.

        Raises:
            InvalidInput: naming the field (``queries[1].count.age.from``), the value and the rule.
        """
        if not isinstance(value, dict):
            raise InvalidInput("workload", value, "must be a JSON object")
        check_version(value, WORKLOAD_VERSION, what="workload")
        unknown = set(value) - {"version", "queries", "states"}
        if unknown:
            raise InvalidInput("workload", ", ".join(sorted(map(str, unknown))), "is not a known field")
        if "states" in value and value["states"] is not True:
            raise InvalidInput("states", value["states"], "must be true, or left out")
        universe = universe.states if "states" in value else universe
        queries = value.get("queries")
        if not isinstance(queries, list) or not queries:
            raise InvalidInput("queries", queries, "must be a list with at least one query")
        universe = universe.ordered(_running(queries))
        weights: dict[Family, int] = {}
        for position, query in enumerate(queries):
            try:
                families = _families(query, universe)
                for family in families:
                    # A family asked again keeps its weight unless another is given.
                    weights[family] = query.get("weight", weights.get(family, 1))
            except InvalidInput as error:
                raise InvalidInput(f"queries[{position}].{error.field}", error.value, error.rule) from None
        return Workload(
            universe=universe,
            families=tuple(replace(family, weight=w) if w != 1 else family for family, w in weights.items()),
        )


def attributes_asked(families: Iterable[Family], universe: Universe) -> tuple[str, ...]:
    """The attributes some query looks at, in universe order."""
    return tuple(sorted({name for family in families for name in family.attributes}, key=universe.axis))


def all_marginals(universe: Universe, order: int) -> Workload:
    """The workload of all marginals of `order` attributes."""
    return Workload.from_json({"version": WORKLOAD_VERSION, "queries": [{"marginals": order}]}, universe)


def range_label(attribute: Attribute, bins: Sequence[int]) -> str:
    """A set of bins as a person writes it: ``18 to 34``, ``[0, 20)``, ``north or south``."""
    if _is_in_time(attribute, bins):
        return f"{attribute.labels[bins[0]]} to {attribute.labels[bins[-1]]}"
    if not _is_range(attribute, bins):
        return " or ".join(attribute.labels[index] for index in bins)
    is_first, is_last = bins[0] == 0, bins[-1] == attribute.ranges - 1
    if is_first and is_last and attribute.open_ends:
        return " to ".join(dict.fromkeys((attribute.labels[0], attribute.labels[bins[-1]])))
    if is_last and LAST in attribute.open_ends:
        return f"{plain(attribute.edges[bins[0]])}+"
    if is_first and FIRST in attribute.open_ends:
        return f"<{plain(attribute.edges[bins[-1] + 1])}"
    merged = Attribute(
        name=attribute.name,
        kind=attribute.kind,
        # The upper edge stays exclusive unless the range ends with the last bin.
        edges=(attribute.edges[bins[0]], attribute.edges[bins[-1] + 1])
        + (() if is_last else (attribute.edges[-1] + 1,)),
    )
    return merged.labels[0]


def _is_range(attribute: Attribute, bins: Sequence[int]) -> bool:
    """Whether bins are numbers without a gap between them."""
    return attribute.is_numeric and bins[-1] < attribute.ranges and bins == tuple(range(bins[0], bins[-1] + 1))


def _is_in_time(attribute: Attribute, bins: Sequence[int]) -> bool:
    """Whether bins are several of dates without a gap between them."""
    return len(bins) > 1 and bins[-1] < attribute.in_time and tuple(bins) == tuple(range(bins[0], bins[-1] + 1))


def _running(queries: Iterable[object]) -> Iterator[str]:
    """The columns of which running totals are asked, right or wrong."""
    asked = (query.get("prefix") for query in queries if isinstance(query, dict))
    return (name for name in asked if isinstance(name, str))


def _families(query: object, universe: Universe) -> Iterable[Family]:
    if not isinstance(query, dict) or not query:
        raise InvalidInput("query", query, 'must be an object such as {"marginals": 2}')
    readers = {"marginals": _all_marginals, "marginal": _marginal, "count": _count, "prefix": _prefix}
    kinds = [kind for kind in readers if kind in query]
    if len(kinds) != 1:
        known = ", ".join((*readers, *offered_words()))
        raise InvalidInput("query", ", ".join(map(str, query)), f"must have one of {known}")
    unknown = set(query) - {kinds[0], "weight"} - ({"columns"} if kinds == ["marginals"] else set())
    if unknown:
        raise InvalidInput("query", ", ".join(sorted(map(str, unknown))), "is not a known field")
    check_weight(query.get("weight", 1))
    return readers[kinds[0]](query, universe)


def check_weight(weight: object) -> None:
    """Refuse what is no weight.

    Raises:
        InvalidInput: naming the rule.
    """
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= MAX_WEIGHT:
        raise InvalidInput("weight", weight, f"must be a whole number from 1 to {MAX_WEIGHT:,}")


def _weight_to_json(family: Family) -> dict[str, int]:
    """Left out at 1, so that what was stored before there were weights stays as it is."""
    return {} if family.weight == 1 else {"weight": family.weight}


def _all_marginals(query: dict[str, Any], universe: Universe) -> Iterable[Family]:
    order = query["marginals"]
    names = _declared(query.get("columns", list(universe.names)), universe, field="columns")
    if isinstance(order, bool) or not isinstance(order, int) or not 1 <= order <= len(names):
        raise InvalidInput("marginals", order, f"must be a whole number from 1 to {len(names)}, the number of columns")
    if comb(len(names), order) > MAX_FAMILIES:
        raise InvalidInput(
            "marginals",
            order,
            f"asks for {comb(len(names), order):,} marginals; at most {MAX_FAMILIES:,} are answered",
        )
    return [Marginal(attributes=chosen) for chosen in combinations(names, order)]


def _marginal(query: dict[str, Any], universe: Universe) -> Iterable[Family]:
    return [Marginal(attributes=_declared(query["marginal"], universe, field="marginal"))]


def _prefix(query: dict[str, Any], universe: Universe) -> Iterable[Family]:
    name = query["prefix"]
    if not isinstance(name, str) or name not in universe.names:
        raise InvalidInput("prefix", name, "must name a declared column")
    return [Prefix(attributes=(name,))]


def _count(query: dict[str, Any], universe: Universe) -> Iterable[Family]:
    return [read_count(query["count"], universe)]


def read_count(predicate: object, universe: Universe) -> Count:
    """Read one predicate: an object from column names to ranges or lists of bins.

    Raises:
        InvalidInput: naming the field (``count.age.from``), the value and the rule.
    """
    if not isinstance(predicate, dict) or not predicate:
        raise InvalidInput("count", predicate, "must be an object from column names to ranges or lists")
    names = _declared(list(predicate), universe, field="count")
    return Count(attributes=names, bins=tuple(_accepted_bins(universe[name], predicate[name]) for name in names))


def _declared(names: object, universe: Universe, *, field: str) -> tuple[str, ...]:
    """Column names, checked, each once, in universe order (a marginal has no order of its own)."""
    if not isinstance(names, list) or not names:
        raise InvalidInput(field, names, "must be a list of column names")
    for name in names:
        if not isinstance(name, str) or name not in universe.names:
            raise InvalidInput(field, name, "must name a declared column")
        if names.count(name) > 1:
            raise InvalidInput(field, name, "is named twice")
    return tuple(sorted(names, key=universe.axis))


def _accepted_bins(attribute: Attribute, condition: object) -> tuple[int, ...]:
    field = f"count.{attribute.name}"
    if isinstance(condition, list) and condition:
        positions = {label: position for position, label in enumerate(attribute.labels)}
        for label in condition:
            if str(label) not in positions:
                raise InvalidInput(field, label, f"must be one of {', '.join(attribute.labels[:12])}")
        return tuple(sorted({positions[str(label)] for label in condition}))
    if attribute.is_numeric and isinstance(condition, dict) and condition and set(condition) <= {"from", "to"}:
        start = _edge(attribute, condition["from"], field=f"{field}.from") if "from" in condition else 0
        stop = _edge(attribute, condition["to"], field=f"{field}.to") if "to" in condition else attribute.ranges
        if not start < stop:
            raise InvalidInput(field, condition, "must have from below to")
        return tuple(range(start, stop))
    if attribute.in_time and isinstance(condition, dict) and condition and set(condition) <= {"from", "to"}:
        ends = {"from": attribute.labels[0], "to": attribute.labels[attribute.in_time - 1]} | condition
        first, last = (_bin_in_time(attribute, ends[end], field=f"{field}.{end}") for end in ("from", "to"))
        if first > last:
            raise InvalidInput(field, condition, "must not have to before from")
        return tuple(range(first, last + 1))
    if attribute.in_time:
        example = f'{{"from": "{attribute.labels[0]}", "to": "{attribute.labels[attribute.in_time - 1]}"}}'
        raise InvalidInput(field, condition, f"must be an object such as {example}, both included, or a list of bins")
    expected = (
        'an object such as {"from": 18, "to": 35} or a list of bins'
        if attribute.is_numeric
        else ("a list of categories")
    )
    raise InvalidInput(field, condition, f"must be {expected}")


def _edge(attribute: Attribute, value: object, *, field: str) -> int:
    edge = number(value, field=field)
    try:
        return attribute.edges.index(edge)
    except ValueError:
        nearest = sorted(attribute.edges, key=lambda each: abs(each - edge))[:3]
        raise InvalidInput(
            field, plain(Decimal(edge)), f"must be a declared edge (nearest: {', '.join(map(plain, sorted(nearest)))})"
        ) from None


def _bin_in_time(attribute: Attribute, value: object, *, field: str) -> int:
    bins = attribute.labels[: attribute.in_time]
    if value not in bins:
        raise InvalidInput(field, value, f"must be one of {', '.join(bins[:12])}{', …' if len(bins) > 12 else ''}")
    return bins.index(str(value))


def _bins_to_json(attribute: Attribute, bins: tuple[int, ...]) -> object:
    if _is_in_time(attribute, bins):
        return {"from": attribute.labels[bins[0]], "to": attribute.labels[bins[-1]]}
    if _is_range(attribute, bins):
        edges = [attribute.edges[bins[0]], attribute.edges[bins[-1] + 1]]
        low, high = (int(edge) if edge == edge.to_integral_value() else float(edge) for edge in edges)
        return {"from": low, "to": high}
    return [attribute.labels[index] for index in bins]


def _most_of(family: Family, universe: Universe) -> int:
    return family.cells(universe) if isinstance(family, Prefix) else 1


def _is_too_long(columns: NDArray[np.integer[Any]]) -> bool:
    """Whether comparing all pairs of columns would take more than about a second."""
    answers, cells = columns.shape
    return bool(cells > _ENUMERATED_PAIRS or answers * cells * cells > _ENUMERATED_CHANGES)


def _diameter(columns: NDArray[np.integer[Any]]) -> int:
    """The greatest l1 distance between two columns."""
    unique = np.unique(columns, axis=1).astype(np.int32)
    return max(int(np.abs(unique - unique[:, [i]]).sum(axis=0).max()) for i in range(unique.shape[1]))
