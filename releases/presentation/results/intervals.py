"""A released number with its interval, and what two of them say of the difference of the true values."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """A released number and where the truth lies."""

    estimate: float
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        # An end may have been cut off where no truth can be; then the other is the half width.
        return max(self.upper - self.estimate, self.estimate - self.lower)

    def less(self, other: Interval, *, is_whole: bool) -> tuple[float, float]:
        """Between which numbers the true value less another true value lies.

        Args:
            is_whole: whether both are whole numbers, which lie between whole ends then.
        """
        if is_whole:
            return ceil(self.lower) - floor(other.upper), floor(self.upper) - ceil(other.lower)
        return self.lower - other.upper, self.upper - other.lower
