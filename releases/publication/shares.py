"""Shares of a whole table, from its released counts alone.

Let x_i be the true counts of a table that holds each counted row once, and L_j <= x_j <= U_j for all j at once. Then
x_i / Σ x_j = x_i / (x_i + r), r = Σ_{j != i} x_j, which rises with x_i and falls with r. So it lies between
L_i / (L_i + Σ_{j != i} U_j) and U_i / (U_i + Σ_{j != i} L_j), with the confidence of the counts. Where the number of
rows n is public it lies between L_i / n and U_i / n too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

#: Of a larger table no shares are shown.
MOST_CELLS = 50_000


class ReleasedCount(Protocol):
    """A released count with its interval."""

    @property
    def estimate(self) -> float | None: ...
    @property
    def lower(self) -> float | None: ...
    @property
    def upper(self) -> float | None: ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """What shares are taken of.

    Attributes:
        estimate, lower, upper: the sums over all cells.
        rows: where that is public.
    """

    estimate: float
    lower: float
    upper: float
    rows: float | None = None

    @staticmethod
    def of(
        estimates: Sequence[float], lowers: Sequence[float], uppers: Sequence[float], *, rows: float | None
    ) -> Whole | None:
        """None where nothing was counted."""
        whole = Whole(estimate=sum(estimates), lower=sum(lowers), upper=sum(uppers), rows=rows)
        return whole if whole.estimate > 0 else None

    def interval(self, lower: float, upper: float) -> tuple[float, float]:
        """Between which shares that of a cell lies whose count is between two numbers."""
        most_of_others, least_of_others = self.upper - upper, self.lower - lower
        least = lower / (lower + most_of_others) if lower > 0 else 0.0
        most = upper / (upper + least_of_others) if upper > 0 else 0.0
        if self.rows:
            least, most = max(least, lower / self.rows), min(most, upper / self.rows)
        return least, most

    def text(self, answer: ReleasedCount) -> str:
        """Such as ``12.3% (11.8 to 12.9)``, the interval rounded outwards."""
        assert answer.estimate is not None
        assert answer.lower is not None
        assert answer.upper is not None
        least, most = self.interval(answer.lower, answer.upper)
        low, high = math.floor(least * 1000) / 10, math.ceil(most * 1000) / 10
        return f"{100 * answer.estimate / self.estimate:.1f}% ({low:.1f} to {high:.1f})"
