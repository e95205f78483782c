"""Dates: how a table writes them, and the bins that they fall into.

The calendar is the proleptic Gregorian one of ISO 8601, years 1 to 9999. A time of day is the one that is written; only
where a time zone is declared, one with an offset from UTC is read as what the clocks of that zone showed then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from functools import cached_property
from itertools import pairwise
from typing import Any

from releases.engine.domain.zones import check_zone
from releases.engine.errors import InvalidInput

#: How dates can be written; a time of day may follow.
DATE_FORMATS = ("YYYY-MM-DD", "DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "YYYY/MM/DD", "YYYYMMDD")
#: More bins than this in one column are a slip of the pen.
MAX_DATE_BINS = 4096
#: The bin for values that are missing, and for text that writes no date of its column.
NO_DATE = "no date"
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
SECONDS_OF_DAY = 86_400
#: Days are counted from here, as most databases do.
_EPOCH = date(1970, 1, 1).toordinal()
_PAST_THE_END = date.max.toordinal() + 1


class By(StrEnum):
    """What days are put together in a bin. WEEKDAY and HOUR come round again: their bins are in no order of time."""

    YEAR = "year"
    QUARTER = "quarter"
    MONTH = "month"
    WEEK = "week"
    DAY = "day"
    WEEKDAY = "weekday"
    HOUR = "hour"
    EDGES = "edges"


@dataclass(frozen=True, kw_only=True)
class Dates:
    """The declared dates of a column.

    Attributes:
        written: one of `DATE_FORMATS`.
        first, last: the declared range, whole days, both included.
        by: what a bin holds. Weeks are those of ISO 8601, from Monday; hours are of the day.
        has_time: each value has a time of day.
        starts: the first days of bins BY EDGES; empty otherwise. The first of them is `first`.
        zone: by whose clocks times with an offset are read; empty where they are read as they are written.
    """

    written: str
    first: date
    last: date
    by: By
    has_time: bool = False
    starts: tuple[date, ...] = ()
    zone: str = ""

    def __post_init__(self) -> None:
        if self.written not in DATE_FORMATS:
            raise InvalidInput("format", self.written, f"must be one of {', '.join(DATE_FORMATS)}")
        check_zone_of_dates(self.zone, written=self.written, has_time=self.has_time)
        if self.by is By.EDGES:
            is_rising = all(before < after for before, after in pairwise(self.starts))
            if self.starts[:1] != (self.first,) or not is_rising or self.last < self.starts[-1]:
                edges = ", ".join(map(str, (*self.starts, self.last)))
                raise InvalidInput("edges", edges, "must rise: each date after the one before")
        elif self.starts:
            raise InvalidInput("edges", len(self.starts), "cannot be given with bins by another unit")
        if self.last < self.first:
            raise InvalidInput("last", str(self.last), f"must not be before the first date, {self.first}")
        if self.by is By.HOUR and not self.has_time:
            raise InvalidInput("by", self.by.value, "is for dates with a time of day; declare the type datetime")
        if self.by is By.WEEKDAY and (self.last - self.first).days < 6:
            raise InvalidInput("last", str(self.last), "must be six days or more after the first, to meet each weekday")
        if self.size > MAX_DATE_BINS:
            raise InvalidInput("by", self.by.value, f"must give at most {MAX_DATE_BINS:,} bins; group by more days")

    @property
    def is_ordered(self) -> bool:
        """Whether one bin comes before the next in time."""
        return self.by not in (By.WEEKDAY, By.HOUR)

    @property
    def size(self) -> int:
        """How many bins there are."""
        return len(self.days) - 1 if self.is_ordered else len(self.labels)

    def is_like(self, other: Dates) -> bool:
        """Whether the two differ in their range alone: in the bins by edges too, which are part of it."""
        return self.by is other.by and replace(self, first=other.first, last=other.last, starts=other.starts) == other

    @property
    def unit(self) -> int:
        """What a day comes to: 1, or seconds where there is a time of day."""
        return SECONDS_OF_DAY if self.has_time else 1

    @property
    def lowest(self) -> int:
        """The declared range as numbers, from `lowest` to below `above`: days, or seconds, from 1970-01-01."""
        return self.unit * (self.first.toordinal() - _EPOCH)

    @property
    def above(self) -> int:
        return self.unit * (self.last.toordinal() + 1 - _EPOCH)

    @cached_property
    def edges(self) -> tuple[int, ...]:
        """Of bins in order of time the lower edges, and the upper one of the last, which it does not hold; as `lowest`
        has it."""
        return tuple(self.unit * day for day in self.days)

    @cached_property
    def days(self) -> tuple[int, ...]:
        """The same as days from 1970-01-01."""
        end = self.last.toordinal() + 1
        return tuple(day - _EPOCH for day in (*self._starts(end), end))

    def _starts(self, end: int) -> Iterator[int]:
        """Up to one bin more than there may be."""
        if self.by is By.EDGES:
            yield from (day.toordinal() for day in self.starts)
            return
        start = self.first.toordinal()
        for _ in range(MAX_DATE_BINS + 1):
            yield start
            start = _next_start(date.fromordinal(start), self.by)
            if start >= end:
                return

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """How each bin is written. One at an end of the range has the name of the whole year, month or week."""
        if self.by is By.WEEKDAY:
            return WEEKDAYS
        if self.by is By.HOUR:
            return tuple(f"{hour:02d}:00 to {hour:02d}:59" for hour in range(24))
        return tuple(_label(low, high - 1, self.by) for low, high in pairwise(self.days))

    def within(self, index: int) -> tuple[int, int, int]:
        """Which days a bin holds, from 1970-01-01: the first, how many, and from each to the next."""
        if self.by is By.HOUR:
            return self.days_of_range[0], self.days_of_range[1], 1
        if self.by is By.WEEKDAY:
            low, many = self.days_of_range
            start = low + (index - (low + 3)) % 7
            return start, (low + many - 1 - start) // 7 + 1, 7
        return self.days[index], self.days[index + 1] - self.days[index], 1

    @property
    def days_of_range(self) -> tuple[int, int]:
        """The first day, and how many."""
        return self.first.toordinal() - _EPOCH, (self.last - self.first).days + 1

    def write(self, day: int) -> str:
        """A day from 1970-01-01 as the table writes it."""
        read = date.fromordinal(day + _EPOCH)
        parts = {"YYYY": f"{read.year:04d}", "MM": f"{read.month:02d}", "DD": f"{read.day:02d}"}
        text = self.written
        for part, digits in parts.items():
            text = text.replace(part, digits)
        return text

    def read(self, text: str) -> int:
        """The day from 1970-01-01 of what `write` wrote."""
        year, month, day = (
            int(text[place : place + len(part)])
            for part in ("YYYY", "MM", "DD")
            for place in [self.written.index(part)]
        )
        return date(year, month, day).toordinal() - _EPOCH

    def value(self, number: int) -> date:
        """A day from 1970-01-01 as a date; where there is a time of day, a second as a date and time."""
        day, second = divmod(number, self.unit)
        found = date.fromordinal(day + _EPOCH)
        return datetime.combine(found, time(second // 3600, second // 60 % 60, second % 60)) if self.has_time else found

    def number(self, value: date) -> int:
        """What `value` was made of."""
        day = value.toordinal() - _EPOCH
        if not isinstance(value, datetime):
            return self.unit * day
        return self.unit * day + 3600 * value.hour + 60 * value.minute + value.second

    def point(self, number: int) -> str:
        """As in ISO 8601, with a space before the time of day."""
        return str(self.value(number))

    def day(self, day: int) -> str:
        """A day from 1970-01-01, as in ISO 8601."""
        return str(date.fromordinal(day + _EPOCH))

    def parse(self, text: str) -> date:
        """The date, or the date and time, that `point` wrote."""
        return datetime.fromisoformat(text) if self.has_time else date.fromisoformat(text)

    def span(self, number: int) -> str:
        """So many days, or seconds, in words."""
        days, seconds = divmod(number, self.unit)
        minutes, second = divmod(seconds, 60)
        parts = {"day": days, "hour": minutes // 60, "minute": minutes % 60, "second": second}
        said = [f"{many:,} {name}{'' if many == 1 else 's'}" for name, many in parts.items() if many]
        return " ".join(said) or f"0 {self.units}"

    @property
    def units(self) -> str:
        """What the numbers of `lowest` count."""
        return "seconds" if self.has_time else "days"

    def to_json(self) -> dict[str, Any]:
        described: dict[str, Any] = {"format": self.written} | ({"zone": self.zone} if self.zone else {})
        if self.by is By.EDGES:
            return {**described, "edges": [str(each) for each in (*self.starts, self.last)]}
        return {**described, "first": str(self.first), "last": str(self.last), "by": self.by.value}

    @staticmethod
    def from_json(value: dict[str, Any], *, has_time: bool) -> Dates:
        """From the fields `format`, perhaps `zone`, and `first`, `last` and `by` or `edges`.

        Raises:
            InvalidInput: naming the field, the value and the rule.
        """
        written = value.get("format", DATE_FORMATS[0])
        if not isinstance(written, str):
            raise InvalidInput("format", written, "must be text")
        zone = value.get("zone", "")
        if "edges" in value:
            for field in ("first", "last"):
                if field in value:
                    raise InvalidInput(field, value[field], "is said by the edges")
            if value.get("by", By.EDGES) != By.EDGES:
                raise InvalidInput("by", value["by"], "must be left out, or edges, where there are edges")
            listed = value["edges"]
            if not isinstance(listed, list) or not 2 <= len(listed) <= MAX_DATE_BINS + 1:
                raise InvalidInput("edges", listed, f"must be a list of 2 to {MAX_DATE_BINS + 1:,} dates")
            *starts, last = (read_date(each, field="edges") for each in listed)
            return Dates(
                written=written,
                first=starts[0],
                last=last,
                by=By.EDGES,
                has_time=has_time,
                starts=tuple(starts),
                zone=zone,
            )
        by = value.get("by")
        if by not in list(By) or by == By.EDGES:
            known = ", ".join(each for each in By if each is not By.EDGES)
            raise InvalidInput("by", by, f"must be one of {known}; or leave it out and list edges")
        first, last = (read_date(value.get(field), field=field) for field in ("first", "last"))
        return Dates(written=written, first=first, last=last, by=By(by), has_time=has_time, zone=zone)


def check_zone_of_dates(zone: object, *, written: str, has_time: bool) -> None:
    """
    Raises:
        InvalidInput: it is no time zone, or times with an offset cannot be written so.
    """
    if zone == "":
        return
    check_zone(zone)
    if not has_time:
        raise InvalidInput("zone", zone, "is for dates with a time of day; declare the type datetime")
    if written != DATE_FORMATS[0]:
        raise InvalidInput("zone", zone, f"is for dates written {DATE_FORMATS[0]}, behind which an offset may follow")


def read_date(value: object, *, field: str) -> date:
    """A day as a declaration writes it, in ISO 8601.

    Raises:
        InvalidInput: it is none.
    """
    text = value.strip() if isinstance(value, str) else ""
    try:
        if len(text) != 10 or not text.isascii():
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise InvalidInput(field, value, "must be a date such as 2026-12-31") from None


def _next_start(day: date, by: By) -> int:
    """The first day of the next bin, as an ordinal."""
    if by is By.DAY:
        return day.toordinal() + 1
    if by is By.WEEK:
        return day.toordinal() + 7 - day.weekday()
    months = {By.YEAR: 12, By.QUARTER: 3, By.MONTH: 1}[by]
    next_month = (day.month - 1) // months * months + months
    year = day.year + next_month // 12
    return _PAST_THE_END if year > date.max.year else date(year, next_month % 12 + 1, 1).toordinal()


def _label(low: int, high: int, by: By) -> str:
    start, end = (date(1970, 1, 1) + timedelta(days=day) for day in (low, high))
    if by is By.YEAR:
        return f"{start.year:04d}"
    if by is By.QUARTER:
        return f"{start.year:04d} Q{(start.month + 2) // 3}"
    if by is By.MONTH:
        return f"{start.year:04d}-{start.month:02d}"
    if by is By.WEEK:
        year, week, _ = start.isocalendar()
        return f"{year:04d}-W{week:02d}"
    return str(start) if by is By.DAY or start == end else f"{start} to {end}"
