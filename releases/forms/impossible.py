"""The form of a combination of bins that cannot occur: its columns first, then bins of each."""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from releases.display.error_messages import in_words
from releases.engine.domain.impossible import MAX_JOINED, Combination, read_combinations
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.forms.fields import LenientForm, TextsField, TypedTextField

#: Bins of a column that can be ticked; the others can be named in the codebook.
MAX_OFFERED_BINS = 200
#: Columns that can be chosen on the page; more, up to what is allowed, in the codebook.
MAX_CHOSEN = 3


class ChosenColumnsForm(LenientForm):
    """Which columns a combination is of, as the address or the form says it."""

    column = TextsField()

    def names(self, universe: Universe) -> list[str]:
        """Those that are declared, each once."""
        return [name for name in dict.fromkeys(self.given["column"]) if name in universe.names][:MAX_JOINED]


class ImpossibleButtonForm(LenientForm):
    """Which combination is to be removed, as JSON."""

    remove = TypedTextField()


class CombinationForm(forms.Form):
    """Bins of each of some columns."""

    def __init__(self, data: Any = None, *, universe: Universe, names: list[str]) -> None:
        super().__init__(data)
        self.universe, self.names = universe, names
        for place, name in enumerate(names):
            labels = universe[name].labels
            more = len(labels) - MAX_OFFERED_BINS
            self.fields[f"bins_{place}"] = forms.MultipleChoiceField(
                label=name,
                choices=[(label, label) for label in labels[:MAX_OFFERED_BINS]],
                widget=forms.CheckboxSelectMultiple,
                error_messages={
                    "required": f"{name}: no bin is ticked. Tick at least one.",
                    "invalid_choice": f"{name}: “%(value)s” is not one of its bins. Tick at least one that is.",
                },
                help_text=f"{more:,} more can be named in the codebook." if more > 0 else "",
            )

    def clean(self) -> dict[str, Any]:
        if self.errors:
            return self.cleaned_data
        said = {name: self.cleaned_data[f"bins_{place}"] for place, name in enumerate(self.names)}
        try:
            self.cleaned_data["combination"] = read_combinations([said], self.universe.attributes)[0]
        except InvalidInput as error:
            field = error.field.removeprefix("impossible[0]").removeprefix(".") or "combination"
            raise ValidationError(in_words(InvalidInput(field, error.value, error.rule))) from None
        return self.cleaned_data

    @property
    def combination(self) -> Combination:
        read: Combination = self.cleaned_data["combination"]
        return read
