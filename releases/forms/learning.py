"""The fields from which a column's range or categories are learned: what is public of it, and what may be spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms

from releases.display.error_messages import in_words
from releases.engine.domain.attribute import MAX_DECIMALS, Attribute, number
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.privacy import exact, privacy_budget
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.category_discovery import LONGEST_VALUE
from releases.forms.fields import DecimalTextField, LenientForm, TypedTextField, WholeNumberField, missing, whole_number


class LearnLinkForm(LenientForm):
    """The column that something is to be learned of."""

    column = TypedTextField()


class LearnForm(forms.Form):
    """What a person says before the data are asked. All of it is public.

    Attributes:
        attribute: the column as it is declared; None where it is not.

    Class attributes:
        fallback: the field that a rule is said beside where it is about none of the others.
        beside: for other names that the engine has for a field, the field.
    """

    fallback: ClassVar[str]
    beside: ClassVar[Mapping[str, str]] = {}

    column = forms.CharField(widget=forms.HiddenInput)
    epsilon = DecimalTextField(
        label="Epsilon",
        help_text="The privacy that it may spend.",
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 0.5"),
    )

    def __init__(self, *args: Any, attribute: Attribute | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.attribute = attribute

    def clean_epsilon(self) -> str:
        self._read("epsilon", lambda typed, field: privacy_budget(epsilon=typed, delta="0"))
        return str(self.cleaned_data["epsilon"])

    def _read(self, name: str, read: Any) -> Any:
        try:
            return read(self.cleaned_data[name].strip(), field=name)
        except InvalidInput as error:
            raise forms.ValidationError(in_words(error)) from None

    @property
    def wish(self) -> dict[str, Any]:
        """What was typed, for the services."""
        return dict(self.cleaned_data)

    def refuse(self, error: InvalidInput) -> None:
        """Say an error of the engine beside the field that it is about."""
        field = self.beside.get(error.field, error.field)
        self.add_error(field if field in self.fields else self.fallback, in_words(error))


class LearnRangeForm(LearnForm):
    """Bounds, the share to keep inside, and epsilon."""

    fallback = "highest"
    beside: ClassVar[Mapping[str, str]] = {"edges": "highest"}
    field_order = ("column", "lowest", "highest", "decimals", "inside", "epsilon")

    lowest = DecimalTextField(
        label="Certainly nothing is below",
        max_length=60,
        error_messages=missing("lowest: nothing was typed; must be a number, such as 0"),
    )
    highest = DecimalTextField(
        label="Certainly nothing is above",
        max_length=60,
        help_text="From common sense, never from the rows. Ten times too wide costs little.",
        error_messages=missing("highest: nothing was typed; must be a number, such as 10000000"),
    )
    decimals = WholeNumberField(
        label="Digits after the point",
        min_value=0,
        max_value=MAX_DECIMALS,
        help_text="How exactly the ends are given. Round amounts need none.",
        error_messages=whole_number("decimals", least=0, most=MAX_DECIMALS, example=2),
    )
    inside = DecimalTextField(
        label="Percent of rows inside",
        max_length=20,
        help_text="98 leaves one row in a hundred below and one above.",
        error_messages=missing("inside: nothing was typed; must be a percentage, such as 98"),
    )

    def __init__(self, *args: Any, attribute: Attribute | None, **kwargs: Any) -> None:
        super().__init__(*args, attribute=attribute, **kwargs)
        self.fields["epsilon"].help_text = "The privacy that it may spend: half for each end."
        if attribute is not None and attribute.kind is AttributeKind.INTEGER:
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

    @property
    def wish(self) -> dict[str, Any]:
        return {"decimals": 0, **self.cleaned_data}


class ColumnCheckForm(forms.Form):
    """The guess from which a check of the columns is planned."""

    rows = WholeNumberField(
        label="About how many rows are there?",
        min_value=1,
        max_value=10**12,
        help_text="From common knowledge, never by counting them. A small table needs a larger epsilon.",
        error_messages=whole_number("rows", least=1, most=10**12, example=5000),
    )


class LearnCategoriesForm(LearnForm):
    """The word for everything else, epsilon and delta."""

    fallback = "other"
    beside: ClassVar[Mapping[str, str]] = {"categories": "other", "outside": "other"}
    field_order = ("column", "other", "epsilon", "delta")

    other = forms.CharField(
        label="Word for everything else",
        max_length=LONGEST_VALUE,
        help_text="A category that takes every value not declared, and a missing one.",
        error_messages={
            **missing("other: nothing was typed; must be a word, such as other"),
            "max_length": f"other: must have at most {LONGEST_VALUE} characters",
        },
    )
    delta = DecimalTextField(
        label="Delta",
        help_text="How likely it may be that what one unit alone has is named. Far below one in the number of rows.",
        error_messages=missing("delta: nothing was typed; must be a decimal number above 0, such as 0.000001"),
    )

    def clean_delta(self) -> str:
        self._read("delta", lambda typed, field: privacy_budget(epsilon="1", delta=typed))
        return str(self.cleaned_data["delta"])
