"""Forms of whom a table protects, and of whose people it is about."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import QuerySet

from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.forms.fields import (
    MAX_LISTED_COLUMNS,
    WholeNumberField,
    missing,
)
from releases.models import Dataset


class PopulationForm(forms.Form):
    """Whose people a table is about, where another table is about the same ones."""

    other = forms.ModelChoiceField(
        label="The other table",
        queryset=Dataset.objects.none(),
        empty_label="choose a table",
        error_messages={
            **missing("The other table: nothing was chosen."),
            "invalid_choice": "The other table: is not one of yours that has said whom it protects.",
        },
    )

    def __init__(self, *args: Any, others: QuerySet[Dataset], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["other"].queryset = others  # type: ignore[attr-defined]


class ProtectionForm(forms.Form):
    kind = forms.ChoiceField(
        label="Whom to protect",
        widget=forms.RadioSelect,
        choices=[
            ("row", "Each row: nobody is in more than one row"),
            ("person", "Each person, who may have several rows"),
        ],
        initial="row",
        error_messages=missing("Whom to protect: nothing was chosen."),
    )
    id_column = forms.ChoiceField(
        label="Column that tells people apart",
        required=False,
        help_text="It is used for counting and never released. Write each person's id in one way: 1 and 1.0, A and a, "
        "or é as one character and as e with an accent, are two people. Only plain spaces, tabs and line ends around "
        "an id do not matter; a no-break space does.",
    )
    max_rows = WholeNumberField(
        label="Rows counted of each person, at most",
        required=False,
        min_value=1,
        max_value=10_000,
        initial=1,
        help_text="Noise grows with this number; a person's rows beyond it do not count.",
        error_messages={
            "invalid": "Rows of each person: must be a whole number, such as 2, in digits alone.",
            "min_value": "Rows of each person: must be at least 1.",
            "max_value": "Rows of each person: must be at most 10,000.",
        },
    )
    neighbours = forms.ChoiceField(
        label="What is kept private",
        widget=forms.RadioSelect,
        choices=[
            (
                NeighbouringRelation.ADD_REMOVE,
                "Whether somebody is in the table at all. How many people there are is private too (add or remove)",
            ),
            (
                NeighbouringRelation.REPLACE,
                "What somebody's rows say. How many people there are is public (replace)",
            ),
        ],
        initial=NeighbouringRelation.ADD_REMOVE,
        error_messages=missing("What is kept private: nothing was chosen."),
    )

    def __init__(self, *args: Any, columns: list[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if len(columns) > MAX_LISTED_COLUMNS:
            described = self.fields["id_column"]
            self.fields["id_column"] = forms.CharField(
                label=described.label, required=False, help_text=described.help_text
            )
        else:
            listed = [("", "choose a column"), *((name, name) for name in columns)]
            self.fields["id_column"].choices = listed  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if given.get("kind") == "row":
            # Typed while each person was chosen, and out of sight since.
            for name in ("id_column", "max_rows"):
                self.errors.pop(name, None)
        if self.errors:
            return given
        if given["kind"] == "row":
            given["unit"] = PrivacyUnit()
        elif not given.get("id_column"):
            said = "Column: nothing was chosen. Name the column that tells people apart."
            self.add_error("id_column", forms.ValidationError(said, code="required"))
        else:
            given["unit"] = PrivacyUnit(
                kind="person", id_column=given["id_column"], max_rows=given.get("max_rows") or 1
            )
        return given
