"""The mean of numeric columns, over all rows or by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from releases.engine.workload.statistic import OfNumbers, register


@register
@dataclass(frozen=True, kw_only=True)
class Mean(OfNumbers):
    """The mean of each numeric column, of all rows or in each group: a sum over a count, both paid for."""

    kind: ClassVar[str] = "mean"
    place: ClassVar[int] = 2
