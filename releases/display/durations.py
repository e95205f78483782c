"""Times as pages say them: how long something takes, and how long it still will."""

from __future__ import annotations

from math import ceil

#: Times that are said, in seconds; from an hour on, hours.
_LIMITS = (5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1200, 1800, 2700)
#: From this share on the time so far tells the time that is left.
SHARE_THAT_TELLS = 0.05
#: An estimate up to so many times what was said is no news.
_AS_SAID = 1.25


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


class Countdown:
    """How long something still takes, by the time so far, for the people who may watch a worker. It never counts up:
    where it takes longer than was said, nothing is said."""

    def __init__(self) -> None:
        self.least: float | None = None

    def left(self, so_far: float, share_done: float) -> float | None:
        """
        Args:
            so_far: seconds.
        """
        if share_done < SHARE_THAT_TELLS:
            return None
        estimate = so_far * (1 - share_done) / share_done
        is_longer = self.least is not None and estimate > _AS_SAID * self.least
        self.least = estimate if self.least is None else min(self.least, estimate)
        return None if is_longer else self.least
