"""The form that asks for a statistic: the fields of its kind, read by the rules of the workload format."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from django import forms

from releases.display.error_messages import in_words
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.parsing import read_statistic
from releases.engine.workload.queries import read_count
from releases.engine.workload.statistic import Statistic
from releases.forms.fields import MAX_FORM_COLUMNS, MAX_LISTED_COLUMNS, DecimalTextField, missing, read_json
from releases.questions.base import Field, Input, StatisticKind, calling


class StatisticForm(forms.Form):
    """One statistic other than counts: what a person chooses.

    Attributes:
        kind: of statistic.
        statistic: what the fields say, once they are valid.
    """

    statistic: Statistic | None = None

    def __init__(self, kind: StatisticKind[Any], *args: Any, universe: Universe, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.kind = kind
        self.universe = universe
        for field in kind.fields:
            called = replace(field, label=calling(field.label, universe), help=calling(field.help, universe))
            self.fields[field.name] = _form_field(called, universe)

    @property
    def title(self) -> str:
        return self.kind.title

    @property
    def says(self) -> str:
        return calling(self.kind.says, self.universe)

    @property
    def lacks(self) -> str:
        """Why nothing of the kind can be asked of these columns; empty where it can."""
        first = self.kind.fields[0]
        return "" if first.input is Input.COUNTS or first.columns.names(self.universe) else self.kind.lacks

    def typed_of(self, statistic: Statistic) -> dict[str, Any]:
        """A statistic as the fields that ask for it."""
        return self.kind.typed(statistic, self.universe)

    def clean_columns(self) -> list[str]:
        """Ticked names, or typed ones."""
        chosen = self.cleaned_data["columns"]
        if isinstance(chosen, str):
            return [name.strip() for name in re.split(r"[\n,]", chosen) if name.strip()]
        return list(chosen)

    def clean_counts(self) -> list[Any]:
        """Counts are put together one at a time and carried along as JSON."""
        return [read_json(text, what="count") for text in self.cleaned_data["counts"]]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if self.errors:
            return given
        ((word, value),) = self.kind.query(given).items()
        try:
            self.statistic = read_statistic(word, value, self.universe)
        except InvalidInput as error:
            named = error.field.split(".")[-1]
            label = str(self.fields[named].label) if named in self.fields else ""
            place = named if named in self.fields else self.kind.fields[0].name
            self.add_error(place, in_words(error, place=label))
        return given

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


def _form_field(field: Field, universe: Universe) -> forms.Field:
    if field.input is Input.COLUMNS:
        return _columns_field(field, universe)
    if field.input is Input.COLUMN:
        return _column_field(field, universe)
    if field.input is Input.COUNTS:
        return forms.Field(label=field.label, required=False, widget=forms.MultipleHiddenInput)
    shared: dict[str, Any] = {
        "label": field.label,
        "help_text": field.help,
        "required": bool(field.missing),
        "initial": field.initial or None,
        "error_messages": missing(field.missing) if field.missing else None,
    }
    if field.input is Input.DECIMAL:
        return DecimalTextField(**shared)
    if field.input is Input.WHOLE:
        return forms.CharField(max_length=20, widget=forms.TextInput(attrs={"inputmode": "numeric"}), **shared)
    return forms.CharField(max_length=200, **shared)


def _columns_field(field: Field, universe: Universe) -> forms.Field:
    """Several columns: ticked, or typed where there are very many."""
    offered = field.columns.names(universe)
    messages = missing(field.missing)
    if len(offered) > MAX_FORM_COLUMNS:
        return forms.CharField(
            label=field.label,
            help_text=f"One a line, or between commas. {field.help}".strip(),
            widget=forms.Textarea(attrs={"rows": 3}),
            error_messages=messages,
        )
    return forms.MultipleChoiceField(
        label=field.label,
        help_text=field.help,
        choices=[(name, name) for name in offered],
        widget=forms.CheckboxSelectMultiple,
        error_messages={
            **messages,
            "invalid_choice": "columns: '%(value)s' must be a column of the fitting kind",
        },
    )


def _column_field(field: Field, universe: Universe) -> forms.Field:
    """One column: chosen, or typed where there are very many; none where it may be left empty."""
    offered = field.columns.names(universe)
    messages = missing(field.missing)
    shared: dict[str, Any] = {"label": field.label, "help_text": field.help, "required": bool(field.missing)}
    if len(offered) > MAX_LISTED_COLUMNS:
        return forms.CharField(error_messages=messages, **shared)
    return forms.ChoiceField(
        choices=[("", "choose a column" if field.missing else "no column"), *((name, name) for name in offered)],
        **shared,
        error_messages={
            **messages,
            "invalid_choice": "column: '%(value)s' must be a column of the fitting kind",
        },
    )
