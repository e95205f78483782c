"""The form that takes the map of a column: which column, and a file with the shapes of its regions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.fields import LenientForm, TypedTextField, missing, read_json
from releases.schema.boundaries import MAX_POINTS


class RemoveBoundariesForm(LenientForm):
    """Of which column the map is to be removed."""

    remove = TypedTextField()


class BoundariesForm(forms.Form):
    column = forms.ChoiceField(label="Column", error_messages=missing("Column: nothing was chosen."))
    boundaries = forms.FileField(
        label="Boundary file",
        allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ".geojson,.json,application/geo+json"}),
        help_text=f"GeoJSON in longitude and latitude, at most 1 MB and {MAX_POINTS:,} points. One "
        "of its properties must name the categories of the column.",
        error_messages=missing("Boundary file: no file was chosen. Choose a GeoJSON file."),
    )

    def __init__(self, *args: Any, columns: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices: Any = self.fields["column"]
        choices.choices = [("", "–"), *((each, each) for each in columns)]

    def clean_boundaries(self) -> dict[str, Any]:
        file = self.cleaned_data["boundaries"]
        try:
            text = file.read().decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ValidationError(f"Boundary file: {file.name} is not text in UTF-8.") from None
        return read_json(text, what="boundary file")

    def refuse(self, error: InvalidInput) -> None:
        """Say what is wrong beside the field that it is about; of the file with the place in it."""
        if error.field == "column":
            self.add_error("column", in_words(error, place="Column"))
        else:
            self.add_error("boundaries", in_words(error, place=f"Boundary file, {error.field}"))
