"""The form for rows from tables that somebody else published."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.fields import WholeNumberField, missing

MAX_TABLES, MAX_ROWS = 20, 100_000


class _FilesInput(forms.FileInput):
    allow_multiple_selected = True


class _FilesField(forms.FileField):
    """Several files, each a file that Django takes."""

    widget = _FilesInput(attrs={"accept": ".csv,.tsv,.txt"})

    def clean(self, data: Any, initial: Any = None) -> list[UploadedFile[bytes]]:
        if not data:
            raise forms.ValidationError(self.error_messages["required"], code="required")
        if len(data) > MAX_TABLES:
            raise forms.ValidationError(f"Tables: {len(data)} files must be at most {MAX_TABLES}.")
        return [super(_FilesField, self).clean(each, initial) for each in data]


class PublishedTablesForm(forms.Form):
    tables = _FilesField(
        label="Tables",
        error_messages=missing("Tables: no file was chosen. Choose one or more files with counts.")
        | {"empty": "Tables: one of the files is empty. Choose files with counts."},
        help_text=f"Up to {MAX_TABLES} files.",
    )
    rows = WholeNumberField(
        label="Number of rows",
        required=False,
        min_value=1,
        max_value=MAX_ROWS,
        help_text=f"As many as the tables count, if left empty; at most {MAX_ROWS:,}.",
    )
    deviation = forms.FloatField(
        label="Noise on each count",
        required=False,
        min_value=0,
        max_value=1e15,
        help_text="Its standard deviation, as the publisher states it. Leave it empty where the counts are exact.",
    )

    @property
    def sent(self) -> list[UploadedFile[bytes]]:
        sent: list[UploadedFile[bytes]] = self.cleaned_data["tables"]
        return sent

    def refuse(self, error: InvalidInput) -> None:
        """Say what is wrong beside the field that it is about; of a file, beside the tables."""
        field = error.field if error.field in self.fields else "tables"
        self.add_error(field, in_words(error, place=str(self.fields[field].label) if field == error.field else ""))
