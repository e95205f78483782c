"""The fields of the questions that are no counts: one form for each kind of statistic, in plain words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, ClassVar

from django import forms

from releases.engine.domain.privacy import decimal_text
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_statistic
from releases.engine.workload.queries import Count, read_count
from releases.engine.workload.statistics import LargestCount, MostCommon, Quantile, Range, Statistic, Threshold, Votes
from releases.forms.fields import MOST_FORM_COLUMNS, MOST_LISTED_COLUMNS, DecimalTextField, missing, read_json
from releases.presentation.error_messages import in_words


class StatisticForm(forms.Form):
    """One statistic other than counts: what a person chooses, read by the rules of the workload format.

    Attributes:
        kind: in addresses and in the workload format.
        title: of the choice among kinds.
        says: what is answered, in a sentence or two.
        first: the field that a rule about the whole is said beside.
    """

    kind: ClassVar[str]
    title: ClassVar[str]
    says: ClassVar[str]
    first: ClassVar[str]
    statistic: Statistic | None = None

    def __init__(self, *args: Any, universe: Universe, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.universe = universe
        for name, field in self.choices_of().items():
            self.fields[name] = field
        self.order_fields([self.first])

    def choices_of(self) -> dict[str, forms.Field]:
        """The fields that offer the declared columns."""
        return {}

    def lacks(self) -> str:
        """Why nothing of the kind can be asked of these columns; empty where it can."""
        return ""

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        """A statistic as the fields that ask for it."""
        return {}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        """What the fields say, in the workload format."""
        raise NotImplementedError

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.errors:
            return given
        ((word, value),) = self.query(given).items()
        try:
            self.statistic = read_statistic(word, value, self.universe)
        except InvalidInput as error:
            named = error.field.split(".")[-1]
            label = str(self.fields[named].label) if named in self.fields else ""
            self.add_error(named if named in self.fields else self.first, in_words(error, place=label))
        return given


class _NumericColumns(StatisticForm):
    """A statistic of several numeric columns."""

    first = "columns"

    def choices_of(self) -> dict[str, forms.Field]:
        return {"columns": _columns_field(_numeric(self.universe), label="Of these columns")}

    def lacks(self) -> str:
        return "" if _numeric(self.universe) else "No column is declared as numbers, so there is nothing to add up."

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        return {"columns": list(statistic.attributes)}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        return {self.kind: _names_of(given["columns"])}


class SumForm(_NumericColumns):
    kind = "sum"
    title = "Sum"
    says = (
        "The total of each column over all rows. A value outside the declared range counts as the declared rule says."
    )


class MeanForm(_NumericColumns):
    kind = "mean"
    title = "Average"
    says = "The mean of each column: its sum over the number of rows, each paid for where it is private."


class SecondMomentsForm(_NumericColumns):
    kind = "second_moments"
    title = "Second moments"
    says = "The sum of every product of two of the columns, squares included: what a regression or a correlation needs."


class VotesForm(StatisticForm):
    kind = "votes"
    title = "Votes"
    says = (
        "How many rows have a category in each of several columns, where a row counts in so many of them at most. The "
        "fewer ballots a row has, the less noise."
    )
    first = "columns"
    category = forms.CharField(
        label="Category that is counted",
        max_length=200,
        help_text="A category that every column has, such as yes.",
        error_messages=missing("Category that is counted: nothing was typed; must be a category of every column"),
    )
    ballots = forms.CharField(
        label="Ballots a row has, at most",
        required=False,
        max_length=20,
        initial="1",
        help_text="A row with more counts in the first of its columns.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )

    def choices_of(self) -> dict[str, forms.Field]:
        return {"columns": _columns_field(_categorical(self.universe), label="Count in these columns")}

    def lacks(self) -> str:
        return (
            ""
            if _categorical(self.universe)
            else "No column is declared with categories, so there is nothing to count."
        )

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        assert isinstance(statistic, Votes)
        columns = list(statistic.attributes)
        return {"columns": columns, "category": statistic.category, "ballots": str(statistic.ballots)}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        names = _names_of(given["columns"])
        return {self.kind: {"columns": names, "category": given["category"], "ballots": whole(given["ballots"])}}


class MostCommonForm(StatisticForm):
    kind = "most_common"
    title = "Most common value"
    says = (
        "The value that most rows have, or the few that most rows have, in falling order. How many have it is not said."
    )
    first = "column"
    k = forms.CharField(
        label="How many of them",
        required=False,
        max_length=20,
        initial="1",
        help_text="1 for the most common alone.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )

    def choices_of(self) -> dict[str, forms.Field]:
        return {"column": _column_field(self.universe.names, label="Of this column")}

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        assert isinstance(statistic, MostCommon)
        return {"column": statistic.attributes[0], "k": str(statistic.k)}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"top": {"column": given["column"], "k": whole(given["k"])}}


class RankForm(StatisticForm):
    """Of statistics that rank the values of one numeric column."""

    first = "column"

    def choices_of(self) -> dict[str, forms.Field]:
        return {"column": _column_field(_numeric(self.universe), label="Of this column")}

    def lacks(self) -> str:
        return "" if _numeric(self.universe) else "No column is declared as numbers, so there is nothing to rank."


class QuantileForm(RankForm):
    kind = "quantile"
    title = "Median or quantile"
    says = "The value that a share of the rows have or are below."
    at = DecimalTextField(
        label="Share of the rows",
        required=False,
        initial="0.5",
        help_text="0.5 for the median, 0.9 for the value that nine in ten are at or below.",
    )

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        assert isinstance(statistic, Quantile)
        return {"column": statistic.attributes[0], "at": decimal_text(statistic.at)}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        return {self.kind: {"column": given["column"], "at": given["at"]}}


class RangeForm(RankForm):
    kind = "range"
    title = "Range that holds most rows"
    says = "Two values with a share of the rows from one to the other, and as many of the rest below as above."
    inside = DecimalTextField(
        label="Share inside",
        required=False,
        initial="0.98",
        help_text="0.98 leaves one row in a hundred below and one above.",
    )

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        assert isinstance(statistic, Range)
        return {"column": statistic.attributes[0], "inside": decimal_text(statistic.inside, places=12)}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        return {self.kind: {"column": given["column"], "inside": given["inside"]}}


class CategoriesForm(StatisticForm):
    kind = "categories"
    title = "Values that nobody declared"
    says = (
        "Which values of a column, beside its declared categories, many rows have. How many have each is not said, and "
        "what few people have is not named."
    )
    first = "column"

    def choices_of(self) -> dict[str, forms.Field]:
        return {"column": _column_field(_categorical(self.universe), label="Of this column")}

    def lacks(self) -> str:
        return "" if _categorical(self.universe) else "No column is declared with categories."

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        return {"column": statistic.attributes[0]}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        return {self.kind: given["column"]}


class SurveyForm(StatisticForm):
    kind = "survey"
    title = "Survey by randomised response"
    says = (
        "How many rows have each value of a column, where every single answer is randomised before it is counted: the "
        "way to ask when not even this site is to be trusted with the answers."
    )
    first = "column"

    def choices_of(self) -> dict[str, forms.Field]:
        return {"column": _column_field(self.universe.names, label="Of this column")}

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        return {"column": statistic.attributes[0]}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        return {self.kind: given["column"]}


class _Counts(StatisticForm):
    """A statistic of several counts, which are put together one at a time and carried along as JSON."""

    first = "counts"
    counts = forms.Field(label="The counts", required=False, widget=forms.MultipleHiddenInput)

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        assert isinstance(statistic, (LargestCount, Threshold))
        counts = [Count(attributes=names, bins=bins) for names, bins in statistic.predicates]
        return {
            "counts": [json.dumps(count.to_json(self.universe)["count"], ensure_ascii=False) for count in counts],
            **self._others_of(statistic),
        }

    def _others_of(self, statistic: LargestCount | Threshold) -> dict[str, Any]:
        return {}

    def clean_counts(self) -> list[Any]:
        return [read_json(text, what="count") for text in self.cleaned_data["counts"]]

    @property
    def listed(self) -> list[dict[str, str]]:
        """The counts so far, in words; one that cannot be read is shown as it was sent."""
        listed = []
        for text in self["counts"].value() or []:
            try:
                title = read_count(json.loads(text), self.universe).title(self.universe)
            except (ValueError, RecursionError):
                title = str(text)
            listed.append({"json": text, "title": title})
        return listed


class LargestCountForm(_Counts):
    kind = "largest_count"
    title = "Largest of several counts"
    says = "Which of several counts is the largest. A row may be in any number of them; how large they are is not said."

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        return {self.kind: given["counts"]}


class ThresholdForm(_Counts):
    kind = "threshold"
    title = "Which count first passes a threshold"
    says = "Each count in turn: is it above the threshold? It stops at the first that is, or after a few."
    above = forms.CharField(
        label="Threshold, in rows",
        required=False,
        max_length=20,
        help_text="Take it from a purpose, not from the table.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )
    answers = forms.CharField(
        label="Stop after so many above",
        required=False,
        max_length=20,
        initial="1",
        help_text="Each costs a share of the budget; those below cost nothing more.",
        widget=forms.TextInput(attrs={"inputmode": "numeric"}),
    )

    def _others_of(self, statistic: LargestCount | Threshold) -> dict[str, Any]:
        assert isinstance(statistic, Threshold)
        return {"above": str(statistic.above), "answers": str(statistic.answers)}

    def query(self, given: dict[str, Any]) -> dict[str, Any]:
        stream = {"counts": given["counts"], "above": whole(given["above"]), "answers": whole(given["answers"])}
        return {self.kind: stream}


#: The kinds of question other than counts, in the order offered.
STATISTIC_FORMS: dict[str, type[StatisticForm]] = {
    each.kind: each
    for each in (
        SumForm,
        MeanForm,
        SecondMomentsForm,
        VotesForm,
        MostCommonForm,
        LargestCountForm,
        QuantileForm,
        RangeForm,
        CategoriesForm,
        ThresholdForm,
        SurveyForm,
    )
}


def whole(text: str) -> int | str:
    """Digits as a number; anything else as it was typed, for the engine to say what is wrong with it."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else text


def _columns_field(names: Iterable[str], *, label: str) -> forms.Field:
    """Several columns: ticked, or typed where there are very many."""
    offered = list(names)
    messages = missing("columns: nothing was chosen; must name declared columns")
    if len(offered) > MOST_FORM_COLUMNS:
        return forms.CharField(
            label=label,
            help_text="One a line, or between commas.",
            widget=forms.Textarea(attrs={"rows": 3}),
            error_messages=messages,
        )
    return forms.MultipleChoiceField(
        label=label,
        choices=[(name, name) for name in offered],
        widget=forms.CheckboxSelectMultiple,
        error_messages={
            **messages,
            "invalid_choice": "columns: '%(value)s' must be a column of the fitting kind",
        },
    )


def _column_field(names: Iterable[str], *, label: str) -> forms.Field:
    """One column: chosen, or typed where there are very many."""
    offered = list(names)
    messages = missing("column: nothing was chosen; must name a declared column")
    if len(offered) > MOST_LISTED_COLUMNS:
        return forms.CharField(label=label, error_messages=messages)
    return forms.ChoiceField(
        label=label,
        choices=[("", "choose a column"), *((name, name) for name in offered)],
        error_messages={
            **messages,
            "invalid_choice": "column: '%(value)s' must be a column of the fitting kind",
        },
    )


def _names_of(chosen: list[str] | str) -> list[str]:
    """Ticked names, or typed ones."""
    if isinstance(chosen, str):
        return [name.strip() for name in re.split(r"[\n,]", chosen) if name.strip()]
    return chosen


def _numeric(universe: Universe) -> list[str]:
    return [each.name for each in universe.attributes if each.is_numeric]


def _categorical(universe: Universe) -> list[str]:
    return [each.name for each in universe.attributes if not each.is_numeric]
