"""Variances of numeric columns."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.workload.kinds.variance import Variance
from releases.questions.base import NumbersByGroup, Want, declared_ends, register, units_of


@register
class VarianceKind(NumbersByGroup[Variance]):
    statistic = Variance
    title = "Variance"
    want = Want.AVERAGES
    says = (
        "How far values are from the mean, squared and averaged, in each column, of all {many} or in each group. Its "
        "square root is the standard deviation."
    )
    phrases = {"variance": "variance"}
    noun = "variance of"
    depends_on_rows = True

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return f"squared {units_of(columns)}"

    def least_bound(self, columns: Sequence[Attribute], *, mechanism: str) -> float:
        """As of means, in the last places squared."""
        return 0.5 * 100.0 ** -max(each.decimals for each in columns) * 1e-3

    def of_no_rows(self, column: Attribute | None) -> tuple[float, float] | None:
        """Values of a range of length R have a variance of at most (R / 2)²."""
        assert column is not None
        low, high = declared_ends(column)
        return 0.0, ((high - low) / 2) ** 2
