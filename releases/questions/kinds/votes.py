"""Rows with a category in each of several columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from releases.engine.domain.universe import Universe
from releases.engine.workload.kinds.votes import Votes
from releases.questions.base import AnswerShape, Columns, Field, Input, StatisticKind, columns_field, register, whole
from releases.questions.headline import ReleasedAnswer, most_of


@register
class VotesKind(StatisticKind[Votes]):
    statistic = Votes
    title = "Votes"
    says = (
        "How many {many} have a category in each of several columns, where a {one} counts in so many of them at most. "
        "The fewer ballots a {one} has, the less noise."
    )
    phrases = {"votes": "votes"}
    fields = (
        columns_field(Columns.CATEGORICAL, label="Count in these columns"),
        Field(
            name="category",
            label="Category that is counted",
            input=Input.TEXT,
            help="A category that every column has, such as yes.",
            missing="Category that is counted: nothing was typed; must be a category of every column",
        ),
        Field(
            name="ballots",
            label="Ballots a {one} has, at most",
            input=Input.WHOLE,
            help="A {one} with more counts in the first of its columns.",
            initial="1",
        ),
    )
    lacks = "No column is declared with categories, so there is nothing to count."
    counts_rows = True

    def typed(self, statistic: Votes, universe: Universe) -> dict[str, Any]:
        columns = list(statistic.attributes)
        return {"columns": columns, "category": statistic.category, "ballots": str(statistic.ballots)}

    def query(self, given: Mapping[str, Any]) -> dict[str, Any]:
        votes = {"columns": given["columns"], "category": given["category"], "ballots": whole(given["ballots"])}
        return {self.name: votes}

    def shape(self, statistic: Votes, *, chosen: bool, answers: int) -> AnswerShape:
        return AnswerShape.DISTRIBUTION

    def found(self, statistic: Votes, part: int, answers: Sequence[ReleasedAnswer], *, unit: str) -> str:
        return most_of(answers, f"The column with most {answers[0].counted.many} of “{statistic.category}”")
