"""Counts of randomised answers."""

from __future__ import annotations

from releases.engine.workload.kinds.survey import Survey
from releases.questions.base import Columns, OneColumn, Shape, column_field, register


@register
class SurveyKind(OneColumn[Survey]):
    statistic = Survey
    title = "Survey by randomised response"
    says = (
        "How many rows have each value of a column, where every single answer is randomised before it is counted: the "
        "way to ask when not even this site is to be trusted with the answers."
    )
    phrases = {"survey": "survey"}
    fields = (column_field(Columns.ALL),)
    counts_rows = True
    is_about_bins = True

    def shape(self, statistic: Survey, *, chosen: bool, answers: int) -> Shape:
        return Shape.DISTRIBUTION
