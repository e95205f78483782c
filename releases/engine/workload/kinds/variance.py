"""The variance of numeric columns, over all rows or by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from releases.engine.workload.statistic import OfNumbers, register


@register
@dataclass(frozen=True, kw_only=True)
class Variance(OfNumbers):
    """The variance of each numeric column, of all rows or in each group: the mean squared distance from the mean, over
    the number of rows n and not n - 1; of no rows it is 0."""

    kind: ClassVar[str] = "variance"
    place: ClassVar[int] = 3
