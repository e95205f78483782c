"""The form in which a survey is put together."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.db.models import QuerySet

from releases.engine.domain.privacy import decimal_text
from releases.engine.mechanisms.survey_sampler import FEWEST_ANSWERS, MAX_ANSWERS, MAX_EPSILON, MIN_EPSILON
from releases.forms.fields import DecimalTextField, GroupField, LenientForm, TypedTextField, missing


class SurveyForm(forms.Form):
    """Texts only: what they must be is checked where they are stored, and said beside the field."""

    title = forms.CharField(
        max_length=200,
        label="Title",
        help_text="It heads the form and names the survey wherever it is listed. For example: Canteen, spring.",
        error_messages=missing("Title: nothing was typed. Say what the survey is."),
    )
    question = forms.CharField(
        max_length=500,
        label="Question",
        widget=forms.Textarea(attrs={"rows": 2}),
        error_messages=missing("Question: nothing was typed. Say what is asked."),
    )
    answers = forms.CharField(
        label="Answers, one a line",
        help_text=f"{FEWEST_ANSWERS} to {MAX_ANSWERS}. Everybody must find theirs: add “none of these” where needed. "
        "The fewer there are, the more accurate the result.",
        widget=forms.Textarea(attrs={"rows": 5}),
        error_messages=missing("Answers: nothing was typed. Write each one on a line of its own."),
    )
    epsilon = DecimalTextField(
        label="Epsilon of each respondent",
        help_text=f"From {decimal_text(MIN_EPSILON)} to {decimal_text(MAX_EPSILON)}. The smaller, the less one "
        "report says about the person who sent it.",
        error_messages=missing("Epsilon: nothing was typed; must be a decimal number, such as 1."),
    )
    group = GroupField()

    def __init__(self, *args: Any, groups: QuerySet[Group], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["group"]
        assert isinstance(field, GroupField)
        field.queryset = groups

    @property
    def given(self) -> dict[str, Any]:
        """As the services take it. Only of a valid form."""
        return {**self.cleaned_data, "answers": self.cleaned_data["answers"].splitlines()}


class ReportForm(LenientForm):
    """What a respondent's browser sends; whether it is a report is checked where it is counted."""

    report = TypedTextField()
