"""The universe: the finite product of declared attribute bins, and the schema that declares it.

Everything here is declared by a person who need not have seen a row. A value outside the declaration is
clamped, dropped or sent to a declared category, by declared rule, so that the universe never depends on data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import Any, TypeVar

from releases.engine.domain.columns import AttributeKind as AttributeKind
from releases.engine.domain.columns import FileColumn, check_missing_codes, is_plain
from releases.engine.domain.counted import Counted
from releases.engine.domain.dates import NO_DATE, Dates
from releases.engine.domain.formulas import Formula, PerPerson, formula_fields, formula_of
from releases.engine.domain.impossible import Combination, combinations_to_json, of_columns, read_combinations, within
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.errors import InvalidInput

SCHEMA_VERSION = 1
#: More bins than this in one column are a mistake in the codebook (and a page nobody can read).
MAX_BINS = 2_000_000
MAX_COLUMNS = 10_000
MAX_DECIMALS = 9
#: Numbers are whole multiples of their last place, at most this many: up to here doubles hold every one.
LARGEST_POINT = 2**53
#: Columns that a refusal names.
_MAX_NAMED = 10
#: Of a number whose declaration does not say.
DEFAULT_DECIMALS = 2

CLAMP = "clamp"
DROP = "drop"
#: The bin of a numeric column for values that are missing, and for text that writes no number of its kind.
NO_NUMBER = "no number"
#: How a value reads as its column was declared. Of categories none is unreadable: what is not declared is outside.
AS_DECLARED, OUTSIDE, UNREADABLE, MISSING = "as declared", "outside", "unreadable", "missing"
#: What changes of a statistic are measured in.
Changed = TypeVar("Changed")


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One declared column: its name, its bins, and what becomes of a value outside them.

    A categorical attribute has one bin for each category. A numeric one has bins between consecutive edges,
    lower edge inclusive, upper exclusive, the last bin closed at its upper edge.

    A number is kept to `decimals` places (whole numbers have none): sums and quantiles are taken over these fixed
    points, exactly, never over floating-point numbers.

    `outside` is CLAMP (numbers: to the nearest bin), DROP (the row does not count), or a declared category.
    A missing value, or text that is not a number in a numeric column, is outside; as it has no nearest bin,
    CLAMP drops its row, unless `missing_as` is NO_NUMBER: then all such values have one bin more, behind those of the
    edges. That bin lies outside of the order: it is in no range, no running total, no sum and no quantile.

    `missing` lists texts that mean that a value is missing, as an empty cell does. In a numeric column one that writes
    a number means every way to write it; it may lie between the edges.

    `missing_as` says what becomes of a missing value: in a categorical column, where other values outside are treated
    otherwise, DROP or a declared category; in a numeric one NO_NUMBER, or nothing where its row is dropped.

    A column of dates has bins of days, in `dates`, which follow from its declaration; its `categories` are their names,
    and a date counts by its bin alone. The rules are those of numbers, with NO_DATE for NO_NUMBER; but where bins are
    in no order of time, no bin is the nearest, and dates outside drop their row.

    Where quantiles are asked of a column of dates it `is_exact`: a date counts as its day, or its second, which is a
    whole number in [lowest, highest], and one before or after is taken at the nearer end where it is clamped. This
    follows from the question, so it is no part of a declaration and not written to JSON.

    An attribute may be the state of another, `state_of`: its categories then say how a value of that column reads as
    declared, and no row is dropped by it.

    A column with a `formula` is not in the table: its values are made from columns of the table, each row's from that
    row alone, and then read as declared. So a row still has one bin or none. A formula may instead make one value of
    all rows of a person: then what has one bin or none is the person.
    """

    name: str
    kind: AttributeKind
    categories: tuple[str, ...] = ()
    edges: tuple[Decimal, ...] = ()
    outside: str = ""
    decimals: int = -1
    missing: tuple[str, ...] = ()
    missing_as: str = ""
    state_of: Attribute | None = None
    dates: Dates | None = None
    formula: Formula | None = None
    is_exact: bool = False

    def __post_init__(self) -> None:
        if self.is_exact and (self.dates is None or self.missing_as):
            raise InvalidInput("is_exact", self.name, "must be a column of dates whose rows without a date are dropped")
        if self.state_of is not None:
            self._check_state(self.state_of)
        if not is_plain(self.name):
            raise InvalidInput("name", self.name, "must be printable text without spaces around it")
        check_missing_codes(self.missing)
        if self.formula is not None:
            self._check_formula(self.formula)
        if (self.dates is not None) != self.kind.is_of_dates:
            raise InvalidInput(
                "type", self.kind.value, "must be date or datetime where dates are declared, and only there"
            )
        if self.dates is not None:
            self._check_dates(self.dates)
        elif self.kind is AttributeKind.CATEGORICAL:
            self._check_categories()
        else:
            self._check_edges()
        if self.formula is not None and self.formula.per_person is not None:
            self._check_ends(self.formula.per_person)

    def _check_ends(self, taken: PerPerson) -> None:
        """Sums are of whole numbers, exactly, so that no database's order of rows makes a difference."""
        for end in (taken.lowest, taken.highest):
            if places(end) > self.decimals or abs(end.scaleb(self.decimals)) > LARGEST_POINT:
                rule = f"must have at most {self.decimals} decimal places as the column has, and ordinary size"
                raise InvalidInput("formula", plain(end), rule)

    def _check_formula(self, formula: Formula) -> None:
        formula.check_gives(self.kind)
        if self.missing:
            raise InvalidInput("missing", ", ".join(self.missing), "belong to the columns that the formula reads")

    def _check_state(self, declared: Attribute) -> None:
        needed = (declared.name, AttributeKind.CATEGORICAL, declared.states, OUTSIDE)
        given = (self.name, self.kind, self.categories, self.outside)
        if declared.state_of is not None or given != needed or self.missing or self.missing_as:
            raise InvalidInput("state_of", self.name, "must be a declared column, with its states as categories")

    def _check_categories(self) -> None:
        if self.edges:
            raise InvalidInput("edges", len(self.edges), "belong to numbers; a categorical column has categories")
        if self.decimals not in (-1, 0):
            raise InvalidInput("decimals", self.decimals, "belong to numbers")
        object.__setattr__(self, "decimals", 0)
        if not 1 <= len(self.categories) <= MAX_BINS:
            raise InvalidInput("categories", len(self.categories), f"must be 1 to {MAX_BINS:,} in number")
        seen: set[str] = set()
        for category in self.categories:
            if not is_plain(category):
                raise InvalidInput("categories", category, "must be printable text without spaces around it")
            if category in seen:
                raise InvalidInput("categories", category, "is named twice")
            seen.add(category)
        for code in self.missing:
            if code in seen:
                raise InvalidInput("missing", code, "must not be a declared category")
        if not self.outside:
            object.__setattr__(self, "outside", DROP)
        if self.outside != DROP and self.outside not in seen:
            raise InvalidInput("outside", self.outside, 'must be "drop" or one of the declared categories')
        if self.missing_as not in ("", DROP) and self.missing_as not in seen:
            raise InvalidInput("missing_as", self.missing_as, 'must be "drop" or one of the declared categories')
        if self.missing_as == self.outside:
            object.__setattr__(self, "missing_as", "")

    def _check_dates(self, dates: Dates) -> None:
        if self.edges or self.decimals not in (-1, 0):
            raise InvalidInput("edges", len(self.edges), "must be dates in a column of dates")
        object.__setattr__(self, "decimals", 0)
        if dates.has_time != (self.kind is AttributeKind.DATETIME):
            raise InvalidInput("type", self.kind.value, "must be datetime where dates have a time of day, else date")
        if self.missing_as == DROP:
            object.__setattr__(self, "missing_as", "")
        if self.missing_as not in ("", NO_DATE):
            raise InvalidInput("missing_as", self.missing_as, f'must be "drop" or "{NO_DATE}" in a column of dates')
        if not self.outside:
            object.__setattr__(self, "outside", CLAMP if dates.is_ordered else DROP)
        if self.outside not in (CLAMP, DROP):
            raise InvalidInput("outside", self.outside, 'must be "clamp" or "drop" in a column of dates')
        if self.outside == CLAMP and not dates.is_ordered:
            rule = f'must be "drop" where dates are grouped by {dates.by}: no bin is nearer than another'
            raise InvalidInput("outside", self.outside, rule)
        object.__setattr__(self, "categories", (*dates.labels, *((NO_DATE,) if self.missing_as else ())))

    def _check_edges(self) -> None:
        if self.categories:
            raise InvalidInput("categories", len(self.categories), "belong to a categorical column; a number has edges")
        if not 2 <= len(self.edges) <= MAX_BINS + 1:
            raise InvalidInput("edges", len(self.edges), f"must be 2 to {MAX_BINS + 1:,} in number")
        if self.missing_as == DROP:
            object.__setattr__(self, "missing_as", "")
        if self.missing_as not in ("", NO_NUMBER):
            raise InvalidInput("missing_as", self.missing_as, f'must be "drop" or "{NO_NUMBER}" in a numeric column')
        for lower, upper in zip(self.edges, self.edges[1:], strict=False):
            if not lower < upper:
                raise InvalidInput("edges", f"{lower}, {upper}", "must rise: each edge above the one before it")
        if self.kind is AttributeKind.INTEGER:
            for edge in self.edges:
                if edge != edge.to_integral_value():
                    raise InvalidInput("edges", edge, "must be whole numbers in an integer column")
        self._check_decimals()
        if not self.outside:
            object.__setattr__(self, "outside", CLAMP)
        if self.outside not in (CLAMP, DROP):
            raise InvalidInput("outside", self.outside, 'must be "clamp" or "drop" in a numeric column')

    def _check_decimals(self) -> None:
        least = max(places(edge) for edge in self.edges)
        if self.decimals == -1:
            usual = 0 if self.kind is AttributeKind.INTEGER else DEFAULT_DECIMALS
            fits = max(abs(edge) for edge in self.edges) * 10**usual <= LARGEST_POINT
            object.__setattr__(self, "decimals", max(least, usual if fits else 0))
        if self.kind is AttributeKind.INTEGER and self.decimals != 0:
            raise InvalidInput("decimals", self.decimals, "must be 0 for whole numbers")
        if not least <= self.decimals <= MAX_DECIMALS:
            raise InvalidInput(
                "decimals", self.decimals, f"must be {least} to {MAX_DECIMALS}: no fewer than the edges have"
            )
        if max(abs(point) for point in (self.lowest, self.highest)) > LARGEST_POINT:
            most = LARGEST_POINT // 10**self.decimals
            raise InvalidInput(
                "edges",
                plain(max(self.edges, key=abs)),
                f"must be {most:,} or less in size, so that it and {self.decimals} decimal places are kept exactly",
            )

    @property
    def state(self) -> Attribute:
        """How values read as declared, as an attribute of its own; a state has no state but itself."""
        if self.state_of is not None:
            return self
        return Attribute(
            name=self.name,
            kind=AttributeKind.CATEGORICAL,
            categories=self.states,
            outside=OUTSIDE,
            state_of=self,
        )

    @property
    def per_person(self) -> PerPerson | None:
        """What is taken of all rows of a person; None of a column that each row has a value of."""
        formula = (self.state_of or self).formula
        return formula.per_person if formula is not None else None

    @property
    def counted(self) -> Counted:
        """What has a value of it."""
        return Counted.ROWS if self.per_person is None else Counted.PERSONS

    @property
    def reads(self) -> tuple[FileColumn, ...]:
        """The columns of the table that have to be read: this one, or those of its formula."""
        if self.state_of is not None:
            return self.state_of.reads
        if self.formula is not None:
            return self.formula.reads
        said = {} if self.dates is None else {"written": self.dates.written, "zone": self.dates.zone}
        return (FileColumn(name=self.name, kind=self.kind, missing=self.missing, **said),)

    @property
    def states(self) -> tuple[str, ...]:
        """How a value of a declared column can read."""
        return (AS_DECLARED, OUTSIDE, UNREADABLE, MISSING) if self.has_grammar else (AS_DECLARED, OUTSIDE, MISSING)

    @cached_property
    def lowest(self) -> int:
        """The lowest value of a number, in units of its last place; of a date in days, or in seconds, from 1970."""
        if self.dates is not None:
            return self.dates.lowest
        return int(self.edges[0].scaleb(self.decimals))

    @cached_property
    def highest(self) -> int:
        if self.dates is not None:
            return self.dates.above - 1
        return int(self.edges[-1].scaleb(self.decimals))

    @property
    def size(self) -> int:
        """How many bins the attribute has."""
        return len(self.categories) or self.ranges + bool(self.missing_as)

    @property
    def ranges(self) -> int:
        """How many bins of a numeric attribute are between edges: the first ones."""
        return len(self.edges) - 1

    @property
    def ordered(self) -> Attribute:
        """The same without the bin for what is no number, or no date: rows that would be in it are dropped."""
        return replace(self, missing_as="") if self.has_grammar and self.missing_as else self

    @property
    def is_numeric(self) -> bool:
        """Whether values are numbers, with sums and quantiles."""
        return self.kind in (AttributeKind.INTEGER, AttributeKind.NUMBER)

    @property
    def has_values(self) -> bool:
        """Whether a row counts by its value, a whole number in [lowest, highest], and not by its bin alone."""
        return self.is_numeric or self.is_exact

    def point(self, value: int) -> str:
        """A value, in units of the last place, as a person writes it."""
        return plain(Decimal(value).scaleb(-self.decimals)) if self.dates is None else self.dates.point(value)

    def span(self, value: int) -> str:
        """The distance of two values, in the same units, as a person writes it."""
        return plain(Decimal(value).scaleb(-self.decimals)) if self.dates is None else self.dates.span(value)

    @property
    def has_grammar(self) -> bool:
        """Whether text has to write a number or a date to be read."""
        return self.kind is not AttributeKind.CATEGORICAL

    @property
    def in_time(self) -> int:
        """How many bins, the first ones, are in order of time; none of other columns."""
        return self.dates.size if self.dates is not None and self.dates.is_ordered else 0

    @property
    def may_drop(self) -> bool:
        """Whether some value would make its row not count."""
        return self.drops_missing or DROP in (self.outside, self.missing_as)

    @property
    def drops_missing(self) -> bool:
        """Whether a row without a value does not count; in a numeric attribute, without a number."""
        return not self.missing_as if self.has_grammar else (self.missing_as or self.outside) == DROP

    def drops(self, state: str) -> bool:
        """Whether a row does not count whose value reads so."""
        if state in (MISSING, UNREADABLE):
            return self.drops_missing
        return state == OUTSIDE and self.outside == DROP

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """How each bin is written: the category, ``18 to 24`` for integers, ``[0, 10.5)`` for numbers."""
        if self.categories:
            return self.categories
        last, others = self.ranges - 1, (NO_NUMBER,) if self.missing_as else ()
        if self.kind is AttributeKind.INTEGER:
            pairs = [(low, high if i == last else high - 1) for i, (low, high) in enumerate(pairwise(self.edges))]
            ranges = (plain(low) if low == high else f"{plain(low)} to {plain(high)}" for low, high in pairs)
        else:
            numbered = enumerate(pairwise(self.edges))
            ranges = (f"[{plain(low)}, {plain(high)}{']' if i == last else ')'}" for i, (low, high) in numbered)
        return (*ranges, *others)

    def to_json(self) -> dict[str, Any]:
        described: dict[str, Any] = {"name": self.name, "type": self.kind.value}
        if self.dates is not None:
            described |= self.dates.to_json()
        elif self.categories:
            described["categories"] = list(self.categories)
        else:
            described["edges"] = [int(edge) if edge == edge.to_integral_value() else float(edge) for edge in self.edges]
        described["outside"] = self.outside
        if self.kind is AttributeKind.NUMBER:
            described["decimals"] = self.decimals
        if self.missing:
            described["missing"] = list(self.missing)
        if self.missing_as:
            described["missing_as"] = self.missing_as
        if self.state_of is not None:
            described["state_of"] = self.state_of.to_json()
        if self.formula is not None:
            described |= formula_fields(self.formula)
        return described

    @staticmethod
    def from_json(value: object, *, declared: Mapping[str, FileColumn | None] | None = None) -> Attribute:
        """Read one column.

        Args:
            declared: how the other columns are read, for a formula; None of those that are made by one.

        Raises:
            InvalidInput: naming the field, the value and the rule.
        """
        if not isinstance(value, dict):
            raise InvalidInput("column", value, 'must be an object with "name" and "type"')
        unknown = set(value) - {
            *("name", "type", "categories", "edges", "outside", "decimals", "missing", "missing_as", "state_of"),
            *("format", "zone", "first", "last", "by", "formula", "reads"),
        }
        if unknown:
            raise InvalidInput("field", ", ".join(sorted(map(str, unknown))), "is not known")
        name, kind, outside = value.get("name"), value.get("type"), value.get("outside", "")
        if not isinstance(name, str):
            raise InvalidInput("name", name, "must be text")
        # In a list, for what JSON holds need not be hashable.
        if kind not in list(AttributeKind):
            raise InvalidInput("type", kind, f"must be one of {', '.join(AttributeKind)}")
        if not isinstance(outside, str):
            raise InvalidInput("outside", outside, "must be text")
        missing_as = value.get("missing_as", "")
        if not isinstance(missing_as, str):
            raise InvalidInput("missing_as", missing_as, "must be text")
        is_of_dates = AttributeKind(kind).is_of_dates
        for field in ("categories", "decimals") if is_of_dates else ("format", "zone", "first", "last", "by"):
            if field in value:
                rule = "has no meaning for dates" if is_of_dates else "is for dates; declare the type date or datetime"
                raise InvalidInput(field, value[field], rule)
        if "reads" in value and "formula" not in value:
            raise InvalidInput("reads", value["reads"], "belongs to a formula")
        decimals = value.get("decimals", -1)
        if isinstance(decimals, bool) or not isinstance(decimals, int) or ("decimals" in value and decimals < 0):
            raise InvalidInput("decimals", decimals, "must be a whole number, 0 or more")
        return Attribute(
            name=name,
            kind=AttributeKind(kind),
            categories=tuple(_text(each, field="categories") for each in _listed(value, "categories")),
            edges=() if is_of_dates else tuple(number(each, field="edges") for each in _listed(value, "edges")),
            outside=outside,
            decimals=decimals,
            missing=tuple(_text(each, field="missing") for each in _listed(value, "missing")),
            missing_as=missing_as,
            state_of=Attribute.from_json(value["state_of"]) if "state_of" in value else None,
            dates=Dates.from_json(value, has_time=kind == AttributeKind.DATETIME) if is_of_dates else None,
            formula=formula_of(value["formula"], value.get("reads", []), declared or {})
            if "formula" in value
            else None,
        )


@dataclass(frozen=True, kw_only=True)
class Universe:
    """The finite product of the attributes' bins. A cell is one combination of bins.

    Attributes:
        attributes: in the order of the schema; cells are numbered with the last attribute fastest.
        impossible: combinations of bins that no row can have, as declared.
        drops_impossible: whether rows of the table that have one are left out of every count. A plan says so, not a
            declaration: plain questions count them as they are.
    """

    attributes: tuple[Attribute, ...]
    impossible: tuple[Combination, ...] = ()
    drops_impossible: bool = False

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
        """The attributes of rows, and behind them those of persons: what is counted has attributes of one alone."""
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
        if len(self.populations) > 1:
            of_persons = ", ".join(self.populations[1].names[:_MAX_NAMED])
            rule = "count persons, and the other columns count rows: ask about each kind in a question of its own"
            raise InvalidInput("columns", of_persons, rule)
        return self.attributes[0].per_person is not None

    @property
    def counted(self) -> Counted:
        """
        Raises:
            InvalidInput: as of `is_of_persons`.
        """
        return Counted.PERSONS if self.is_of_persons else Counted.ROWS

    @property
    def states(self) -> Universe:
        """The universe of how values read as declared; every row is in it."""
        return Universe(attributes=tuple(attribute.state for attribute in self.attributes))

    @property
    def is_of_states(self) -> bool:
        return any(attribute.state_of is not None for attribute in self.attributes)

    @property
    def left_out(self) -> tuple[Combination, ...]:
        """The combinations whose rows are left out of every count."""
        return self.impossible if self.drops_impossible else ()

    @property
    def may_drop(self) -> bool:
        return bool(self.left_out) or any(attribute.may_drop for attribute in self.attributes)


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a curator declares about a table: its universe, whom to protect, and against which neighbours."""

    universe: Universe
    unit: PrivacyUnit
    neighbours: NeighbouringRelation

    def __post_init__(self) -> None:
        if self.unit.id_column in self.universe.names:
            raise InvalidInput("unit.id", self.unit.id_column, "is also declared as a column; an id has no bins")

    def project(self, names: Iterable[str]) -> Schema:
        """The schema of some of the columns alone: what other columns hold leaves no row out."""
        return replace(self, universe=self.universe.project(names))

    def check_unit(self) -> None:
        """See that persons are protected where some columns have one value a person.

        Raises:
            InvalidInput: a row is protected, so that nothing says which rows are of one person.
        """
        of_persons = [each.name for each in self.universe.attributes if each.per_person is not None]
        if of_persons and self.unit.kind != "person":
            rule = "have one value a person, so a person must be protected, by the column that tells people apart"
            raise InvalidInput("columns", ", ".join(of_persons[:_MAX_NAMED]), rule)

    @cached_property
    def counts_persons(self) -> bool:
        """Whether each counted row is a person, made from all rows that the table has of them.

        Such a row is a function of that person's rows alone: rows are grouped by the id, and no group sees another. So
        tables that differ in all rows of one person differ, once grouped, in one row: it is there or not under
        ADD_REMOVE; under REPLACE it changes, or is there in one of them alone where the person has no row in the other.
        Every row of a person takes part, and none has to be left out for privacy, however many there are. Counted by
        its bins, the row moves a vector of counts by 1 (L1 and L2) where it is added or removed, and by at most 2 (L1)
        and the root of 2 (L2) where it changes.

        Raises:
            InvalidInput: columns of rows and of persons are mixed; or a row is protected.
        """
        self.check_unit()
        return self.universe.is_of_persons

    @property
    def rows_of_unit(self) -> int:
        """The most counted rows of one unit: all of a person's rows are one where persons are counted.

        Raises:
            InvalidInput: as of `counts_persons`.
        """
        return 1 if self.counts_persons else self.unit.max_rows

    @property
    def counted(self) -> Counted:
        """What its releases count."""
        return Counted.PERSONS if self.counts_persons else Counted.ROWS

    @property
    def unit_in_words(self) -> str:
        """Whom this protects, and as how many rows they count; for columns of both kinds, in releases about either."""
        if len(self.universe.populations) > 1:
            rows = self.unit.in_words().removesuffix(")")
            return f"{rows}; where a release counts persons, all rows of one count as one)"
        if not self.counts_persons:
            return self.unit.in_words()
        return f"one person (column {self.unit.id_column}, all of whose rows count as one)"

    @property
    def rows_may_vanish(self) -> bool:
        """Whether a unit may have other numbers of counted rows, down to none, when its value is replaced.

        A row that is replaced stays a row unless a declared rule drops it. A person has from none to `max_rows` rows,
        whatever the columns are.
        """
        return self.universe.may_drop or self.unit.kind == "person"

    def changes_of_a_row(self, *, added: Changed, replaced: Callable[[], Changed]) -> tuple[Changed, ...]:
        """What one of a unit's rows can do to a statistic between neighbours: the largest of these is its sensitivity.

        The statistic is a sum over counted rows. Order a unit's rows in both tables so that as many as possible have a
        partner. Under ADD_REMOVE no row has one, and each adds or takes away its own part. Under REPLACE a row with a
        partner changes into it. A row without one is there in one table alone, which happens only where
        `rows_may_vanish`: a declared rule drops the other, or a person has fewer rows there. Its change is that of a
        row added or removed, which may be more than that of any row replaced: in prefixes over two bins, a row added to
        the first changes both, and a row moved changes one. So both kinds count, and neither bounds the other. A unit
        of g rows has at most g such pairs or single rows, so its change is in any norm at most g times the largest.

        Args:
            added: by a row added or removed.
            replaced: by a row replaced by another counted row; called under REPLACE only.
        """
        if self.neighbours is NeighbouringRelation.ADD_REMOVE:
            return (added,)
        return (replaced(), added) if self.rows_may_vanish else (replaced(),)

    @property
    def total_is_public(self) -> bool:
        """Whether the number of counted rows is public: neighbours replace a unit, and it has one row in either."""
        return self.neighbours is NeighbouringRelation.REPLACE and not self.rows_may_vanish

    def to_json(self) -> dict[str, Any]:
        return {
            "version": SCHEMA_VERSION,
            "unit": self.unit.to_json(),
            "neighbours": self.neighbours.value,
            "columns": [attribute.to_json() for attribute in self.universe.attributes],
            **({"impossible": combinations_to_json(self.universe.impossible)} if self.universe.impossible else {}),
            **({"impossible_rows": DROP} if self.universe.left_out else {}),
        }

    @staticmethod
    def from_json(value: object) -> Schema:
        """Read a schema of format version 1.

        Raises:
            InvalidInput: naming the field (``columns[2].edges``), the value and the rule.
        """
        if not isinstance(value, dict):
            raise InvalidInput("schema", value, "must be a JSON object")
        check_version(value, SCHEMA_VERSION, what="schema")
        unknown = set(value) - {
            *("version", "unit", "neighbours", "missing", "columns", "impossible", "impossible_rows")
        }
        if unknown:
            raise InvalidInput("schema", ", ".join(sorted(map(str, unknown))), "is not a known field")
        columns = value.get("columns")
        if not isinstance(columns, list) or not columns:
            raise InvalidInput("columns", columns, "must be a list with at least one column")
        neighbours = value.get("neighbours", NeighbouringRelation.ADD_REMOVE.value)
        missing = _listed(value, "missing")
        if neighbours not in list(NeighbouringRelation):
            raise InvalidInput("neighbours", neighbours, 'must be "add_remove" or "replace"')
        if value.get("impossible_rows", DROP) != DROP:
            raise InvalidInput("impossible_rows", value["impossible_rows"], f'must be "{DROP}", or left out')
        attributes = Universe(attributes=_columns(columns, missing)).attributes
        return Schema(
            universe=Universe(
                attributes=attributes,
                impossible=read_combinations(value.get("impossible", []), attributes),
                drops_impossible="impossible_rows" in value,
            ),
            unit=PrivacyUnit.from_json(value.get("unit", {"kind": "row"})),
            neighbours=NeighbouringRelation(neighbours),
        )


def check_version(value: dict[str, Any], version: int, *, what: str) -> None:
    if value.get("version") != version:
        raise InvalidInput(f"{what}.version", value.get("version"), f"must be {version}")


#: What is of ordinary size: any unit of measurement, and no number that takes long to work with.
_LARGEST, _SMALLEST = Decimal("1e30"), Decimal("1e-30")


def number(value: object, *, field: str) -> Decimal:
    """Read a finite number as a person wrote it (a JSON float by its shortest decimal form)."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise InvalidInput(field, value, "must be a number")
    try:
        read = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise InvalidInput(field, value, "must be a number") from None
    # Copied, for arithmetic with a number as large as 1e9999999 fails before it can be refused.
    size = read.copy_abs()
    if not read.is_finite() or size > _LARGEST or (read != 0 and size < _SMALLEST):
        raise InvalidInput(field, value, "must be a finite number of ordinary size")
    return read


def places(value: Decimal) -> int:
    """Digits after the point, idle noughts left out."""
    exponent = value.normalize().as_tuple().exponent
    assert isinstance(exponent, int)
    return max(0, -exponent)


def plain(value: Decimal) -> str:
    """Write a decimal without exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _columns(columns: list[Any], missing: list[Any]) -> tuple[Attribute, ...]:
    """Those of the table first: formulas read them as they are declared."""
    is_made = [isinstance(each, dict) and "formula" in each for each in columns]
    read = {i: _column(i, each, missing, {}) for i, each in enumerate(columns) if not is_made[i]}
    declared: dict[str, FileColumn | None] = {
        each.name: None if (each.state_of or each).formula is not None else each.reads[0] for each in read.values()
    }
    declared |= {str(each.get("name")): None for i, each in enumerate(columns) if is_made[i]}
    read |= {i: _column(i, each, [], declared) for i, each in enumerate(columns) if is_made[i]}
    return tuple(read[i] for i in range(len(columns)))


def _column(position: int, value: object, missing: list[Any], declared: Mapping[str, FileColumn | None]) -> Attribute:
    """A column; with the missing codes of the table, where these are any and it does not say its own."""
    if missing and isinstance(value, dict):
        value = {"missing": missing, **value}
    try:
        return Attribute.from_json(value, declared=declared)
    except InvalidInput as error:
        name = value.get("name") if isinstance(value, dict) else None
        where = f"columns[{position}]" + (f" ({name})" if isinstance(name, str) and name else "")
        raise InvalidInput(f"{where}.{error.field}", error.value, error.rule) from None


def _listed(value: dict[str, Any], field: str) -> list[Any]:
    listed = value.get(field, [])
    if not isinstance(listed, list):
        raise InvalidInput(field, listed, "must be a list")
    return listed


def _text(value: object, *, field: str) -> str:
    """A category or a code as text; codebooks often write codes as JSON integers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InvalidInput(field, value, "must be text")
    return value.strip()
