"""Levels: columns whose bins all follow from one text of a row, such as municipality, district and region.

A column of categories reads one text t of each row, or none where it is missing. A column that is made by
``recode(that column, {...}, "other")`` looks up the same t; one that is made by ``prefix(that column, 2)`` has its
first characters, and ``recode(prefix(that column, 2), {...}, "other")`` looks these up. So the bins that a row has in
all of them together are one of few combinations, here its *ways*, and where each bin of one column goes with a single
bin of another, the other is a *level* of it. Nothing more has to be declared, and nothing is read off the rows.

Proof. Say that a column knows its categories, or the keys of its table. Let K be all that some column knows, without
the missing codes of the column that is read. Without prefixes, the bins of a row depend on t alone, by comparison with
K: they are the same for all t that are not in K. So the missing text, each text of K and one text outside of K give all
ways.

With prefixes, let t not be in K, and let p(n) be its first n characters without white space at the end, as
``tables.derived`` cuts them. Of the columns that know their p(n), let m be the largest n, and c = p(m); if there is no
such column, t has the bins of any text outside of K. t begins with c and white space up to m characters, for a shorter
t would be c, which is in K. Let r be c, spaces up to m characters, and a sign that nobody knows. For each n up to m, r
has the p(n) of t. For each larger n, that of r has the sign, so no column knows it, and none knows that of t. No column
knows r or t as a whole, and neither is a missing code. So r has the bins of t, and all ways are those of the missing
text, the texts of K, the sign alone, and an r for each column with a prefix and each c that it knows.

Texts that drop the row in some of the columns give no way: where all of these columns are asked about, such a row does
not count. Other columns may leave out more rows, which leaves out ways at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from releases.engine.domain.attribute import DROP, Attribute
from releases.engine.domain.columns import AttributeKind, FileColumn
from releases.engine.domain.formula_tree import Call, Constant, Node, Read, Recode
from releases.engine.domain.impossible import Bins, Combination, possible_row

#: A text that is in no table and no declaration, and no space: keys, categories and missing codes are printable.
_ANY_OTHER = "\x01"
_DROPPED = -1


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Columns whose bins follow from one text.

    Attributes:
        attributes: in the order of the universe; two or more.
        ways: the combinations of bins that a counted row can have, each once, ascending; bins in the same order.
    """

    attributes: tuple[Attribute, ...]
    ways: tuple[tuple[int, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(each.name for each in self.attributes)

    @property
    def is_limited(self) -> bool:
        """Whether some combination of bins is none of the ways."""
        return len(self.ways) < prod(each.size for each in self.attributes)

    @cached_property
    def from_coarse_to_fine(self) -> tuple[int, ...]:
        """The places of the columns, the one with the fewest bins that occur first. A level of a column has no more."""
        occurring = [len(set(bins)) for bins in zip(*self.ways, strict=True)] or [0] * len(self.attributes)
        return tuple(sorted(range(len(self.attributes)), key=lambda place: (occurring[place], place)))

    def map_between(self, fine: str, coarse: str) -> tuple[int, ...] | None:
        """Of each bin of one column the bin of another that every counted row in it has, -1 where there is no such row;
        None where rows of one bin can be in several, and the other is no level of it."""
        at, to = self.names.index(fine), self.names.index(coarse)
        found = [_DROPPED] * self.attributes[at].size
        for way in self.ways:
            if found[way[at]] not in (_DROPPED, way[to]):
                return None
            found[way[at]] = way[to]
        return tuple(found)

    @cached_property
    def levels(self) -> tuple[tuple[str, str], ...]:
        """Of each column that is a level of others, in that order, the first of these, and the column itself.

        Of two columns whose bins go with each other one to one, the first is the level of the second.
        """
        found = []
        order = [self.attributes[place].name for place in self.from_coarse_to_fine]
        for place, coarse in enumerate(order):
            fine = next((each for each in order[place + 1 :] if self.map_between(each, coarse) is not None), None)
            if fine is not None:
                found.append((fine, coarse))
        return tuple(found)


def levels_in_words(hierarchies: Iterable[Hierarchy]) -> list[str]:
    """A sentence for each level."""
    return [
        f"{coarse} is a level of {fine}: each bin of {fine} is within one bin of {coarse}."
        for each in hierarchies
        for fine, coarse in each.levels
    ]


def hierarchies_of(attributes: Iterable[Attribute]) -> tuple[Hierarchy, ...]:
    """Those among some attributes that limit which bins go together."""
    by_source: dict[FileColumn, list[Attribute]] = {}
    for each in attributes:
        source = _source(each)
        if source is not None:
            by_source.setdefault(source, []).append(each)
    found = (
        Hierarchy(attributes=tuple(several), ways=_ways(source, several))
        for source, several in by_source.items()
        if len(several) > 1
    )
    return tuple(each for each in found if each.is_limited)


def _source(attribute: Attribute) -> FileColumn | None:
    """The column of the table whose text alone decides the bin; None where no such text does."""
    if attribute.state_of is not None or attribute.kind is not AttributeKind.CATEGORICAL:
        return None
    if attribute.formula is not None and _Lookup.of(attribute.formula.tree) is None:
        return None
    (source,) = attribute.reads
    # The text of a column of numbers can be missing by its value.
    return source if source.kind is AttributeKind.CATEGORICAL else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lookup:
    """What a formula makes of one text.

    Attributes:
        first: how many of its characters are taken; None for all of them.
        recode: where they are looked up; None where they are left as they are.
    """

    first: int | None
    recode: Recode | None

    @staticmethod
    def of(tree: Node) -> _Lookup | None:
        """None where the formula makes something else."""
        recode = tree if isinstance(tree, Recode) else None
        text, first = recode.of if recode is not None else tree, None
        if isinstance(text, Call) and text.name == "prefix":
            text, length = text.arguments
            assert isinstance(length, Constant)
            first = int(length.value)
        return _Lookup(first=first, recode=recode) if isinstance(text, Read) else None


def _ways(source: FileColumn, attributes: Sequence[Attribute]) -> tuple[tuple[int, ...], ...]:
    readers = [_Reader(each) for each in attributes]
    known = dict.fromkeys(text for each in readers for text in each.texts if text not in source.missing)
    ways = {tuple(each.bin_of(text) for each in readers) for text in (None, _ANY_OTHER, *known)}
    return tuple(sorted(way for way in ways if _DROPPED not in way))


class _Reader:
    """From the text of a row to its bin of one column: as `tables.derived` and `tables.code` say it in SQL."""

    def __init__(self, attribute: Attribute) -> None:
        self._places = {category: place for place, category in enumerate(attribute.categories)}
        self._outside = self._by_rule(attribute.outside)
        self._missing = self._by_rule(attribute.missing_as or attribute.outside)
        lookup = _Lookup.of(attribute.formula.tree) if attribute.formula is not None else None
        self._first, self._recode = (lookup.first, lookup.recode) if lookup is not None else (None, None)
        self._table = dict(self._recode.table) if self._recode is not None else {}

    @property
    def texts(self) -> Iterator[str]:
        """From one of which every other text differs in nothing that matters here."""
        for known in self._table if self._recode is not None else self._places:
            yield known
            if self._first is not None and len(known) <= self._first:
                yield known.ljust(self._first) + _ANY_OTHER

    def bin_of(self, text: str | None) -> int:
        if text is not None and self._first is not None:
            text = text[: self._first].rstrip()
        if self._recode is not None and text is not None:
            text = self._table.get(text, self._recode.otherwise)
        return self._missing if text is None else self._places.get(text, self._outside)

    def _by_rule(self, rule: str) -> int:
        return _DROPPED if rule == DROP else self._places[rule]


# Together with combinations that are declared impossible


@dataclass(frozen=True, kw_only=True)
class _Ways:
    """A hierarchy as one column, whose bins are its ways."""

    hierarchy: Hierarchy

    @property
    def name(self) -> str:
        """No column's: names of columns are printable."""
        return "\n".join(self.hierarchy.names)

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(map(str, range(self.size)))

    @property
    def size(self) -> int:
        return len(self.hierarchy.ways)

    def named(self, combination: Combination) -> tuple[str, ...]:
        """The ways that have a bin of every one of these columns that a combination names."""
        bins = combination.places(self.hierarchy.attributes)
        wanted = [(self.hierarchy.names.index(name), set(places)) for name, places in bins.items()]
        return tuple(
            label
            for label, way in zip(self.labels, self.hierarchy.ways, strict=True)
            if all(way[at] in places for at, places in wanted)
        )


def row_within_levels(
    combinations: Sequence[Combination], attributes: Sequence[Attribute], hierarchies: Sequence[Hierarchy]
) -> dict[str, int] | None:
    """For each column of a hierarchy, and each that some combination names, a bin: so that the row has no impossible
    combination, and one of the ways of every hierarchy. None where there is no such row.

    Raises:
        InvalidInput: that takes too many steps.
    """
    if not all(each.ways for each in hierarchies):
        return None
    columns = [_Ways(hierarchy=each) for each in hierarchies]
    home = {name: each for each in columns for name in each.hierarchy.names}
    rules = []
    for combination in combinations:
        bins = {name: labels for name, labels in combination.bins if name not in home}
        bins |= {each.name: each.named(combination) for name in combination.names if (each := home.get(name))}
        # Where no way has the bins that are named, no row has the combination.
        if all(bins.values()):
            rules.append(Combination(bins=tuple(bins.items())))
    alone: list[Bins] = [each for each in attributes if each.name not in home]
    found = possible_row(rules, [*alone, *columns])
    if found is None:
        return None
    for each in columns:
        found |= zip(each.hierarchy.names, each.hierarchy.ways[found.pop(each.name, 0)], strict=True)
    return found
