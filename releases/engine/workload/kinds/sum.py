"""The sum of numeric columns, over all rows or by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from releases.engine.workload.statistic import OfNumbers, register


@register
@dataclass(frozen=True, kw_only=True)
class Sum(OfNumbers):
    """The sum of each numeric column, over all rows or in each group."""

    kind: ClassVar[str] = "sum"
    place: ClassVar[int] = 1
