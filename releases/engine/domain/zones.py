"""Time zones: which offset from UTC holds when, by the IANA time zone database.

The database is that of the package `tzdata`, whatever the machine has, so that every engine counts by the same one. A
zone is read from 1900 to the end of 2099; before and after, the offset of the nearest instant in these years holds.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from releases.engine.errors import InvalidInput

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _END = (int((datetime(year, 1, 1, tzinfo=UTC) - _EPOCH).total_seconds()) for year in (1900, 2100))
_DAY = 86_400


@cache
def zone_names() -> tuple[str, ...]:
    """In the order of the alphabet."""
    return tuple(sorted(resources.files("tzdata").joinpath("zones").read_text().split()))


def check_zone(name: object) -> str:
    """A name that is known.

    Raises:
        InvalidInput: it is none.
    """
    if not isinstance(name, str) or name not in zone_names():
        raise InvalidInput("zone", name, "must be a time zone of the IANA database, such as Europe/Berlin")
    return name


@cache
def offsets(name: str) -> tuple[tuple[int, int], ...]:
    """From which second after 1970-01-01 UTC on a zone is how many seconds ahead of UTC; the first pair holds before it
    too. No two changes come within a day."""
    zone = _read(name)
    found = [(_FIRST, _ahead(zone, _FIRST))]
    for day in range(_FIRST, _END, _DAY):
        low, high = day, day + _DAY
        if (after := _ahead(zone, high)) != found[-1][1]:
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if _ahead(zone, middle) == after else (middle, high)
            found.append((high, after))
    return tuple(found)


def _read(name: str) -> ZoneInfo:
    with resources.files("tzdata.zoneinfo").joinpath(*name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def _ahead(zone: ZoneInfo, instant: int) -> int:
    ahead = (_EPOCH + timedelta(seconds=instant)).astimezone(zone).utcoffset()
    assert ahead is not None
    return int(ahead.total_seconds())
