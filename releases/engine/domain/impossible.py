"""Combinations of bins that cannot occur, such as age under 15 and married: public facts, declared by a person.

A combination names some bins of each of two or more columns. A row is impossible where each of these columns has one of
the bins named. Declared facts are part of the universe: the rows that are made have none of these combinations, and a
fit gives them no weight. Rows of the table that have one are counted as they are, unless `drops_impossible` is set in
the universe: then they are left out of every count, like any row that a declared rule drops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from releases.engine.domain.counted import Counted
from releases.engine.errors import InvalidInput

#: More combinations than this are a table of their own, which no person has checked; and so are more columns in one.
MAX_COMBINATIONS, MAX_JOINED = 100, 10
#: Bins that a refusal names.
_MAX_NAMED = 10
#: Steps of the search for a row that breaks no rule: each plan looks for one.
_MAX_STEPS = 10_000
#: How a combination is written that names all bins of a column: see `Combination.to_json`.
_ANY = "any"


class Bins(Protocol):
    """What is asked of something that has bins."""

    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def size(self) -> int: ...


class BinnedColumn(Bins, Protocol):
    """What is asked of a declared column."""

    @property
    def has_grammar(self) -> bool: ...
    @property
    def drops_missing(self) -> bool: ...
    @property
    def counted(self) -> Counted: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """One combination that cannot occur.

    Attributes:
        bins: for each column, in the order of the universe, the labels of its bins in their order.
    """

    bins: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.bins)

    def places(self, attributes: Iterable[Bins]) -> dict[str, tuple[int, ...]]:
        """By column the numbers of its bins, among the attributes of a universe."""
        named = dict(self.bins)
        found = {}
        for each in attributes:
            if each.name in named:
                chosen = set(named[each.name])
                found[each.name] = tuple(place for place, label in enumerate(each.labels) if label in chosen)
        return found

    def in_words(self) -> str:
        """Such as “age: 0 to 14, and status: married or widowed”."""
        return ", and ".join(f"{name}: {_listed(labels)}" for name, labels in self.bins)

    def beside(self, name: str, label: str) -> str | None:
        """With which bins of the other columns a bin cannot occur, in words; None where it is not in it."""
        if label not in dict(self.bins).get(name, ()):
            return None
        others = tuple(named for named in self.bins if named[0] != name)
        return Combination(bins=others).in_words()

    def of_columns(self, names: Mapping[str, str]) -> Combination:
        """The same of columns that are called otherwise, by their names in it."""
        return Combination(bins=tuple((names.get(name, name), labels) for name, labels in self.bins))

    def to_json(self, attributes: Iterable[BinnedColumn] = ()) -> dict[str, list[str] | str]:
        """By column its bins. In the universe of a plan that leaves out rows without a value, all that are left may be
        named: that is any value.

        Args:
            attributes: of that universe.
        """
        sizes = {each.name: each.size for each in attributes}
        return {name: _ANY if len(labels) == sizes.get(name) else list(labels) for name, labels in self.bins}


def _listed(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} or {labels[-1]}"


def read_combinations(value: object, attributes: Sequence[BinnedColumn]) -> tuple[Combination, ...]:
    """Read the combinations of a schema: a list of objects, each from columns to lists of their bins.

    Raises:
        InvalidInput: naming the combination and the column (``impossible[0].age``), the value and the rule.
    """
    if not isinstance(value, list):
        raise InvalidInput("impossible", value, "must be a list")
    if len(value) > MAX_COMBINATIONS:
        raise InvalidInput("impossible", f"{len(value):,} combinations", f"must be at most {MAX_COMBINATIONS}")
    known = {each.name: each for each in attributes}
    found: dict[Combination, int] = {}
    for position, each in enumerate(value):
        combination = _combination(f"impossible[{position}]", each, known)
        if combination in found:
            rule = f"is declared twice, first as impossible[{found[combination]}]"
            raise InvalidInput(f"impossible[{position}]", combination.in_words(), rule)
        found[combination] = position
    check_possible(tuple(found), attributes)
    return tuple(found)


def _combination(field: str, value: object, known: Mapping[str, BinnedColumn]) -> Combination:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "must be an object from columns to lists of their bins")
    if not 2 <= len(value) <= MAX_JOINED:
        raise InvalidInput(field, f"{len(value)} columns", f"must name 2 to {MAX_JOINED} columns")
    for name, labels in value.items():
        if name not in known:
            raise InvalidInput(f"{field}.{name}", name, "is not a declared column")
        if not _is_any(labels, known[name]):
            _check_bins(f"{field}.{name}", labels, known[name])
    kinds = {each.counted for name, each in known.items() if name in value}
    if len(kinds) > 1:
        raise InvalidInput(field, ", ".join(value), "must be columns of rows alone, or of persons alone")
    named = {
        name: set(known[name].labels if _is_any(labels, known[name]) else labels) for name, labels in value.items()
    }
    return Combination(
        bins=tuple(
            (name, tuple(label for label in each.labels if label in named[name]))
            for name, each in known.items()
            if name in named
        )
    )


def _is_any(labels: object, attribute: BinnedColumn) -> bool:
    """Whether all bins are meant, of a column whose rows without a value are left out."""
    return labels == _ANY and attribute.has_grammar and attribute.drops_missing


def _check_bins(field: str, labels: object, attribute: BinnedColumn) -> None:
    if not isinstance(labels, list) or not labels:
        raise InvalidInput(field, labels, "must be a list with at least one bin")
    declared, seen = set(attribute.labels), set[str]()
    for label in labels:
        if not isinstance(label, str) or label not in declared:
            named = ", ".join(attribute.labels[:_MAX_NAMED]) + (", …" if attribute.size > _MAX_NAMED else "")
            raise InvalidInput(field, label, f"is no bin of {attribute.name}; these are: {named}")
        if label in seen:
            raise InvalidInput(field, label, "is named twice")
        seen.add(label)
    _check_leaves_one(field, labels, attribute)


def _check_leaves_one(field: str, labels: Sequence[str], attribute: BinnedColumn) -> None:
    if len(labels) == attribute.size:
        raise InvalidInput(field, f"all {len(labels)} bins", "must leave at least one bin of the column out")


def check_declared(combinations: Iterable[Combination], attributes: Iterable[BinnedColumn]) -> None:
    """
    Raises:
        InvalidInput: one names all bins of a column, which plans may and declarations may not.
    """
    known = {each.name: each for each in attributes}
    for position, each in enumerate(combinations):
        for name, labels in each.bins:
            _check_leaves_one(f"impossible[{position}].{name}", labels, known[name])


def check_possible(combinations: Sequence[Combination], attributes: Sequence[BinnedColumn]) -> None:
    """
    Raises:
        InvalidInput: no row is left that breaks no rule, or that takes too long to see.
    """
    if possible_row(combinations, attributes) is None:
        rule = "must leave some combination of bins possible"
        raise InvalidInput("impossible", f"{len(combinations)} combinations together", rule)


def possible_row(combinations: Sequence[Combination], attributes: Sequence[Bins]) -> dict[str, int] | None:
    """For each column that some combination names a bin, so that the row has no impossible combination; None where
    there is none.

    A column with a bin that no combination names takes it, and then no combination that names the column can be had.
    These are put aside, and so on. What is left is searched: columns are gone through one after the other, and a bin is
    given up as soon as it completes a combination. Bins that are in the same combinations are alike, and only the first
    of them is tried.

    Raises:
        InvalidInput: that takes too many steps.
    """
    rules = [{name: frozenset(bins) for name, bins in each.places(attributes).items()} for each in combinations]
    sizes = {each.name: each.size for each in attributes}
    columns = list(dict.fromkeys(name for rule in rules for name in rule))
    row: dict[str, int] = {}
    while True:
        freed = {name: free for name in columns if name not in row and (free := _free(name, sizes[name], rules)) >= 0}
        if not freed:
            break
        row |= freed
        rules = [rule for rule in rules if not rule.keys() & freed.keys()]
    rest = [name for name in columns if name not in row]
    found = _searched(rest, rules)
    return None if found is None else row | found


def _free(name: str, size: int, rules: Sequence[Mapping[str, frozenset[int]]]) -> int:
    """The first bin of a column that no rule names; -1 where they name all."""
    named = frozenset[int]().union(*(rule[name] for rule in rules if name in rule))
    return next((place for place in range(size) if place not in named), -1)


def _searched(columns: Sequence[str], rules: Sequence[Mapping[str, frozenset[int]]]) -> dict[str, int] | None:
    """A bin for each column, all of whose bins are in some rule, so that no rule is had; None where there are none."""
    at = {name: depth for depth, name in enumerate(columns)}
    completed = [[rule for rule in rules if max(map(at.__getitem__, rule)) == depth] for depth in range(len(columns))]
    alike: list[list[int]] = []
    for name in columns:
        named = sorted(frozenset[int]().union(*(rule[name] for rule in rules if name in rule)))
        alike.append(list({tuple(place in rule.get(name, ()) for rule in rules): place for place in named}.values()))
    row: dict[str, int] = {}
    tried: list[Iterator[int]] = []
    for _ in range(_MAX_STEPS):
        depth = len(tried) - 1
        if depth >= 0:
            place = next(tried[depth], None)
            if place is None:
                tried.pop()
                if not tried:
                    return None
                continue
            row[columns[depth]] = place
            if any(all(row[name] in bins for name, bins in rule.items()) for rule in completed[depth]):
                continue
        if depth + 1 == len(columns):
            return row
        tried.append(iter(alike[depth + 1]))
    rule = "must be fewer, or name fewer bins: whether they leave any row possible takes too long to see"
    raise InvalidInput("impossible", f"{len(rules)} combinations together", rule)


def of_columns(combinations: Iterable[Combination], names: Iterable[str]) -> tuple[Combination, ...]:
    """Those that are about some columns alone, in the order of the columns: others say nothing of these."""
    order = {name: place for place, name in enumerate(names)}
    return tuple(
        Combination(bins=tuple(sorted(each.bins, key=lambda named: order[named[0]])))
        for each in combinations
        if set(each.names) <= set(order)
    )


def within(combinations: Iterable[Combination], attributes: Sequence[BinnedColumn]) -> tuple[Combination, ...]:
    """The same where columns have fewer bins: those that are left of each, and none where a column has none left. Those
    that are alike then are one."""
    labels = {each.name: set(each.labels) for each in attributes}
    left = (
        Combination(bins=tuple((name, tuple(each for each in bins if each in labels[name])) for name, bins in one.bins))
        for one in combinations
    )
    return tuple(dict.fromkeys(each for each in left if all(bins for _, bins in each.bins)))


def combinations_to_json(
    combinations: Iterable[Combination], attributes: Sequence[BinnedColumn] = ()
) -> list[dict[str, Any]]:
    return [each.to_json(attributes) for each in combinations]
