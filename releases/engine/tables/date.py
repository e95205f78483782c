"""Step 2 of columns of dates: the day that the text writes, counted from 1970-01-01; of dates with a time of day the
second. Null where the text writes none. Where a time zone is declared and the text has an offset, the second is that
of the zone's clocks at that instant.

The text has to match one pattern, which allows the days that there are and no others: so what follows never fails, and
no date is moved. Databases calculate the rest with doubles, which are exact here.

A column of dates by its type is taken as it is, where its text would write the same date.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from releases.engine.domain.columns import FileColumn
from releases.engine.domain.dates import DATE_FORMATS
from releases.engine.domain.zones import offsets
from releases.engine.tables.dialects import Dialect, as_double, column, double, step
from releases.engine.tables.number import number_of
from releases.engine.tables.text import text_of
from releases.engine.tables.typed import ColumnType

_YEAR = "([1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
_FOURTH = "(0[48]|[2468][048]|[13579][26])"
_LEAP_YEAR = f"([0-9]{{2}}{_FOURTH}|{_FOURTH}00)"
#: The days that there are, each with the months and the years that have it. The nought before ~ may be left out in
#: forms that people write by hand.
_DAYS = (
    ("(0~[1-9]|1[0-9]|2[0-8])", "(0~[1-9]|1[0-2])", _YEAR),
    ("(29|30)", "(0~[13-9]|1[0-2])", _YEAR),
    ("31", "(0~[13578]|1[02])", _YEAR),
    ("29", "0~2", _LEAP_YEAR),
)
_TIME = "[ T]([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]{1,9})?)?"
#: From UTC. Without a declared zone it is not calculated with: the time is the one that is written.
_OFFSET = "(Z|[+-][0-9]{2}(:?[0-9]{2})?)?"
_OFFSET_IN_USE = "(Z|[+-]([01][0-9]|2[0-3])(:?[0-5][0-9])?)"
_PARTS = {"year": "YYYY", "month": "MM", "day": "DD"}
#: Whether the written clock is ahead of UTC or behind it.
_WAYS = {"ahead": "+", "behind": "-"}
#: The first and the last value of each type that its text writes as a date.
_ENDS = {
    ColumnType.DATE: ("DATE", "0001-01-01", "9999-12-31"),
    ColumnType.TIME: ("TIMESTAMP", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
    ColumnType.INSTANT: ("TIMESTAMPTZ", "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
}


def date_numbers(
    rows: exp.Select, columns: Mapping[int, FileColumn], dialect: Dialect, *, taken: Mapping[int, ColumnType]
) -> exp.Select:
    """The rows with the day or the second of each column of dates.

    Args:
        taken: the axes of columns whose dates the rows have already, from `typed_dates`.
    """
    there = [
        exp.alias_(_on_clock_of_zone(axis, dates), number_of(axis), quoted=True)
        for axis, dates in columns.items()
        if _is_instant(dates, taken.get(axis))
    ]
    rows = step(rows, there, dialect) if there else rows
    dated = [(axis, dates) for axis, dates in columns.items() if dates.kind.is_of_dates and axis not in taken]
    if not dated:
        return rows
    written = {_named(axis, "written"): _written(axis, dates, dialect) for axis, dates in dated}
    parts = {
        _named(axis, name): dialect.read_double(text)
        for axis, dates in dated
        for name, text in _texts_of_parts(column(_named(axis, "written")), dates, dialect).items()
    }
    # Years that begin with March, so that a leap day is the last of one.
    shifts = {_named(axis, "shift"): _shift(axis) for axis, _ in dated}
    zoned = [(axis, dates) for axis, dates in dated if dates.zone]
    walls = {_named(axis, "wall"): _number(axis, dates) for axis, dates in zoned}
    instants = {_named(axis, "instant"): _instant(axis) for axis, _ in zoned}
    numbers = {
        number_of(axis): _by_clock_of_zone(axis, dates, dialect) if dates.zone else _number(axis, dates)
        for axis, dates in dated
    }
    for made in filter(None, (written, parts, shifts, walls, instants, numbers)):
        rows = step(rows, [exp.alias_(each, name, quoted=True) for name, each in made.items()], dialect)
    return rows


def typed_dates(columns: Mapping[int, FileColumn], taken: Mapping[int, ColumnType], dialect: Dialect) -> list[exp.Expr]:
    """The days or the seconds of columns of dates that are taken by their type, as doubles."""
    return [
        exp.alias_(
            _of_type(each, taken[axis], dialect),
            _named(axis, "instant") if _is_instant(each, taken[axis]) else number_of(axis),
            quoted=True,
        )
        for axis, each in columns.items()
        if each.kind.is_of_dates and axis in taken
    ]


def _is_instant(dates: FileColumn, type_: ColumnType | None) -> bool:
    return bool(dates.zone) and type_ is ColumnType.INSTANT


def _of_type(dates: FileColumn, type_: ColumnType, dialect: Dialect) -> exp.Expr:
    given = column(dates.name)
    kind, *ends = _ENDS[type_]
    first, last = (exp.cast(exp.Literal.string(each), exp.DataType.build(kind)) for each in ends)
    is_date = exp.And(
        this=exp.GTE(this=given, expression=first), expression=exp.LTE(this=given.copy(), expression=last)
    )
    if dates.missing:
        codes = [exp.Literal.string(each) for each in dates.missing]
        text = dialect.as_text(given.copy())
        is_date = exp.And(this=is_date, expression=exp.Not(this=exp.In(this=text, expressions=codes)))
    number = dialect.second_of(given.copy()) if dates.has_time else dialect.day_of(given.copy())
    return exp.case().when(is_date, as_double(number), copy=False)


def grammar(dates: FileColumn) -> str:
    """The pattern that a text has to match: a day that there is, in the declared form; and a time of day, which may be
    missing where the column has none, and is not looked at there."""
    nought = "0" if dates.written.startswith("YYYY") else "0?"
    days = []
    for day, month, year in _DAYS:
        text = dates.written.replace(".", "[.]")
        for part, digits in (("YYYY", year), ("MM", month), ("DD", day)):
            text = text.replace(part, digits.replace("0~", nought))
        days.append(text)
    offset = f"{_OFFSET_IN_USE}?" if dates.zone else _OFFSET if dates.written == DATE_FORMATS[0] else ""
    return f"^({'|'.join(days)})({_TIME}{offset}){'' if dates.has_time else '?'}$"


def _named(axis: int, part: str) -> str:
    return f"{part}_of_date_{axis}"


def _part(axis: int, name: str) -> exp.Expr:
    return column(_named(axis, name))


def _written(axis: int, dates: FileColumn, dialect: Dialect) -> exp.Expr:
    text = column(text_of(axis))
    return exp.case().when(dialect.matches(text, grammar(dates)), text.copy(), copy=False)


def _texts_of_parts(text: exp.Expr, dates: FileColumn, dialect: Dialect) -> dict[str, exp.Expr]:
    separator = next((sign for sign in dates.written if sign not in "YMD"), "")
    if separator:
        # The last part may be followed by a time of day, and has its full length in every text.
        order = dates.written.split(separator)
        found = {
            name: _cut(dialect.part(text, separator, order.index(part) + 1), 1, len(part))
            for name, part in _PARTS.items()
        }
    else:
        found = {name: _cut(text, dates.written.index(part) + 1, len(part)) for name, part in _PARTS.items()}
    if dates.has_time:
        time = dialect.part(_called("REPLACE", text, "T", " "), " ", 2)
        has_seconds = exp.EQ(this=_cut(time, 6, 1), expression=exp.Literal.string(":"))
        seconds = exp.case().when(has_seconds, _cut(time, 7, 2), copy=False).else_(exp.Literal.string("0"), copy=False)
        found |= {"hour": _cut(time, 1, 2), "minute": _cut(time, 4, 2), "second": seconds}
    if dates.zone:
        for way, sign in _WAYS.items():
            digits = _called("REPLACE", dialect.part(time, sign, 2), ":", "")
            found |= {f"{way}_hours": _or_nought(_cut(digits, 1, 2)), f"{way}_minutes": _or_nought(_cut(digits, 3, 2))}
    return found


def _or_nought(digits: exp.Expr) -> exp.Expr:
    is_empty = exp.EQ(this=digits, expression=exp.Literal.string(""))
    return exp.case().when(is_empty, exp.Literal.string("0"), copy=False).else_(digits.copy(), copy=False)


def _shift(axis: int) -> exp.Expr:
    """1 in January and February, else 0."""
    is_early = exp.LTE(this=_part(axis, "month"), expression=double(2.0))
    return exp.case().when(is_early, double(1.0), copy=False).else_(double(0.0), copy=False)


def _number(axis: int, dates: FileColumn) -> exp.Expr:
    year = exp.Paren(this=_part(axis, "year") - _part(axis, "shift"))
    month = exp.Paren(this=_part(axis, "month") + double(12.0) * _part(axis, "shift") - double(3.0))
    # Months from March on have 31, 30, 31, 30, 31 days, over again: 153 in five.
    before = _whole_times(exp.Paren(this=double(153.0) * month + double(2.0)), 5)
    leaps = _whole_times(year, 4) - _whole_times(year, 100) + _whole_times(year, 400)
    # 1970-01-01 is day 719,468 from the first of March of the year 0.
    days = exp.Paren(this=double(365.0) * year.copy() + leaps + before + _part(axis, "day") - double(719_469.0))
    if not dates.has_time:
        return days
    hours = exp.Paren(this=days * double(24.0) + _part(axis, "hour"))
    minutes = exp.Paren(this=hours * double(60.0) + _part(axis, "minute"))
    return minutes * double(60.0) + _part(axis, "second")


def _instant(axis: int) -> exp.Expr:
    """The second of UTC, where the text has an offset."""
    ahead, behind = (
        double(3600.0) * _part(axis, f"{way}_hours") + double(60.0) * _part(axis, f"{way}_minutes") for way in _WAYS
    )
    return _part(axis, "wall") - exp.Paren(this=ahead) + exp.Paren(this=behind)


def _by_clock_of_zone(axis: int, dates: FileColumn, dialect: Dialect) -> exp.Expr:
    """A time without an offset is one of the zone's clocks already."""
    has_offset = dialect.matches(_part(axis, "written"), f"^.*:[0-9.]+{_OFFSET_IN_USE}$")
    there = _on_clock_of_zone(axis, dates)
    return exp.case().when(has_offset, there, copy=False).else_(_part(axis, "wall"), copy=False)


def _on_clock_of_zone(axis: int, dates: FileColumn) -> exp.Expr:
    instant = _part(axis, "instant")
    return instant + _ahead(instant, offsets(dates.zone))


def _ahead(instant: exp.Expr, changes: Sequence[tuple[int, int]]) -> exp.Expr:
    """The offset at an instant, by halves: a few comparisons a row, however many changes there were."""
    if len(changes) == 1:
        return double(float(changes[0][1]))
    half = len(changes) // 2
    is_before = exp.LT(this=instant.copy(), expression=double(float(changes[half][0])))
    early, late = (_ahead(instant, part) for part in (changes[:half], changes[half:]))
    return exp.case().when(is_before, early, copy=False).else_(late, copy=False)


def _whole_times(value: exp.Expr, divisor: int) -> exp.Expr:
    return as_double(exp.Floor(this=value.copy() / double(float(divisor))))


def _cut(text: exp.Expr, start: int, length: int) -> exp.Expr:
    return _called("SUBSTR", text, start, length)


def _called(function: str, text: exp.Expr, *rest: str | int) -> exp.Expr:
    return exp.Anonymous(this=function, expressions=[text.copy(), *map(exp.convert, rest)])
