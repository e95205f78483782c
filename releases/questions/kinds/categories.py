"""Values of a categorical column that are not declared."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.workload.kinds.categories import Categories
from releases.questions.base import AnswerShape, Columns, OneColumn, column_field, register
from releases.questions.headline import MOST_NAMED, ReleasedAnswer


@register
class CategoriesKind(OneColumn[Categories]):
    statistic = Categories
    title = "Values that nobody declared"
    says = (
        "Which values of a column, besides its declared categories, many {many} have. How many have each is not said, "
        "and what few people have is not named."
    )
    phrases = {"categories": "values that are not declared"}
    fields = (column_field(Columns.LISTED),)
    lacks = "No column is declared with categories."

    def shape(self, statistic: Categories, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.VALUES

    def found(self, statistic: Categories, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        if not answers:
            return f"No value of {statistic.attributes[0]} was found besides the declared ones"
        listed = ", ".join(f"“{each.chosen}”" for each in answers[:MOST_NAMED])
        more = f" and {len(answers) - MOST_NAMED:,} more" if len(answers) > MOST_NAMED else ""
        return f"Besides the declared values, {statistic.attributes[0]} has {listed}{more}"
