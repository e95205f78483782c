"""Forms of a dataset as a whole: its title, and its end."""

from __future__ import annotations

from typing import Any

from django import forms

from releases.forms.fields import (
    LenientForm,
    missing,
)


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
    """Whether two tables are about the same people: then one budget is for both."""

    SAME, OTHER = "same", "other"
    people = forms.ChoiceField(
        label="Are both tables about the same people?",
        widget=forms.RadioSelect,
        choices=[
            (SAME, "Yes, or partly: both tables share one budget, and this table has the other's protection"),
            (OTHER, "No: this table has the same protection, and a budget of its own"),
        ],
        error_messages=missing("People: nothing was chosen. Say whether both tables are about the same people."),
    )

    def __init__(self, *args: Any, is_asked: bool, **given: Any) -> None:
        super().__init__(*args, **given)
        if not is_asked:
            del self.fields["people"]

    @property
    def is_same_people(self) -> bool | None:
        """None where it is not asked."""
        people = self.cleaned_data.get("people")
        return None if people is None else people == self.SAME
