"""Step 2 of columns that are made from others: the value of their formula, as a number, a day or a text; null where it
is missing.

Every operation is a column of its own, after those that it takes, so that a value is written once however often it is
used. Numbers stay within bounds beyond which a product or a quotient of two could leave the doubles: databases raise
errors there. Where columns have one value a person, what their functions of all rows take of each row is worked out
first; then rows are grouped, in ``persons.py``; and then what is around these functions is worked out of each person.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from sqlglot import exp

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind, FileColumn
from releases.engine.domain.dates import SECONDS_OF_DAY
from releases.engine.domain.formula_tree import DATE_OF, Call, Constant, Node, PerPerson, Read, Recode, Type
from releases.engine.domain.formulas import Formula
from releases.engine.domain.universe import Universe
from releases.engine.tables.dialects import Dialect, as_double, clamped, column, double, joined, step
from releases.engine.tables.number import is_missing_number, number_of, whole_number
from releases.engine.tables.persons import PersonFunction, one_row_of_each, taken_of
from releases.engine.tables.text import text_of

#: A number beyond it is missing, and one nearer to 0 than its inverse is 0.
LARGEST, SMALLEST = 1e150, 1e-150
#: Beyond it a double has no places after the point.
_ALL_WHOLE = float(1 << 53)
#: Up to here a table is a chain of comparisons; beyond it is joined.
_SHORT_TABLE = 32
_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
}


def columns_read(universe: Universe) -> dict[int, FileColumn]:
    """The columns of the table that are read, by axis: those declared, and behind them those that formulas alone
    read."""
    declared = {axis: each.reads[0] for axis, each in enumerate(universe.attributes) if _formula(each) is None}
    known = set(declared.values())
    of_formulas = dict.fromkeys(
        read for each in universe.attributes if _formula(each) is not None for read in each.reads if read not in known
    )
    return declared | dict(enumerate(of_formulas, start=len(universe.attributes)))


def derived(rows: exp.Select, universe: Universe, dialect: Dialect, parameters: list[list[str]]) -> exp.Select:
    """The rows with the value of each column that has a formula, in the columns where others have theirs."""
    made = {axis: formula for axis, each in enumerate(universe.attributes) if (formula := _formula(each)) is not None}
    if not made:
        return rows
    axes = {read: axis for axis, read in columns_read(universe).items()}
    places: Mapping[tuple[int, PerPerson], int] = {}
    if universe.is_of_persons:
        rows, places = _one_row_of_each_person(rows, universe, made, axes, dialect, parameters)
    steps, values = _Steps(dialect), dict[str, exp.Expr]()
    for axis, each in made.items():
        columns = {read.name: (axes[read], read) for read in each.reads}
        value = steps.value(each.tree, columns, {taken: places[axis, taken] for taken in each.functions})
        attribute = universe.attributes[axis]
        values |= _as_read(axis, (attribute.state_of or attribute).kind, each.tree.type, value.expression, dialect)
    return _with_columns(steps.taken(rows, parameters), values, dialect)


def _one_row_of_each_person(
    rows: exp.Select,
    universe: Universe,
    made: Mapping[int, Formula],
    axes: Mapping[FileColumn, int],
    dialect: Dialect,
    parameters: list[list[str]],
) -> tuple[exp.Select, dict[tuple[int, PerPerson], int]]:
    """Of each person a row with the value of each function of all their rows; and where each is, by the axis of the
    formula. A function without anything around it is on the axis of its column, others behind those of all columns."""
    asked, places = dict[int, PersonFunction](), dict[tuple[int, PerPerson], int]()
    steps, values = _Steps(dialect), dict[str, exp.Expr]()
    behind = count(len(universe.attributes) + len(axes))
    for axis, each in made.items():
        columns = {read.name: (axes[read], read) for read in each.reads}
        for taken in each.functions:
            is_alone = taken is each.tree
            place = places[axis, taken] = axis if is_alone else next(behind)
            asked[place] = PersonFunction(taken=taken, alone=universe.attributes[axis] if is_alone else None)
            if taken.of is not None:
                value = steps.value(taken.of, columns, {}).expression
                # Whether a number is whole is asked of a person's value alone.
                values |= _as_read(place, AttributeKind.NUMBER, taken.of.type, value, dialect)
    rows = _with_columns(steps.taken(rows, parameters), values, dialect)
    return one_row_of_each(rows, asked, axes, dialect, parameters), places


def _with_columns(rows: exp.Select, values: Mapping[str, exp.Expr], dialect: Dialect) -> exp.Select:
    if not values:
        return rows
    return step(rows, [exp.alias_(each, name, quoted=True) for name, each in values.items()], dialect)


def _formula(attribute: Attribute) -> Formula | None:
    return (attribute.state_of or attribute).formula


def _as_read(axis: int, kind: AttributeKind, type_: Type, value: exp.Expr, dialect: Dialect) -> dict[str, exp.Expr]:
    """The text and the number that the next step looks for."""
    if type_ is Type.MOMENT and kind is AttributeKind.DATE:
        value = _date_of(value)
    if type_ in (Type.NUMBER, Type.DATE, Type.MOMENT):
        # Whether there is a value is all that is asked of the text of a number.
        text = exp.case().when(exp.Not(this=_is_missing(value)), exp.Literal.string("1"), copy=False)
        return {number_of(axis): whole_number(value) if kind is AttributeKind.INTEGER else value, text_of(axis): text}
    if type_ is Type.TRUTH:
        words = exp.case().when(value.copy(), exp.Literal.string("true"), copy=False)
        value = words.when(exp.Not(this=value), exp.Literal.string("false"), copy=False)
    return {text_of(axis): dialect.as_text(value)}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Value:
    """What stands for a value, and after how many steps."""

    expression: exp.Expr
    level: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class _Lookup:
    """A table that is joined: the text that is looked up, and where what is found is put."""

    of: exp.Expr
    table: tuple[tuple[str, str], ...]
    found: str


class _Steps:
    """The operations of all formulas, each in the first step in which it can be."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._operations: defaultdict[int, dict[exp.Expr, str]] = defaultdict(dict)
        self._lookups: defaultdict[int, list[_Lookup]] = defaultdict(list)
        self._made = 0

    def taken(self, rows: exp.Select, parameters: list[list[str]]) -> exp.Select:
        for level in range(1, max([*self._operations, *self._lookups], default=0) + 1):
            made = [exp.alias_(each, name, quoted=True) for each, name in self._operations[level].items()]
            rows = step(rows, made, self._dialect) if made else rows
            for lookup in self._lookups[level]:
                rows = self._joined(rows, lookup, parameters)
        return rows

    def value(
        self, node: Node, columns: Mapping[str, tuple[int, FileColumn]], places: Mapping[PerPerson, int]
    ) -> _Value:
        """What stands for the value of a node.

        Args:
            columns: by name, those of the table, and on which axis each is read.
            places: where the values of functions of all rows of a person are.
        """
        if isinstance(node, Constant):
            return _Value(expression=_constant(node))
        if isinstance(node, Read):
            return self._read(node, *columns[node.name])
        if isinstance(node, PerPerson):
            return self._taken(node, places[node])
        if isinstance(node, Recode):
            return self._recoded(node, self.value(node.of, columns, places))
        return self._called(node, [self.value(each, columns, places) for each in node.arguments])

    def _read(self, node: Read, axis: int, read: FileColumn) -> _Value:
        if node.type is Type.TEXT:
            text = _Value(expression=column(text_of(axis)))
            is_coded = is_missing_number(axis, read.missing) if read.is_numeric else None
            if is_coded is None:
                return text
            without = exp.case().when(is_coded, exp.null(), copy=False).else_(text.expression.copy(), copy=False)
            return self._let(without, text, is_text=True)
        return _Value(expression=column(number_of(axis)))

    def _taken(self, node: PerPerson, place: int) -> _Value:
        value = _Value(expression=column(taken_of(place)))
        if node.type is not Type.TRUTH:
            return value
        return self._let(exp.EQ(this=value.expression, expression=exp.Literal.string("true")), value)

    def _recoded(self, node: Recode, of: _Value) -> _Value:
        if len(node.table) > _SHORT_TABLE:
            self._made += 1
            name = f"looked_up_{self._made}"
            level = of.level + 1
            self._lookups[level].append(_Lookup(of=of.expression, table=node.table, found=name))
            found = _Value(expression=column(name), level=level)
        else:
            chain = exp.case()
            for key, text in node.table:
                is_it = exp.EQ(this=of.expression.copy(), expression=exp.Literal.string(key))
                chain = chain.when(is_it, exp.Literal.string(text), copy=False)
            found = self._let(chain, of, is_text=True)
        if node.otherwise is None:
            return found
        others = exp.case().when(_is_missing(of.expression), exp.null(), copy=False)
        either = exp.func("COALESCE", found.expression.copy(), exp.Literal.string(node.otherwise))
        return self._let(others.else_(either, copy=False), of, found, is_text=True)

    def _called(self, node: Call, given: Sequence[_Value]) -> _Value:
        parts = [each.expression.copy() for each in given]
        if node.name in _COMPARISONS:
            return self._let(_COMPARISONS[node.name](this=parts[0], expression=parts[1]), *given)
        if node.name in ("and", "or"):
            return self._let(exp.and_(*parts) if node.name == "and" else exp.or_(*parts), *given)
        if node.name == "not":
            return self._let(exp.Not(this=parts[0]), *given)
        if node.name == "is_missing":
            return self._let(_is_missing(parts[0]), *given)
        if node.name == DATE_OF:
            return self._let(_date_of(parts[0]), *given)
        if node.name == "coalesce":
            return self._let(exp.func("COALESCE", *parts), *given, is_text=node.type is Type.TEXT)
        if node.name == "if":
            chosen = exp.case().when(parts[0], parts[1], copy=False)
            if len(parts) == 3:
                chosen = chosen.when(exp.Not(this=parts[0].copy()), parts[2], copy=False)
            return self._let(chosen, *given, is_text=node.type is Type.TEXT)
        if node.name == "prefix":
            cut = exp.Anonymous(this="SUBSTR", expressions=[parts[0], exp.convert(1), _length(node.arguments[1])])
            return self._let(self._dialect.trimmed(cut), *given)
        if node.name in ("year", "month", "day", "weekday", "days_between", "years_between"):
            return self._let(self._of_dates(node.name, parts), *given, is_double=True)
        return self._let(_of_numbers(node, parts), *given, is_double=True)

    def _of_dates(self, name: str, days: Sequence[exp.Expr]) -> exp.Expr:
        if name == "days_between":
            return exp.Sub(this=days[1], expression=days[0])
        if name == "weekday":
            # The first day that is counted from was a Thursday; Monday is 1.
            from_monday = exp.Paren(this=days[0] + double(3.0))
            weeks = as_double(exp.Floor(this=from_monday / double(7.0)))
            return from_monday.copy() - weeks * double(7.0) + double(1.0)
        if name != "years_between":
            return self._part(name, days[0])
        years = exp.Sub(this=self._part("year", days[1]), expression=self._part("year", days[0]))
        before, after = (
            self._part("month", each) * double(100.0) + self._part("day", each) for each in (days[0], days[1])
        )
        is_to_come = exp.LT(this=after, expression=before)
        to_come = exp.case().when(is_to_come, double(1.0), copy=False).else_(double(0.0), copy=False)
        return exp.Sub(this=years, expression=to_come)

    def _part(self, name: str, days: exp.Expr) -> exp.Expr:
        date = self._dialect.date_of(days.copy())
        return as_double(exp.Extract(this=exp.var(name.upper()), expression=date))

    def _let(self, operation: exp.Expr, *given: _Value, is_double: bool = False, is_text: bool = False) -> _Value:
        """A column for an operation; the same one for the same."""
        level = 1 + max((each.level for each in given), default=0)
        if is_double:
            operation = as_double(operation)
        elif is_text:
            operation = self._dialect.as_text(operation)
        made = self._operations[level]
        if operation not in made:
            self._made += 1
            made[operation] = f"operation_{self._made}"
        return _Value(expression=column(made[operation]), level=level)

    def _joined(self, rows: exp.Select, lookup: _Lookup, parameters: list[list[str]]) -> exp.Select:
        """The place of a text among the keys, and then what stands at that place."""
        keys, found = zip(*lookup.table, strict=True)
        place = f"place_of_{lookup.found}"
        is_key = exp.EQ(this=lookup.of.copy(), expression=column("category"))
        position = exp.alias_(column("position"), place, quoted=True)
        rows = joined(rows, keys, is_key, position, self._dialect, parameters)
        is_it = exp.EQ(this=column(place), expression=column("position"))
        text = exp.alias_(self._dialect.as_text(column("category")), lookup.found, quoted=True)
        return joined(rows, found, is_it, text, self._dialect, parameters)


def _constant(node: Constant) -> exp.Expr:
    if isinstance(node.value, bool):
        return exp.convert(node.value)
    return exp.Literal.string(node.value) if isinstance(node.value, str) else double(node.value)


def _length(node: Node) -> exp.Expr:
    assert isinstance(node, Constant)
    return exp.convert(int(node.value))


def _date_of(second: exp.Expr) -> exp.Expr:
    return as_double(exp.Floor(this=second / double(float(SECONDS_OF_DAY))))


def _is_missing(value: exp.Expr) -> exp.Expr:
    return exp.Is(this=value.copy(), expression=exp.null())


def _of_numbers(node: Call, parts: Sequence[exp.Expr]) -> exp.Expr:
    if node.name == "+":
        return _within(_sum(parts, node.minus))
    if node.name == "*":
        return _within(exp.Paren(this=parts[0] * parts[1]))
    if node.name == "/":
        return _within(exp.Paren(this=parts[0] / exp.Nullif(this=parts[1], expression=double(0.0))))
    if node.name == "abs":
        is_below = exp.LT(this=parts[0], expression=double(0.0))
        return exp.case().when(is_below, double(0.0) - parts[0].copy(), copy=False).else_(parts[0].copy(), copy=False)
    if node.name in ("min", "max"):
        one, other = parts if node.name == "min" else reversed(parts)
        is_first = exp.LTE(this=parts[0].copy(), expression=parts[1].copy())
        is_second = exp.GT(this=parts[0].copy(), expression=parts[1].copy())
        return exp.case().when(is_first, one, copy=False).when(is_second, other, copy=False)
    half = double({"floor": 0.0, "round": 0.5}[node.name])
    is_large = exp.Or(
        this=exp.GTE(this=parts[0], expression=double(_ALL_WHOLE)),
        expression=exp.LTE(this=parts[0].copy(), expression=double(-_ALL_WHOLE)),
    )
    # Clamped before the floor, which databases cast to 64 bits.
    lower = as_double(exp.Floor(this=clamped(parts[0].copy(), -_ALL_WHOLE, _ALL_WHOLE) + half))
    return exp.case().when(is_large, parts[0].copy(), copy=False).else_(lower, copy=False)


def _sum(terms: Sequence[exp.Expr], minus: Sequence[bool]) -> exp.Expr:
    """From the first to the last, for sums of doubles depend on their order."""
    total = double(0.0)
    for term, is_minus in zip(terms, minus, strict=True):
        total = exp.Paren(this=total - term if is_minus else total + term)
    return total


def _within(value: exp.Expr) -> exp.Expr:
    """The number within bounds: none beyond the largest, 0 where it is next to it."""
    is_small = exp.And(
        this=exp.LT(this=value.copy(), expression=double(SMALLEST)),
        expression=exp.GT(this=value.copy(), expression=double(-SMALLEST)),
    )
    is_a_number = exp.And(
        this=exp.LTE(this=value.copy(), expression=double(LARGEST)),
        expression=exp.GTE(this=value.copy(), expression=double(-LARGEST)),
    )
    return exp.case().when(is_small, double(0.0), copy=False).when(is_a_number, value, copy=False)
