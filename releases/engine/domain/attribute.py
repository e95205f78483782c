"""One declared column, and what becomes of a value outside its declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import pairwise
from typing import Any

from releases.engine.domain.columns import AttributeKind, FileColumn, check_missing_codes, is_plain
from releases.engine.domain.counted import Counted
from releases.engine.domain.dates import NO_DATE, Dates
from releases.engine.domain.formula_tree import Node, PerPerson
from releases.engine.domain.formulas import Formula, formula_fields, formula_of
from releases.engine.errors import InvalidInput

#: More bins than this in one column are a mistake in the codebook (and a page nobody can read).
MAX_BINS = 2_000_000
MAX_DECIMALS = 9
#: Numbers are whole multiples of their last place, at most this many: up to here doubles hold every one.
LARGEST_POINT = 2**53
#: Of a number whose declaration does not say.
DEFAULT_DECIMALS = 2

CLAMP = "clamp"
DROP = "drop"
#: The ends of a numeric column that can be open.
FIRST, LAST = "first", "last"
#: The bin of a numeric column for values that are missing, and for text that writes no number of its kind.
NO_NUMBER = "no number"
#: How a value reads as its column was declared. Of categories none is unreadable: what is not declared is outside.
AS_DECLARED, OUTSIDE, UNREADABLE, MISSING = "as declared", "outside", "unreadable", "missing"


@dataclass(frozen=True, kw_only=True)
class Attribute:
    """One declared column: its name, its bins, and what becomes of a value outside them.

    A categorical attribute has one bin for each category. A numeric one has bins between consecutive edges,
    lower edge inclusive, upper exclusive, the last bin closed at its upper edge.

    Of a numeric attribute the first and the last bin can be open, which `open_ends` says: "80+" holds all numbers from
    80 on. Its outer edge is then where most of its values end, and no limit: synthetic values lie within it, and in
    sums and quantiles a number beyond counts as this edge, as it does wherever CLAMP is declared.

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
    open_ends: tuple[str, ...] = ()
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
        if self.open_ends and not self.is_numeric:
            raise InvalidInput("open", ", ".join(self.open_ends), "is for columns of numbers, which have edges")
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
        if self.formula is not None:
            for each in self.formula.functions:
                self._check_ends(each, is_alone=each is self.formula.tree)

    def _check_ends(self, taken: PerPerson, *, is_alone: bool) -> None:
        """Sums are of whole numbers, exactly, so that no database's order of rows makes a difference."""
        decimals = self.decimals if is_alone else decimals_within(taken)
        for end in (taken.lowest, taken.highest):
            if places(end) > decimals or abs(end.scaleb(decimals)) > LARGEST_POINT:
                most = f"at most {decimals} decimal places{' as the column has' if is_alone else ''}"
                raise InvalidInput("formula", plain(end), f"must have {most}, and ordinary size")

    def _check_formula(self, formula: Formula) -> None:
        formula.check_gives(self.kind)
        if self.missing:
            rule = "cannot be declared here: declare missing codes of the columns that the formula reads"
            raise InvalidInput("missing", ", ".join(self.missing), rule)
        if self.dates is not None and self.dates.zone:
            rule = "cannot be declared here: declare the time zone of the columns that the formula reads"
            raise InvalidInput("zone", self.dates.zone, rule)

    def _check_state(self, declared: Attribute) -> None:
        needed = (declared.name, AttributeKind.CATEGORICAL, declared.states, OUTSIDE)
        given = (self.name, self.kind, self.categories, self.outside)
        if declared.state_of is not None or given != needed or self.missing or self.missing_as:
            raise InvalidInput("state_of", self.name, "must be a declared column, with its states as categories")

    def _check_categories(self) -> None:
        if self.edges:
            raise InvalidInput(
                "edges", len(self.edges), "cannot be declared of a categorical column: it has categories"
            )
        if self.decimals not in (-1, 0):
            raise InvalidInput("decimals", self.decimals, "cannot be declared of a categorical column")
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
            raise InvalidInput(
                "categories", len(self.categories), "cannot be declared of a column of numbers: it has edges"
            )
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
        if self.open_ends:
            self._check_open_ends()

    def _check_open_ends(self) -> None:
        said = ", ".join(self.open_ends)
        if self.open_ends not in ((FIRST,), (LAST,), (FIRST, LAST)):
            raise InvalidInput("open", said, 'must be ["first"], ["last"] or ["first", "last"]')
        if self.outside != CLAMP:
            raise InvalidInput("open", said, 'must have the rule "clamp" for values outside: an open bin holds them')
        if self.ranges < len(self.open_ends):
            raise InvalidInput("open", said, "must have two bins at least, for one bin cannot be open at both ends")

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
    def per_person(self) -> Node | None:
        """What is made of all rows of a person; None of a column that each row has a value of."""
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
        """How each bin is written: the category, ``18 to 24`` for integers, ``[0, 10.5)`` for numbers, and ``<18`` and
        ``80+`` where an end is open."""
        if self.categories:
            return self.categories
        last, others = self.ranges - 1, (NO_NUMBER,) if self.missing_as else ()
        if self.kind is AttributeKind.INTEGER:
            pairs = [(low, high if i == last else high - 1) for i, (low, high) in enumerate(pairwise(self.edges))]
            ranges = [plain(low) if low == high else f"{plain(low)} to {plain(high)}" for low, high in pairs]
        else:
            numbered = enumerate(pairwise(self.edges))
            ranges = [f"[{plain(low)}, {plain(high)}{']' if i == last else ')'}" for i, (low, high) in numbered]
        if FIRST in self.open_ends:
            ranges[0] = f"<{plain(self.edges[1])}"
        if LAST in self.open_ends:
            ranges[-1] = f"{plain(self.edges[-2])}+"
        return (*ranges, *others)

    def of_columns(self, names: Mapping[str, str]) -> Attribute:
        """The same column of a table that calls its columns otherwise. One with a formula keeps its own name.

        Args:
            names: by the name that the declaration has, the other one.
        """
        if self.formula is not None:
            return replace(self, formula=self.formula.of_columns(names))
        return replace(self, name=names.get(self.name, self.name))

    def to_json(self) -> dict[str, Any]:
        described: dict[str, Any] = {"name": self.name, "type": self.kind.value}
        if self.dates is not None:
            described |= self.dates.to_json()
        elif self.categories:
            described["categories"] = list(self.categories)
        else:
            described["edges"] = [int(edge) if edge == edge.to_integral_value() else float(edge) for edge in self.edges]
        if self.open_ends:
            described["open"] = list(self.open_ends)
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
            *("format", "zone", "first", "last", "by", "formula", "reads", "open"),
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
            raise InvalidInput("reads", value["reads"], "cannot be declared without a formula")
        decimals = value.get("decimals", -1)
        if isinstance(decimals, bool) or not isinstance(decimals, int) or ("decimals" in value and decimals < 0):
            raise InvalidInput("decimals", decimals, "must be a whole number, 0 or more")
        return Attribute(
            name=name,
            kind=AttributeKind(kind),
            categories=tuple(_text(each, field="categories") for each in listed(value, "categories")),
            edges=() if is_of_dates else tuple(number(each, field="edges") for each in listed(value, "edges")),
            open_ends=tuple(_text(each, field="open") for each in listed(value, "open")),
            outside=outside,
            decimals=decimals,
            missing=tuple(_text(each, field="missing") for each in listed(value, "missing")),
            missing_as=missing_as,
            state_of=Attribute.from_json(value["state_of"]) if "state_of" in value else None,
            dates=Dates.from_json(value, has_time=kind == AttributeKind.DATETIME) if is_of_dates else None,
            formula=formula_of(value["formula"], value.get("reads", []), declared or {})
            if "formula" in value
            else None,
        )


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


def decimals_within(taken: PerPerson) -> int:
    """To how many places each row counts in a sum that has an expression around it: as many as leave its larger end ten
    digits, and at least those of its ends. So 900,000 rows of a person at the larger end add up to less than
    `LARGEST_POINT`."""
    ends = (taken.lowest, taken.highest)
    digits = 1 + max(0, max(map(abs, ends)).adjusted())
    return min(MAX_DECIMALS, max(10 - digits, *map(places, ends)))


def plain(value: Decimal) -> str:
    """Write a decimal without exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def listed(value: dict[str, Any], field: str) -> list[Any]:
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
