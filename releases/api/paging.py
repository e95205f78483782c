"""Lists in parts: the newest, and older ones by the time of the last."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, TypeVar

from django.db.models import Model, QuerySet
from django.utils.timezone import is_naive, make_aware

from releases.engine.errors import InvalidInput

#: Of a list in one answer; older ones are asked for by the time of the last.
MAX_LISTED = 100

Row = TypeVar("Row", bound=Model)


def newest(found: QuerySet[Row, Any], *, by: str, before: datetime | None) -> list[Row]:
    """The newest of a list, or of those before a time.

    Args:
        by: the column with the time.
        before: without a zone, a time of this site's.

    Raises:
        InvalidInput: it is no time of this calendar in UTC.
    """
    if before is not None:
        found = found.filter(**{f"{by}__lt": _in_utc(before)})
    return list(found.order_by(f"-{by}", "-pk")[:MAX_LISTED])


def _in_utc(before: datetime) -> datetime:
    try:
        return (make_aware(before) if is_naive(before) else before).astimezone(UTC)
    except OverflowError:
        # The first and the last day of the calendar, in a zone where it is another already.
        raise InvalidInput("before", before.isoformat(), "must be a time between the years 1 and 9999 in UTC") from None
