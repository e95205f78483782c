"""What databases write differently: all other SQL is the same expression, written in one dialect each.

Nothing that is compared or cut depends on a locale, a collation or an escape of the database: text is compared byte by
byte, and the characters that are cut off are named by their numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from releases.engine.tables.typed import ColumnType

#: Space, tab, line feed, vertical tab, form feed, carriage return.
SPACES = (32, 9, 10, 11, 12, 13)

CELL = "cell"


class Dialect:
    """How DuckDB writes it; the others change what they must.

    Attributes:
        name: as sqlglot has it.
        read_types: the types of columns that are read as they are, and not as text.
    """

    name = "duckdb"
    read_types: frozenset[ColumnType] = frozenset(set(ColumnType) - {ColumnType.INSTANT})

    def sql(self, expression: exp.Expr) -> str:
        return expression.sql(dialect=self.name)

    def as_text(self, column: exp.Expr) -> exp.Expr:
        return exp.cast(column, exp.DataType.Type.TEXT)

    def trimmed(self, given: exp.Expr) -> exp.Expr:
        """A value as text, without the six spaces around it; null where nothing is left."""
        spaces = exp.Concat(expressions=[exp.Chr(expressions=[exp.Literal.number(each)]) for each in SPACES])
        text = exp.Trim(this=self.as_text(given), expression=spaces, position="BOTH")
        return exp.Nullif(this=text, expression=exp.Literal.string(""))

    def part(self, text: exp.Expr, separator: str, place: int) -> exp.Expr:
        """Of what a separator divides a text into the part at a place, from 1; no character where there are fewer."""
        given = [text.copy(), exp.Literal.string(separator), exp.Literal.number(place)]
        return exp.Anonymous(this="SPLIT_PART", expressions=given)

    def grouped(self, rows: exp.Select, columns: Sequence[exp.Column]) -> exp.Select:
        """How many rows there are with each value of each of some columns, in one reading: the value, which is named
        `CELL`, and the count.

        Args:
            columns: whole numbers, none of which is in two of them.
        """
        by = exp.GroupingSets(expressions=[exp.Tuple(expressions=[each.copy()]) for each in columns])
        # Of each group only its own column's is there.
        counted = [exp.alias_(exp.func("COALESCE", *columns), CELL, quoted=True), number_of_rows()]
        return step(rows, counted, self, keep=False).group_by(by, copy=False)

    def read_double(self, text: exp.Expr) -> exp.Expr:
        """The double that a text writes. Ask only where it matches the grammar; even elsewhere the cast ends no run."""
        return exp.TryCast(this=text, to=exp.DataType.build("DOUBLE"), safe=True)

    def matches(self, text: exp.Expr, pattern: str) -> exp.Expr:
        """Whether the whole text matches a pattern, which begins with ^ and ends with $ and has no other of these."""
        return exp.RegexpLike(this=text, expression=exp.Literal.string(pattern))

    def date_of(self, days: exp.Expr) -> exp.Expr:
        """The date so many days after 1970-01-01, in the years 1 to 9999."""
        return exp.Paren(this=exp.Add(this=epoch(), expression=exp.cast(days, exp.DataType.Type.INT)))

    def day_of(self, given: exp.Expr) -> exp.Expr:
        """The days from 1970-01-01 of a date, or of a time in the years 1 to 9999."""
        return exp.Paren(this=exp.Sub(this=exp.cast(given, exp.DataType.Type.DATE), expression=epoch()))

    def second_of(self, given: exp.Expr) -> exp.Expr:
        """The seconds from 1970-01-01 00:00:00 of a time in the years 1 to 9999, without their fraction: with it a
        double would be rounded."""
        second = exp.Anonymous(this="DATE_TRUNC", expressions=[exp.Literal.string("second"), given])
        return exp.Anonymous(this="DATE_PART", expressions=[exp.Literal.string("epoch"), second])

    def sha256(self, text: exp.Expr) -> exp.Expr:
        """SHA-256 of the text's UTF-8 bytes, in lower hexadecimal digits."""
        return exp.Anonymous(this="SHA256", expressions=[text])

    def identity(self, text: exp.Expr) -> exp.Expr:
        """What two texts have in common only if they are equal: rows are grouped and put in order by it."""
        return text

    def fenced(self, step: exp.Select) -> exp.Select:
        """A step whose columns are worked out once, however often the next step uses them."""
        return step

    def numbered(self, texts: Sequence[str], parameters: list[list[str]]) -> exp.Select:
        """A table of texts (`category`) and their positions (`position`, from 0), bound as a parameter."""
        parameters.append(list(texts))
        return exp.select("*").from_(exp.table_(bound_table(len(parameters)), quoted=True))

    def of_literals(self, texts: Sequence[str]) -> exp.Select:
        """The same, of which the statement itself has the texts."""
        rows = [(text, position) for position, text in enumerate(texts)]
        values = literals(rows, "named", ["category", "position"])
        position = exp.alias_(exp.cast(column("position"), exp.DataType.Type.BIGINT), "position", quoted=True)
        return exp.select(column("category"), position).from_(values, copy=False)

    def bound(self, number: int) -> exp.Select:
        """The texts of a parameter, and their positions."""
        given = exp.cast(exp.Parameter(this=exp.Literal.number(number)), "ARRAY<TEXT>", dialect="spark")
        subscripts = exp.Anonymous(this="GENERATE_SUBSCRIPTS", expressions=[given.copy(), exp.Literal.number(1)])
        return exp.select(
            exp.alias_(exp.Anonymous(this="UNNEST", expressions=[given]), "category", quoted=True),
            exp.alias_(exp.cast(subscripts - 1, exp.DataType.Type.BIGINT), "position", quoted=True),
        )


class PostgreSQL(Dialect):
    name = "postgres"
    read_types = frozenset(ColumnType)

    def as_text(self, column: exp.Expr) -> exp.Expr:
        return exp.Collate(this=super().as_text(column), expression=exp.to_identifier("C", quoted=True))

    def read_double(self, text: exp.Expr) -> exp.Expr:
        # It has no cast that gives null. What it evaluates first in a CASE is documented: the condition.
        return as_double(text)

    def numbered(self, texts: Sequence[str], parameters: list[list[str]]) -> exp.Select:
        parameters.append(list(texts))
        return self.bound(len(parameters))

    def sha256(self, text: exp.Expr) -> exp.Expr:
        octets = exp.Anonymous(this="CONVERT_TO", expressions=[text, exp.Literal.string("UTF8")])
        hashed = exp.Anonymous(this="SHA256", expressions=[octets])
        return exp.Anonymous(this="ENCODE", expressions=[hashed, exp.Literal.string("hex")])

    def fenced(self, step: exp.Select) -> exp.Select:
        # Else the server would write each column's expression wherever the column is used.
        return step.offset(0, copy=False)


class Spark(Dialect):
    name = "spark"
    read_types = Dialect.read_types - {ColumnType.TIME}

    def as_text(self, column: exp.Expr) -> exp.Expr:
        # A column may be declared to ignore case or accents.
        return exp.Anonymous(this="COLLATE", expressions=[super().as_text(column), exp.Literal.string("UTF8_BINARY")])

    def grouped(self, rows: exp.Select, columns: Sequence[exp.Column]) -> exp.Select:
        # For each grouping set of each row it would make a row of all the columns. Of an array it makes one number.
        array = exp.Anonymous(this="ARRAY", expressions=[each.copy() for each in columns])
        cell = exp.Anonymous(this="EXPLODE", expressions=[array])
        cells = step(rows, [exp.alias_(cell, CELL, quoted=True)], self, keep=False)
        return step(cells, [column(CELL), number_of_rows()], self, keep=False).group_by(column(CELL), copy=False)

    def matches(self, text: exp.Expr, pattern: str) -> exp.Expr:
        # Else $ would also match before a line end of Unicode. The cast would give null there, but the grammar decides.
        return super().matches(text, f"(?d){pattern}")

    def date_of(self, days: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="DATE_ADD", expressions=[epoch(), exp.cast(days, exp.DataType.Type.INT)])

    def day_of(self, given: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="DATEDIFF", expressions=[given, epoch()])

    def sha256(self, text: exp.Expr) -> exp.Expr:
        return exp.Anonymous(this="SHA2", expressions=[text, exp.Literal.number(256)])

    def numbered(self, texts: Sequence[str], parameters: list[list[str]]) -> exp.Select:
        return self.of_literals(texts)


def bound_table(number: int) -> str:
    """Where DuckDB keeps the texts of a parameter: with parameters, a statement's rows would be held in memory."""
    return f"named_{number}"


def column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def literals(rows: Sequence[tuple[object, ...]], name: str, columns: Sequence[str]) -> exp.Values:
    """A table of literals, whose columns have these very names."""
    found = exp.values(rows, alias=name, columns=columns)
    found.args["alias"].set("columns", [exp.to_identifier(each, quoted=True) for each in columns])
    return found


def whole(number: int) -> exp.Expr:
    return exp.cast(exp.convert(number), exp.DataType.Type.BIGINT)


def double(number: float) -> exp.Expr:
    """The very double: written as text, for databases read digits as decimal fractions of their own."""
    return exp.cast(exp.Literal.string(repr(number)), exp.DataType.Type.DOUBLE)


def epoch() -> exp.Expr:
    return exp.cast(exp.Literal.string("1970-01-01"), exp.DataType.Type.DATE)


def as_double(expression: exp.Expr) -> exp.Expr:
    return exp.cast(expression, exp.DataType.Type.DOUBLE)


def clamped(value: exp.Expr, lowest: float, highest: float) -> exp.Expr:
    """Null stays null."""
    return (
        exp.case()
        .when(exp.LT(this=value.copy(), expression=double(lowest)), double(lowest), copy=False)
        .when(exp.GT(this=value.copy(), expression=double(highest)), double(highest), copy=False)
        .else_(value, copy=False)
    )


def number_of_rows() -> exp.Expr:
    return exp.Count(this=exp.Star(), big_int=True)


def floor(value: exp.Expr) -> exp.Expr:
    """As a whole number. Clamp before: a double beyond 64 bits would end the run."""
    return exp.cast(exp.Floor(this=value), exp.DataType.Type.BIGINT)


def step(below: exp.Select, selected: Sequence[exp.Expr], dialect: Dialect, *, keep: bool = True) -> exp.Select:
    """The next step: the columns of the one below (unless not `keep`), and these."""
    columns = [exp.Star(), *selected] if keep else list(selected)
    return exp.select(*columns, copy=False).from_(dialect.fenced(below).subquery("below", copy=False), copy=False)


def joined(
    below: exp.Select,
    texts: Sequence[str],
    is_it: exp.Expr,
    found: exp.Expr,
    dialect: Dialect,
    parameters: list[list[str]],
) -> exp.Select:
    """The rows of a step with what is found in a table of texts (`category`) and their positions (`position`).

    Args:
        is_it: which of the texts is a row's; at most one.
        found: what is selected of it; the position and the text are null where there is none.
    """
    named = dialect.numbered(texts, parameters).subquery("named", copy=False)
    all_below = exp.Column(this=exp.Star(), table=exp.to_identifier("below"))
    return step(below, [all_below, found], dialect, keep=False).join(named, on=is_it, join_type="left", copy=False)


def filtered(below: exp.Select, conditions: Sequence[exp.Expr], dialect: Dialect) -> exp.Select:
    """The rows of a step of which all conditions are true."""
    rows = step(below, [], dialect)
    return rows.where(*conditions, copy=False) if conditions else rows


def is_there(name: str) -> exp.Expr:
    return exp.Not(this=exp.Is(this=column(name), expression=exp.null()))
