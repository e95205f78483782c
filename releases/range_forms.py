"""The fields from which a column's range is learned: public bounds, the share to keep inside, and epsilon."""

from __future__ import annotations

from typing import Any

from django import forms

from releases.engine.errors import InvalidInput
from releases.engine.privacy import exact, privacy_budget
from releases.engine.universe import MOST_DECIMALS, Attribute, AttributeKind, number
from releases.forms import missing, whole_number


class LearnRangeForm(forms.Form):
    """What a person says before the data are asked. All of it is public."""

    column = forms.CharField(widget=forms.HiddenInput)
    lowest = forms.CharField(
        label="Certainly nothing is below",
        max_length=60,
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        error_messages=missing("lowest: nothing was typed; must be a number, such as 0"),
    )
    highest = forms.CharField(
        label="Certainly nothing is above",
        max_length=60,
        help_text="From common sense, never from the rows. Ten times too wide costs little.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        error_messages=missing("highest: nothing was typed; must be a number, such as 10000000"),
    )
    decimals = forms.IntegerField(
        label="Digits after the point",
        min_value=0,
        max_value=MOST_DECIMALS,
        help_text="How exactly the ends are told. Round amounts need none.",
        error_messages=whole_number("decimals", least=0, most=MOST_DECIMALS, example=2),
    )
    inside = forms.CharField(
        label="Percent of rows inside",
        max_length=20,
        help_text="98 leaves one row in a hundred below and one above.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        error_messages=missing("inside: nothing was typed; must be a percentage, such as 98"),
    )
    epsilon = forms.CharField(
        label="Epsilon",
        max_length=40,
        help_text="The privacy that it may spend: half for each end.",
        widget=forms.TextInput(attrs={"inputmode": "decimal"}),
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 0.5"),
    )

    def __init__(self, *args: Any, attribute: Attribute, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if attribute.kind is AttributeKind.INTEGER:
            del self.fields["decimals"]

    def clean_lowest(self) -> Any:
        return self._read("lowest", number)

    def clean_highest(self) -> Any:
        return self._read("highest", number)

    def clean_inside(self) -> Any:
        inside = self._read("inside", exact) / 100
        if not 0 < inside < 1:
            self.add_error(
                "inside", f"inside: {self.cleaned_data['inside']!r} must be above 0 and below 100, in percent"
            )
        return inside

    def clean_epsilon(self) -> str:
        try:
            privacy_budget(epsilon=self.cleaned_data["epsilon"], delta="0")
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from None
        return str(self.cleaned_data["epsilon"])

    def _read(self, name: str, read: Any) -> Any:
        try:
            return read(self.cleaned_data[name].strip(), field=name)
        except InvalidInput as error:
            raise forms.ValidationError(str(error)) from None

    @property
    def wish(self) -> dict[str, Any]:
        """What was typed, for the services."""
        return {"decimals": 0, **self.cleaned_data}

    def refuse(self, error: InvalidInput) -> None:
        """Say an error of the engine beside the field that it is about."""
        field = {"edges": "highest"}.get(error.field, error.field)
        self.add_error(field if field in self.fields else "highest", str(error))
