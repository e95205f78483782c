"""Forms of a codebook: pasted, or written to be copied."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from releases.display.error_messages import in_words
from releases.engine.domain.impossible import combinations_to_json
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.forms.fields import (
    LenientForm,
    TypedTextField,
    missing,
    read_json,
)
from releases.models import Dataset
from releases.schema.codebook_csv import (
    codebook_from_csv,
    is_csv_codebook,
    readings,
    with_known_types,
)
from releases.schema.descriptions import (
    Apart,
    Notes,
    apart,
    noted,
)
from releases.schema.metadata_codebooks import read_other
from releases.schema.standard_codebooks import from_standard, is_standard


class CodebookLinkForm(LenientForm):
    """In which format what is declared is written; in that of the schema where none is named."""

    format = TypedTextField()


class CodebookForm(forms.Form):
    """The codebook pasted, in the schema format, as CSV, or in a format that others write.

    Attributes:
        readings: how bins were read where their edges were not written, and what else was decided, in sentences, to be
            confirmed.
    """

    readings: list[str]

    codebook = forms.CharField(
        label="Codebook",
        widget=forms.Textarea(attrs={"class": "code", "rows": 16, "spellcheck": "false"}),
        error_messages=missing("Codebook: nothing was pasted."),
    )

    def clean_codebook(self) -> dict[str, Any]:
        text, self.readings = self.cleaned_data["codebook"], []
        try:
            if is_csv_codebook(text):
                read, self.readings = codebook_from_csv(text), readings(text)
            elif text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
                read = read_json(text, what="codebook", listed="columns")
            elif (other := read_other(text)) is not None:
                read = other
            else:
                raise ValidationError(
                    "The codebook is neither JSON, which begins with a brace, nor a table in CSV, whose first line "
                    "names its columns, such as name,type,values,outside. DDI (XML) and SmartNoise (YAML) are read too."
                )
            if is_standard(read):
                read, self.readings = from_standard(read)
        except InvalidInput as error:
            raise ValidationError(in_words(error)) from None
        return read


def schema_from_codebook(codebook: dict[str, Any]) -> tuple[Schema, bool, Apart]:
    """A pasted codebook as a schema, whether it says anything about protection, and what it says in words."""
    says_protection = "unit" in codebook or "neighbours" in codebook
    read = apart(codebook)
    return Schema.from_json(with_known_types(read.schema)), says_protection, read


def codebook_of(dataset: Dataset, universe: Universe | None, notes: Notes) -> str:
    """What is declared, or is to be, as a codebook, to copy, to change, or to keep; empty where nothing is."""
    if universe is None:
        return ""
    parts = ['"version": 1']
    if dataset.description:
        parts.append(f'"description": {json.dumps(dataset.description, ensure_ascii=False)}')
    if dataset.budget is not None:
        parts.append(f'"unit": {json.dumps(dataset.budget.unit, ensure_ascii=False)}')
        parts.append(f'"neighbours": {json.dumps(dataset.budget.neighbours)}')
    columns = [json.dumps(noted(each.to_json(), notes), ensure_ascii=False) for each in universe.attributes]
    parts.append('"columns": [\n    ' + ",\n    ".join(columns) + "\n  ]")
    if universe.impossible:
        parts.append(f'"impossible": {json.dumps(combinations_to_json(universe.impossible), ensure_ascii=False)}')
    return "{\n  " + ",\n  ".join(parts) + "\n}"
