"""Sums of products of numeric columns."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.workload.kinds.second_moments import SecondMoments
from releases.questions.base import NumericColumns, Want, register


@register
class SecondMomentsKind(NumericColumns[SecondMoments]):
    statistic = SecondMoments
    title = "Second moments"
    want = Want.AVERAGES
    says = "The sum of every product of two of the columns, squares included: what a regression or a correlation needs."
    phrases = {"second_moments": "second moments"}

    def bound_unit(self, columns: Sequence[str], *, mechanism: str) -> str:
        return "units of the products"
