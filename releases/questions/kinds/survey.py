"""Counts of randomised answers."""

from __future__ import annotations

from collections.abc import Sequence

from releases.engine.workload.kinds.survey import SurveyStatistic
from releases.questions.base import AnswerShape, Columns, OneColumn, column_field, register
from releases.questions.headline import ReleasedAnswer, most_of


@register
class SurveyKind(OneColumn[SurveyStatistic]):
    statistic = SurveyStatistic
    title = "Survey by randomised response"
    says = (
        "How many {many} have each value of a column, where every single answer is randomised before it is counted: "
        "the way to ask when not even this site is to be trusted with the answers."
    )
    phrases = {"survey": "survey"}
    fields = (column_field(Columns.ALL),)
    counts_rows = True
    is_about_bins = True

    def shape(self, statistic: SurveyStatistic, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.DISTRIBUTION

    def found(self, statistic: SurveyStatistic, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return most_of(answers, f"The most frequent value of {statistic.attributes[0]}")
