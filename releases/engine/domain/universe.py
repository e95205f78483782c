"""The universe: the finite product of declared attribute bins.

Everything here is declared by a person who need not have seen a row. A value outside the declaration is
clamped, dropped or sent to a declared category, by declared rule, so that the universe never depends on data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.impossible import Combination, of_columns, within
from releases.engine.domain.levels import Hierarchy, hierarchies_of, row_within_levels
from releases.engine.errors import InvalidInput

MAX_COLUMNS = 10_000
#: Columns that a refusal names.
MAX_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class Universe:
    """The finite product of the attributes' bins. A cell is one combination of bins.

    Attributes:
        attributes: in the order of the schema; cells are numbered with the last attribute fastest.
        impossible: combinations of bins that no row can have, as declared.
        drops_impossible: whether rows of the table that have one are left out of every count. A plan says so, not a
            declaration: plain questions count them as they are.
        own_rows: whether each table of counts leaves out only what the rules of its own columns leave out, and not what
            those of any column do. A plan says so, not a declaration.
    """

    attributes: tuple[Attribute, ...]
    impossible: tuple[Combination, ...] = ()
    drops_impossible: bool = False
    own_rows: bool = False

    def __post_init__(self) -> None:
        if not 1 <= len(self.attributes) <= MAX_COLUMNS:
            raise InvalidInput("columns", len(self.attributes), f"must be 1 to {MAX_COLUMNS:,} in number")
        seen: set[str] = set()
        for position, attribute in enumerate(self.attributes):
            if attribute.name in seen:
                raise InvalidInput(f"columns[{position}].name", attribute.name, "is declared twice")
            seen.add(attribute.name)
        if not self.impossible:
            object.__setattr__(self, "drops_impossible", False)
        if self.own_rows and self.drops_impossible:
            raise InvalidInput("impossible_rows", "drop", "does not go with tables that each count rows of their own")

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.attributes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(attribute.size for attribute in self.attributes)

    @cached_property
    def size(self) -> int:
        """|X|, the number of cells, exactly (it may exceed any machine integer)."""
        return prod(self.shape)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def __getitem__(self, name: str) -> Attribute:
        return self.attributes[self.axis(name)]

    def axis(self, name: str) -> int:
        """The position of an attribute among the axes of a histogram.

        Raises:
            InvalidInput: no attribute has that name.
        """
        try:
            return self._positions[name]
        except KeyError:
            raise InvalidInput("column", name, "is not declared in the schema") from None

    def axes(self, names: Iterable[str]) -> tuple[int, ...]:
        return tuple(self.axis(name) for name in names)

    def project(self, names: Iterable[str]) -> Universe:
        """The universe of some of the attributes, in the order given."""
        names = tuple(names)
        return replace(
            self, attributes=tuple(self[name] for name in names), impossible=of_columns(self.impossible, names)
        )

    def ordered(self, names: Iterable[str]) -> Universe:
        """The universe in which some attributes have bins in order alone: a row without a number there is dropped."""
        chosen = set(names)
        attributes = tuple(each.ordered if each.name in chosen else each for each in self.attributes)
        if attributes == self.attributes:
            return self
        return replace(self, attributes=attributes, impossible=within(self.impossible, attributes))

    def exactly(self, names: Iterable[str]) -> Universe:
        """The universe in which the dates of some of the attributes count by themselves; numbers always do."""
        chosen = {name for name in names if self[name].dates is not None}
        attributes = (replace(each, is_exact=True) if each.name in chosen else each for each in self.attributes)
        return replace(self, attributes=tuple(attributes)) if chosen else self

    def check_columns(self, present: Collection[str]) -> None:
        """Refuse columns that a table does not have, and formulas for columns that it has.

        Raises:
            InvalidInput: naming the column.
        """
        for position, attribute in enumerate(self.attributes):
            is_made = (attribute.state_of or attribute).formula is not None
            for read in attribute.reads:
                if read.name not in present:
                    field = (
                        f"columns[{position}] ({attribute.name}).formula" if is_made else f"columns[{position}].name"
                    )
                    raise InvalidInput(field, read.name, "is not a column of the table")
            if is_made and attribute.name in present:
                rule = "is a column of the table; a column with a formula needs another name"
                raise InvalidInput(f"columns[{position}].name", attribute.name, rule)

    @cached_property
    def populations(self) -> tuple[Universe, ...]:
        """The attributes of rows, and behind them those of persons: a table of counts has attributes of one alone."""
        of_rows = [each for each in self.attributes if each.per_person is None]
        of_persons = [each for each in self.attributes if each.per_person is not None]
        if not (of_rows and of_persons):
            return (self,)
        return tuple(self.project(one.name for one in each) for each in (of_rows, of_persons))

    @property
    def largest_population(self) -> Universe:
        """Of those that are counted apart, the one with most cells."""
        return max(self.populations, key=lambda each: each.size)

    @property
    def is_of_persons(self) -> bool:
        """Whether what is counted is persons, each by one value of every attribute, and not rows.

        Raises:
            InvalidInput: some attributes are of rows, others of persons.
        """
        if self.counts_apart:
            of_persons = ", ".join(self.populations[1].names[:MAX_NAMED])
            rule = (
                "count persons, and the other columns count rows: ask about each kind in a question of its own. To "
                "count persons by another column, first make one of one value a person from it, such as "
                f"most_frequent_per_person({self.populations[0].names[0]})"
            )
            raise InvalidInput("columns", of_persons, rule)
        return self.attributes[0].per_person is not None

    @property
    def counts_apart(self) -> bool:
        """Whether some attributes count rows, and others persons."""
        return len(self.populations) > 1

    @property
    def counted(self) -> Counted:
        if self.counts_apart:
            return Counted.BOTH
        return Counted.PERSONS if self.is_of_persons else Counted.ROWS

    def counted_by(self, names: Iterable[str]) -> Counted:
        """What a table over some attributes counts. A statistic, whose parts are named freely, is of one kind."""
        return self.project(names).counted if self.counts_apart else self.counted

    @property
    def states(self) -> Universe:
        """The universe of how values read as declared; every row is in it."""
        return Universe(attributes=tuple(attribute.state for attribute in self.attributes))

    @property
    def is_of_states(self) -> bool:
        return any(attribute.state_of is not None for attribute in self.attributes)

    @cached_property
    def hierarchies(self) -> tuple[Hierarchy, ...]:
        """Columns whose bins follow from one text, so that only some combinations of them occur."""
        return hierarchies_of(self.attributes)

    @property
    def is_limited(self) -> bool:
        """Whether some combinations of bins cannot occur: declared ones, or ones that levels leave out."""
        return bool(self.impossible or self.hierarchies)

    @property
    def possible_row(self) -> dict[str, int] | None:
        """A bin for each column that some such combination is about, so that the row has none; None where every row has
        one.

        Raises:
            InvalidInput: to find out takes too many steps.
        """
        return row_within_levels(self.impossible, self.attributes, self.hierarchies)

    @property
    def left_out(self) -> tuple[Combination, ...]:
        """The combinations whose rows are left out of every count."""
        return self.impossible if self.drops_impossible else ()

    @property
    def may_drop(self) -> bool:
        return bool(self.left_out) or any(attribute.may_drop for attribute in self.attributes)
