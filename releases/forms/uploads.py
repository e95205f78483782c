"""Forms that take a table in: a file that is sent, or a table of a database."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from django import forms

from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.engine.tables.facts import ENCODINGS, SEPARATORS, SUFFIXES, FileFacts
from releases.engine.tables.locales import countries
from releases.forms.fields import (
    LenientForm,
    TypedTextField,
    missing,
)


class UploadForm(forms.Form):
    title = forms.CharField(
        max_length=200,
        label="What the table is",
        help_text="For example: Health survey 1996. It names the dataset wherever it is listed.",
        error_messages=missing("Title: nothing was typed. Say what the table is."),
    )
    table = forms.FileField(
        label="Table",
        allow_empty_file=True,
        widget=forms.FileInput(attrs={"accept": ",".join(SUFFIXES)}),
        error_messages=missing("Table: no file was chosen. Choose a file with a table."),
    )
    locale = forms.ChoiceField(
        label="Where the file comes from",
        required=False,
        choices=lambda: [("", "not said"), *countries().items()],
        help_text="The country proposes the decimal sign, the thousands sign and how dates are written.",
    )
    separator = forms.CharField(
        label="Separator",
        required=False,
        max_length=9,
        help_text="One sign, tab or space; else by the row with names.",
    )
    decimal = forms.ChoiceField(
        label="Decimal sign",
        required=False,
        choices=[("", "that of the country, else a point"), (".", "point: 1.59"), (",", "comma: 1,59")],
        help_text="Of numbers that are text, as in CSV. A file's other numbers are read as they are.",
    )
    thousands = forms.ChoiceField(
        label="Thousands sign",
        required=False,
        choices=[
            ("", "that of the country, else none"),
            (".", "point"),
            (",", "comma"),
            ("'", "apostrophe"),
            ("space", "space"),
        ],
    )
    encoding = forms.ChoiceField(
        label="Encoding", required=False, choices=[("", "as marked, else UTF-8"), *ENCODINGS.items()]
    )
    quote = forms.ChoiceField(label="Quotation mark", required=False, choices=[("", '"'), ("'", "'"), ("none", "none")])
    has_header = forms.ChoiceField(
        label="First line",
        required=False,
        choices=[("", "names the variables"), ("no", "has values: number the variables")],
    )
    number_names = forms.ChoiceField(
        label="Names that are numbers",
        required=False,
        choices=[("", "are refused: they may be values"), ("yes", "are names, such as 2023")],
    )
    sheet = forms.CharField(label="Sheet", required=False, max_length=500, help_text="Name or number, of a workbook.")
    header_row = forms.IntegerField(
        label="Row with names",
        required=False,
        min_value=1,
        max_value=1000,
        help_text="Rows above it are skipped; else 1.",
    )
    member = forms.CharField(label="File in the archive", required=False, max_length=500)

    FACTS = tuple(each.name for each in dataclasses.fields(FileFacts))

    @property
    def facts_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.FACTS if name != "locale"]

    @property
    def shows_facts(self) -> bool:
        """Whether the form comes back, or a link proposes some: its errors can be about how the file is written."""
        return self.is_bound or any(self.initial.get(name) for name in self.FACTS)

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        said = {name: given[name] for name in self.FACTS if given.get(name)}
        try:
            given["facts"] = FileFacts.from_json(said)
        except InvalidInput as error:
            self.refuse(error)
        return given

    def refuse(self, error: InvalidInput) -> None:
        """Say what is wrong beside the field that it is about."""
        field = error.field if error.field in self.FACTS else "title"
        self.add_error(field, in_words(error, place=str(self.fields[field].label) if field != "title" else ""))


class DatabaseTableForm(forms.Form):
    """Which table of a database becomes a dataset."""

    table = forms.ChoiceField(
        label="Table",
        error_messages=missing("Table: nothing was chosen. Choose one of the tables that the database lists."),
    )
    title = UploadForm.base_fields["title"]

    def __init__(self, *args: Any, tables: Sequence[str], **given: Any) -> None:
        super().__init__(*args, **given)
        choice = self.fields["table"]
        assert isinstance(choice, forms.ChoiceField)
        choice.choices = [("", "Choose a table"), *((each, each) for each in tables)]


class UploadLinkForm(LenientForm):
    """What a link to the upload proposes: a title, and how the file is written."""

    title = TypedTextField()

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.fields |= {name: TypedTextField() for name in UploadForm.FACTS}


def link_again(title: str, facts: FileFacts) -> str:
    """What follows the address of the upload to propose the same title and facts again."""
    plain, names = FileFacts().to_json(), {sign: name for name, sign in SEPARATORS.items()}
    said = {name: value for name, value in facts.to_json().items() if value != plain[name]}
    said |= {"separator": names.get(facts.separator, facts.separator)} if facts.separator else {}
    said |= {} if facts.has_header else {"has_header": "no"}
    said |= {"number_names": "yes"} if facts.number_names else {}
    return urlencode({"title": title, **said})
