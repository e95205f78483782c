"""The form for rows from tables that somebody else published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.core.files.uploadedfile import UploadedFile

from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.fields import WholeNumberField, missing
from releases.publication.published_rows import PublishedRows, lines_of, published_rows

#: Together, of a request; the command `manage.py published` takes more.
MAX_TABLES, MAX_CELLS, MAX_ROWS = 20, 300_000, 100_000


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

    def make(self) -> PublishedRows | None:
        """The rows, or nothing where the form now says what is wrong."""
        files: Sequence[UploadedFile[bytes]] = self.cleaned_data["tables"]
        try:
            lines = {str(each.name): lines_of(str(each.name), each.read()) for each in files}
            if len(lines) < len(files):
                raise InvalidInput("tables", ", ".join(str(each.name) for each in files), "must have different names")
            return published_rows(
                lines,
                universe=None,
                deviation=self.cleaned_data["deviation"] or 0.0,
                rows=self.cleaned_data["rows"],
                max_cells=MAX_CELLS,
                max_rows=MAX_ROWS,
            )
        except InvalidInput as error:
            field = error.field if error.field in self.fields else "tables"
            self.add_error(field, in_words(error, place=str(self.fields[field].label) if field == error.field else ""))
            return None
