"""Means of numeric columns."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.workload.kinds.mean import Mean
from releases.questions.base import NumbersByGroup, Want, register, units_of


@register
class MeanKind(NumbersByGroup[Mean]):
    statistic = Mean
    title = "Average"
    want = Want.AVERAGES
    says = (
        "The mean of each column, of all {many} or in each group. The mean of a small group is drawn towards that of "
        "all {many} as far as noise hides it."
    )
    phrases = {"mean": "average"}
    noun = "average"
    is_within_range = True
    depends_on_rows = True
    has_columns_unit = True

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return units_of(columns)

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        """Means over very many rows are drawn down to a thousandth of half the last place that is kept."""
        return 0.5 * 10.0 ** -max(each.decimals for each in columns) * 1e-3
