"""How many people of a population rows count for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.counted import Counted
from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.weighted_count import WeightedCount
from releases.questions.base import (
    CAP_FIELD,
    GROUPS_FIELD,
    StatisticKind,
    Want,
    grouping_and_weight,
    register,
    units_of,
    weight_field,
    weight_typed,
)
from releases.questions.headline import Measure, ReleasedAnswer


@register
class WeightedCountKind(StatisticKind[WeightedCount]):
    statistic = WeightedCount
    title = "Weighted count"
    want = Want.AVERAGES
    says = (
        "How many people of the population the {many} of a survey represent, in all or in each group: the sum of their "
        "weights. By group, the share of each group is shown as well."
    )
    phrases = {"weighted_count": "weighted count"}
    fields = (
        weight_field("Weights", missing="Weights: nothing was chosen; must be a numeric column"),
        GROUPS_FIELD,
        CAP_FIELD,
    )
    lacks = "No column is declared as numbers, so there are no weights."
    has_columns_unit = True
    is_total = True
    has_shares = True

    def bound_unit(self, columns: Sequence[Attribute], *, mechanism: str, counted: Counted) -> str:
        return units_of(columns)

    def typed(self, statistic: WeightedCount, universe: Universe) -> dict[str, Any]:
        return {"by": ", ".join(statistic.by), **weight_typed(statistic)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name: grouping_and_weight(given)}

    def found(self, statistic: WeightedCount, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return Measure(noun="The weighted count", unit=unit).of_groups(answers)
