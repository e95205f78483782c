"""What a server has to count right before a table of it may be counted: rows that are literals of the statement.

A server of another version, build or configuration may trim, match, cast, hash or sort otherwise than the servers that
the tests know, and would count persons or values wrong without a sign. So the server itself is asked, in the very
session that counts afterwards, for the counts of rows that are known. The rows are public and the same for everybody;
no table is read. The counts follow from ``docs/reference/counting.md``; the tests work them out again by a reference
that shares no code with the engine, and hold all databases to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlglot import exp

from releases.engine.domain.schema import OWN_ROWS, Schema
from releases.engine.tables.counts import Counts
from releases.engine.tables.dialects import Dialect, column, literals
from releases.engine.tables.facts import SERVER, UnreadableTable
from releases.engine.tables.number import NumberForm
from releases.engine.tables.sources import EngineSession, Source
from releases.engine.tables.typed import ColumnType

_NAMES = ("person", "number", "word", "day")
DECLARED: tuple[dict[str, Any], ...] = (
    {
        "name": "number",
        "type": "number",
        "edges": [-10, 0, 0.1, 0.3, 10.5, 50, 100],
        "decimals": 2,
        "outside": "drop",
        "missing": ["-9"],
    },
    {
        "name": "word",
        "type": "categorical",
        "categories": ["f", "m", "é", "ß", "a'b", "a\\b", "%s", "$1", "none"],
        "outside": "none",
    },
    {
        "name": "day",
        "type": "date",
        "format": "DD.MM.YYYY",
        "first": "2019-12-31",
        "last": "2024-02-29",
        "by": "year",
        "outside": "drop",
    },
)
#: Of persons, made from the same rows. Each has a bin for everybody, so that none hides what another counts.
OF_PERSONS: tuple[dict[str, Any], ...] = (
    {"name": "rows", "type": "integer", "edges": [1, 2, 6, 7], "formula": "count_per_person()"},
    {
        "name": "total",
        "type": "number",
        "edges": [-10, 0, 10, 40, 100, 200],
        "decimals": 2,
        "missing_as": "no number",
        "formula": "sum_per_person(number, -5, 40.5)",
    },
    {
        "name": "least",
        "type": "number",
        "edges": [-10, 0, 0.1, 10.5, 100],
        "missing_as": "no number",
        "formula": "min_per_person(number)",
    },
    {
        "name": "some",
        "type": "categorical",
        "categories": ["true", "false"],
        "missing_as": "false",
        "formula": 'any_per_person(word = "m")',
    },
    {
        "name": "usual",
        "type": "categorical",
        "categories": ["none", "é", "m", "f", "ß", "%s"],
        "outside": "none",
        "formula": "most_frequent_per_person(word)",
    },
    {
        "name": "last",
        "type": "categorical",
        "categories": ["$1", "ß", "é", "m", "f"],
        "missing_as": "m",
        "formula": "last_per_person(word, day)",
    },
    {
        "name": "mean",
        "type": "number",
        "edges": [-10, 0, 1, 10, 20, 30, 50],
        "missing_as": "no number",
        "formula": "sum_per_person(number, -5, 40.5) / count_per_person(number)",
    },
    {
        "name": "apart",
        "type": "integer",
        "edges": [0, 1, 366, 1000, 2000],
        "missing_as": "no number",
        "formula": "days_between(min_per_person(day), max_per_person(day))",
    },
    {
        "name": "text",
        "type": "categorical",
        "categories": ["none", "$1", "%s", "f", "m", "ß", "é", "E", "F"],
        "outside": "none",
        "formula": "coalesce(most_frequent_per_person(word), first_per_person(word, day))",
    },
)
UNITS: dict[str, dict[str, Any]] = {
    "row": {"kind": "row"},
    "person": {"kind": "person", "id": "person", "max_rows": 2},
}

#: Each is a value in a row whose others are in order.
NUMBERS = (
    *("", " ", "nan", "inf", "Infinity", "0x10", "1_000", "--1", ".", "e5", "1e", "1,5", "1 0", "٣", "１２", "\u00a01"),
    *("1\u2028", "1\u0085", "\ufeff1", "1\x1c", "true", "½", "1d", "1f", "1L", "1e100", "9" * 41, "1\n2", "1.5.2"),
    *("0", "-0.0", "+40", "5.", "+.5e1", ".5", "00012", "1e-99", "4e1", "9007199254740993", "1e19", "0.1", "0.3"),
    *("0.30000000000000004", "10.499999999999999", "10.5", "99.995", "-0.005", "\t7\n", "\x0b8\x0c", " 9\r", "100"),
    *("-9", "-09", " -9 ", "-9e0", "-9.0000000000000001", "-9.01", "-10", "-10.01", "100.01", "49.999999999999999999"),
    *("7." + "1" * 40, "5e+01", "1E0", "30e-2", "1e-1", "2.5", "0.005", "1.005"),
)
WORDS: tuple[str | None, ...] = (
    *("f", " f ", "F", "\x0bf\x0c", "\u00a0f", "f\u200b", "fm", "é", "e\u0301", "É", "ß", "ss", "SS", "a'b", "a\\b"),
    *("a\\\\b", "%s", "%%s", "$1", "'$1'", "", "  ", None, "none", "m\r\n", "m\u2029"),
)
DAYS = (
    *("31.12.2019", "01.01.2020", "1.1.2020", "29.02.2020", "29.02.2021", "30.02.2020", "29.2.2024", "01.03.2024"),
    *("31.04.2021", "31.12.2023 23:59", "31.12.2023T23:59:59.5Z", "2020-01-01", "1.1.20", "٣.1.2020", "01.01.2020x"),
    *("30.12.2019", " 05.06.2022\t", "00.01.2022", "01.13.2022", "01.00.2022"),
)
#: Columns of other types than text: how a statement writes the type, and values; each type as it is and as text has to
#: give the same counts.
_TYPED: dict[str, tuple[ColumnType, str, tuple[str, ...]]] = {
    "whole": (
        ColumnType.WHOLE,
        "BIGINT",
        ("5", "-9", "0", "-10", "9007199254740993", "9223372036854775807", "-9223372036854775808", "100"),
    ),
    "place": (ColumnType.WHOLE, "BIGINT", ("1", "7", "-3", "-9", "10", "9223372036854775807")),
    "decimal": (ColumnType.DECIMAL, "DECIMAL(12, 3)", ("0.1", "10.5", "10.499", "-9", "99.995", "-0.001", "5")),
    "double": (
        ColumnType.DOUBLE,
        "DOUBLE",
        (
            *("NaN", "Infinity", "-Infinity", "-0.0", "1e100", "9.999999999999999e99", "1e-99", "9e-100", "1e-300"),
            *("0.1", "0.30000000000000004", "10.499999999999998", "-9", "1e16", "5"),
        ),
    ),
    "day": (ColumnType.DATE, "DATE", ("1969-12-31", "0001-01-01", "9999-12-31", "10000-01-01", "2024-02-29")),
    "time": (
        ColumnType.TIME,
        "TIMESTAMP",
        ("1969-12-31 23:59:59.5", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "2024-02-29 12:00:00"),
    ),
    "instant": (
        ColumnType.INSTANT,
        "TIMESTAMPTZ",
        ("1969-12-31 23:59:59.5+00", "2024-07-01 22:30:00+00", "2024-03-31 00:59:59+00", "9999-12-31 23:59:59+00"),
    ),
}
TYPED: tuple[dict[str, Any], ...] = (
    {
        "name": "whole",
        "type": "integer",
        "edges": [-(2**53), -9, 0, 5, 100],
        "missing": ["-9"],
        "missing_as": "no number",
    },
    {"name": "place", "type": "categorical", "categories": ["none", "1", "01", "7", "-3"], "outside": "none"},
    {"name": "decimal", "type": "number", "edges": [-10, 0, 0.1, 10.5, 50], "decimals": 2},
    {"name": "double", "type": "number", "edges": [-9, 0, 0.3, 10.5, 100], "missing_as": "no number"},
    {"name": "day", "type": "date", "first": "1969-12-31", "last": "2024-02-29", "by": "year", "missing_as": "no date"},
    {"name": "time", "type": "datetime", "first": "0001-01-01", "last": "9999-12-31", "by": "hour", "outside": "drop"},
    {
        "name": "instant",
        "type": "datetime",
        "zone": "Europe/Berlin",
        "first": "1969-12-31",
        "last": "2024-12-31",
        "by": "hour",
        "outside": "drop",
        "missing_as": "no date",
    },
)
#: More rows than are kept of each: which of them are is by a hash of their values.
_OF_PEOPLE = ("f", "m", "é", "ß", "%s", "$1")
PEOPLE = ("p", " p ", "P", "é", "e\u0301", "a'b", "\u00a0p", "1", "1.0")


def rows() -> list[tuple[str | None, ...]]:
    """By `_NAMES`."""
    fine = ("one", "5", "f", "05.06.2022")
    tried = [(place, text) for place, texts in ((1, NUMBERS), (2, WORDS), (3, DAYS)) for text in texts]
    found = [
        (f"{number} tried", *(text if each == place else fine[each] for each in (1, 2, 3)))
        for number, (place, text) in enumerate(tried)
    ]
    found += [
        (person, str(7 * each % 60), _OF_PEOPLE[(each + number) % 6], f"{1 + each}.1.{2020 + each % 4}")
        for number, person in enumerate(PEOPLE)
        for each in range(6)
    ]
    return [*found, (None, "5", "f", "05.06.2022"), ("", "5", "m", "05.06.2022"), (" \t", "5", "m", "05.06.2022")]


@dataclass(frozen=True, kw_only=True)
class KnownRows:
    """How many rows there are, for one unit.

    Attributes:
        cells: with each bin of number and each of word.
        days: with each bin of day.
        hundredths: with each of `VALUES`.
        words: with each of `TEXTS`.
    """

    cells: tuple[tuple[int, ...], ...]
    days: tuple[int, ...]
    hundredths: tuple[int, ...]
    words: tuple[int, ...]


#: How many persons there are with each bin of each column of persons.
KNOWN_PERSONS: tuple[tuple[int, ...], ...] = (
    (115, 0, 8),
    (3, 66, 3, 9, 8, 34),
    (4, 12, 62, 11, 34),
    (9, 114),
    (27, 1, 1, 92, 1, 1),
    (3, 4, 2, 32, 82),
    (4, 10, 55, 11, 0, 9, 34),
    (104, 0, 0, 8, 11),
    (17, 9, 1, 92, 1, 1, 1, 0, 1),
)
#: The numbers that are counted, in units of their last place.
VALUES = (
    *(-1000, -901, 0, 1, 10, 30, 50, 100, 250, 500, 700, 711, 800, 900, 1050, 1200, 1400, 2100, 2800, 3500, 4000, 5000),
    *(10_000,),
)
#: The words that are counted where any is.
TEXTS = (
    *("$1", "%%s", "%s", "'$1'", "F", "SS", "a'b", "a\\\\b", "a\\b", "e\u0301", "f", "fm", "f\u200b", "m", "m\u2029"),
    *("none", "ss", "\xa0f", "É", "ß", "é"),
)
KNOWN = {
    "row": KnownRows(
        cells=(
            (3, 0, 0, 0, 0, 0, 0, 0, 0),
            (6, 2, 2, 1, 0, 0, 1, 1, 0),
            (2, 0, 0, 0, 0, 0, 0, 0, 0),
            (26, 5, 3, 3, 1, 1, 2, 2, 16),
            (10, 5, 5, 6, 0, 0, 7, 7, 0),
            (4, 0, 0, 0, 0, 0, 0, 0, 0),
        ),
        days=(1, 21, 18, 70, 10, 1),
        hundredths=(1, 1, 13, 1, 2, 3, 1, 2, 1, 38, 10, 1, 1, 1, 2, 1, 9, 9, 9, 9, 2, 2, 2),
        words=(10, 1, 10, 1, 1, 1, 1, 1, 1, 1, 51, 1, 1, 12, 1, 1, 1, 1, 1, 10, 10),
    ),
    "person": KnownRows(
        cells=(
            (3, 0, 0, 0, 0, 0, 0, 0, 0),
            (6, 0, 0, 1, 0, 0, 1, 0, 0),
            (2, 0, 0, 0, 0, 0, 0, 0, 0),
            (25, 1, 2, 3, 1, 1, 1, 1, 16),
            (7, 0, 2, 1, 0, 0, 2, 0, 0),
            (4, 0, 0, 0, 0, 0, 0, 0, 0),
        ),
        days=(1, 11, 5, 60, 2, 1),
        hundredths=(1, 1, 8, 1, 2, 3, 1, 2, 1, 35, 5, 1, 1, 1, 2, 1, 2, 1, 4, 1, 2, 2, 2),
        words=(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 50, 1, 1, 1, 1, 1, 1, 1, 1, 1, 8),
    ),
}


#: How many rows of persons there are with each bin of each column, where tables have own rows.
KNOWN_OWN_ROWS: tuple[tuple[int, ...], ...] = (
    (3, 8, 2, 64, 12, 4),
    (98, 1, 4, 5, 1, 1, 4, 1, 16),
    (1, 11, 5, 98, 2, 1),
)


def refuse_unless_right(server: EngineSession, counted: Callable[[Source, Schema], Counts]) -> None:
    """Count the rows in the session of a server.

    Args:
        server: no table of it is read.
        counted: the counts of a source under a schema, such as `query.TableCounts`.

    Raises:
        UnreadableTable: the server counts otherwise than is defined. Its field is `SERVER`.
    """
    found = [_is_right(counted(_Literals(server), _schema_of(DECLARED, unit)), known) for unit, known in KNOWN.items()]
    apart = counted(_Literals(server), _schema_of(DECLARED, "person", rows_counted=OWN_ROWS))
    own = apart.marginals([(name,) for name in apart.universe.names])
    found.append(tuple(tuple(each.tolist()) for each in own) == KNOWN_OWN_ROWS)
    names = [each["name"] for each in OF_PERSONS]
    persons = counted(_Literals(server), _schema_of((*OF_PERSONS, *DECLARED), "person").project(names))
    found.append(
        tuple(tuple(each.tolist()) for each in persons.marginals([(name,) for name in names])) == KNOWN_PERSONS
    )
    if not all(found) or not _types_are_right(server, counted):
        raise UnreadableTable(
            "counts texts, numbers, dates or persons otherwise than this site defines, so nothing may be counted there",
            field=SERVER,
        )


def _types_are_right(server: EngineSession, counted: Callable[[Source, Schema], Counts]) -> bool:
    """Whether the types that are read count as their texts; these were seen to be counted right."""
    columns = [each for each in TYPED if _TYPED[each["name"]][0] in server.dialect.read_types]
    if not columns:
        return True
    schema = Schema.from_json({"version": 1, "columns": columns, "unit": UNITS["row"], "neighbours": "add_remove"})
    types = {name: _TYPED[name][0] for name in schema.universe.names}
    sets = [(name,) for name in schema.universe.names]
    as_they_are, as_text = (
        counted(_TypedLiterals(server, each), schema).marginals(sets) for each in (types, dict[str, ColumnType]())
    )
    return all(map(np.array_equal, as_they_are, as_text))


def _schema_of(columns: Sequence[dict[str, Any]], unit: str, **more: str) -> Schema:
    declared = {"version": 1, "columns": list(columns), "unit": UNITS[unit], "neighbours": "add_remove"}
    return Schema.from_json(declared | more)


def _is_right(counts: Counts, known: KnownRows) -> bool:
    cells, days = counts.marginals([("number", "word"), ("day",)])
    tally, texts = counts.tally(("number",)), counts.texts("word")
    hundredths = zip(tally.values[0].tolist(), tally.counts.tolist(), strict=True)
    words = zip(texts.texts.tolist(), texts.counts.tolist(), strict=True)
    return (
        tuple(map(tuple, cells.tolist())) == known.cells
        and tuple(days.tolist()) == known.days
        and sorted(hundredths) == list(zip(VALUES, known.hundredths, strict=True))
        and sorted(words) == list(zip(TEXTS, known.words, strict=True))
    )


@dataclass(frozen=True)
class _Literals:
    """The rows, in the session of a server."""

    server: EngineSession
    types: Mapping[str, ColumnType] = field(default_factory=dict)

    @property
    def dialect(self) -> Dialect:
        return self.server.dialect

    @property
    def is_here(self) -> bool:
        return self.server.is_here

    @property
    def number_form(self) -> NumberForm:
        return self.server.number_form

    @property
    def columns(self) -> tuple[str, ...]:
        return _NAMES

    @property
    def relation(self) -> exp.Expr:
        given = [tuple(exp.convert(text) for text in row) for row in rows()]
        return literals(given, "given", _NAMES)

    def batches(self, statement: exp.Expr, parameters: Sequence[list[str]]) -> Iterator[tuple[NDArray[Any], ...]]:
        return self.server.batches(statement, parameters)


class _TypedLiterals(_Literals):
    """Values of other types, by `_TYPED`."""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(name for name, (type_, *_) in _TYPED.items() if type_ in self.dialect.read_types)

    @property
    def relation(self) -> exp.Expr:
        chosen = {name: _TYPED[name] for name in self.columns}
        number = max(len(values) for *_, values in chosen.values())
        given = [
            tuple(exp.convert(values[place % len(values)]) for *_, values in chosen.values()) for place in range(number)
        ]
        cast = [
            exp.alias_(exp.cast(column(name), exp.DataType.build(kind)), name, quoted=True)
            for name, (_, kind, _) in chosen.items()
        ]
        return exp.select(*cast).from_(literals(given, "given", self.columns)).subquery("typed")
