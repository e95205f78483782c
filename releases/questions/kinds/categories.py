"""Values of a categorical column that are not declared."""

from __future__ import annotations

from releases.engine.workload.kinds.categories import Categories
from releases.questions.base import Columns, OneColumn, Shape, column_field, register


@register
class CategoriesKind(OneColumn[Categories]):
    statistic = Categories
    title = "Values that nobody declared"
    says = (
        "Which values of a column, besides its declared categories, many rows have. How many have each is not said, "
        "and what few people have is not named."
    )
    phrases = {"categories": "values that are not declared"}
    fields = (column_field(Columns.CATEGORICAL),)
    lacks = "No column is declared with categories."

    def shape(self, statistic: Categories, *, chosen: bool, answers: int) -> Shape:
        return Shape.VALUES
