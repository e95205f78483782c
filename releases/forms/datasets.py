"""Forms of a dataset as a whole: its title, and its end."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from releases.display.error_messages import in_words
from releases.engine.domain.attribute import CLAMP, Attribute
from releases.engine.domain.dates import Dates
from releases.engine.errors import InvalidInput
from releases.forms.fields import (
    LenientForm,
    missing,
)
from releases.schema.bin_edges import dates_from_text, dates_in_text


class DeleteForm(LenientForm):
    """The button that was pressed on the page that deletes."""

    EVERYTHING, ROWS = "everything", "rows"
    delete = forms.ChoiceField(choices=[(EVERYTHING, "everything"), (ROWS, "the rows")])


class RenameForm(forms.Form):
    title = forms.CharField(
        label="Title",
        max_length=200,
        help_text="What is published of it names it so, in the catalogue too.",
        error_messages=missing("Title: nothing was typed. Say what the table is."),
    )


class TakeOverLinkForm(LenientForm):
    """Of which other table a page says what can be taken from it."""

    source = forms.UUIDField()


class TakeOverForm(forms.Form):
    """What is taken from another table: which columns go together, which dates this table can have, and whether both
    are about the same people, for then one budget is for both."""

    SAME, OTHER = "same", "other"
    pairs = forms.MultipleChoiceField(
        label="Columns whose names are written in another way here",
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text="Untick those that are not the same column. They are then left as they are here.",
    )
    people = forms.ChoiceField(
        label="Are both tables about the same people?",
        widget=forms.RadioSelect,
        choices=[
            (SAME, "Yes, or partly: both tables share one budget, and this table has the other's protection"),
            (OTHER, "No: this table has the same protection, and a budget of its own"),
        ],
        error_messages=missing("People: nothing was chosen. Say whether both tables are about the same people."),
    )

    def __init__(
        self, *args: Any, is_asked: bool, pairs: Mapping[str, str], dated: Iterable[Attribute], **given: Any
    ) -> None:
        """
        Args:
            pairs: by the name here, what the page says of a column that is proposed as the same one.
            dated: columns to take that have a fixed range of dates.
        """
        super().__init__(*args, **given)
        if not is_asked:
            del self.fields["people"]
        chosen = self.fields["pairs"]
        assert isinstance(chosen, forms.MultipleChoiceField)
        chosen.choices, chosen.initial = list(pairs.items()), list(pairs)
        if not pairs:
            del self.fields["pairs"]
        self._dated = {_field_of_dates(each.name): each for each in dated if each.dates is not None}
        for name, each in self._dated.items():
            self.fields[name] = _dates_field(each)

    @property
    def of_dates(self) -> list[forms.BoundField]:
        """The fields of ranges."""
        return [self[name] for name in self._dated]

    def clean(self) -> dict[str, Any]:
        for name, attribute in self._dated.items():
            if name in self.cleaned_data:
                try:
                    self.cleaned_data[name] = _dates_typed(attribute, self.cleaned_data[name])
                except InvalidInput as error:
                    self.add_error(name, f"{attribute.name}: {in_words(error)}")
        return self.cleaned_data

    @property
    def dates(self) -> dict[str, Dates]:
        """By column the range that was typed."""
        return {each.name: self.cleaned_data[name] for name, each in self._dated.items()}

    @property
    def chosen(self) -> list[str]:
        """The columns here that were said to be the same ones."""
        return list(self.cleaned_data.get("pairs", []))

    @property
    def is_same_people(self) -> bool | None:
        """None where it is not asked."""
        people = self.cleaned_data.get("people")
        return None if people is None else people == self.SAME


def _field_of_dates(column: str) -> str:
    """Names of columns can have any sign, names of fields should not."""
    return f"dates-{hashlib.sha256(column.encode()).hexdigest()[:12]}"


def _dates_field(attribute: Attribute) -> forms.CharField:
    assert attribute.dates is not None
    first, last = attribute.dates.first, attribute.dates.last
    outside = "Dates outside it are counted in the first bin or in the last."
    if attribute.outside != CLAMP:
        outside = f"A {attribute.counted.one} with a date outside it is left out."
    return forms.CharField(
        label=f"Dates of {attribute.name}",
        initial=dates_in_text(attribute.dates),
        help_text=f"A fixed range, {first} to {last}. Change it if the dates of this table are others. {outside}",
        error_messages=missing(f"{attribute.name}: nothing was typed. Say which dates the column can have."),
    )


def _dates_typed(attribute: Attribute, typed: str) -> Dates:
    assert attribute.dates is not None
    written = attribute.dates.written
    read = dates_from_text(typed, written=written) | {"format": written}
    if attribute.dates.zone:
        read["zone"] = attribute.dates.zone
    return Dates.from_json(read, has_time=attribute.dates.has_time)
