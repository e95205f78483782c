"""Sums of products of numeric columns."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.workload.kinds.second_moments import SecondMoments
from releases.questions.base import NumbersByGroup, Want, register
from releases.questions.headline import Measure, ReleasedAnswer


@register
class SecondMomentsKind(NumbersByGroup[SecondMoments]):
    statistic = SecondMoments
    title = "Second moments"
    want = Want.AVERAGES
    says = (
        "The sum of every product of two of the columns, squares included, over all {many} or in each group: what a "
        "regression or a correlation needs."
    )
    phrases = {"second_moments": "second moments"}

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return "units of the products"

    def found(self, statistic: SecondMoments, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        article = "The" if statistic.weight is None else "The weighted"
        one, other = statistic.pairs()[part]
        return Measure(noun=f"{article} sum of {one} × {other}").of_groups(answers)

    def of_no_rows(self, column: Attribute | None) -> tuple[float, float] | None:
        return 0.0, 0.0
