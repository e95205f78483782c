"""Times as pages say them: how long something takes, and how long it still will."""

from __future__ import annotations

from datetime import datetime
from math import ceil

from django.utils import timezone

#: Times that are said, in seconds; from an hour on, hours.
_LIMITS = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1200, 1800, 2700)
#: From this share on the time so far tells the time that is left.
_SHARE_THAT_TELLS = 0.05


def duration(seconds: float) -> str:
    """A predicted time in the largest fitting unit."""
    if seconds < 1:
        return "under a second"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    return f"about {seconds / 60:.0f} min" if seconds < 5400 else f"about {seconds / 3600:,.0f} h"


def usual_limit(seconds: float) -> str:
    """A predicted time with as much again for whatever else a computer does, rounded up; what is said of it holds
    more often than a time to the second would."""
    wanted = 2 * seconds
    for limit in _LIMITS:
        if wanted <= limit:
            return f"usually less than {limit} s" if limit < 120 else f"usually less than {limit // 60} min"
    return f"usually less than {ceil(wanted / 3600):,} h"


def time_left(started_at: datetime | None, share_done: float) -> str:
    """An estimate from the time so far, for the people who may watch a worker; empty while it is too early."""
    if started_at is None or share_done < _SHARE_THAT_TELLS:
        return ""
    so_far = (timezone.now() - started_at).total_seconds()
    return duration(so_far * (1 - share_done) / share_done)
