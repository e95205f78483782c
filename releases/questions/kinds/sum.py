"""Sums of numeric columns."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.workload.kinds.sum import Sum
from releases.questions.base import NumbersByGroup, Want, register, units_of


@register
class SumKind(NumbersByGroup[Sum]):
    statistic = Sum
    title = "Sum"
    want = Want.AVERAGES
    says = (
        "The total of each column, over all {many} or in each group. A value outside the declared range counts as the "
        "declared rule says."
    )
    phrases = {"sum": "sum"}
    noun = "sum of"
    has_columns_unit = True
    is_total = True

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return units_of(columns)
