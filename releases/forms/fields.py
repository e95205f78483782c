"""Forms: what people type, read and checked; what is wrong is said beside the field, and nothing typed is lost."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.http import QueryDict

from releases.display.error_messages import in_words
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import LARGEST_EPSILON, exact
from releases.engine.errors import InvalidInput

#: More columns than this are declared by pasting a codebook; a form of thousands of fields helps nobody.
MAX_FORM_COLUMNS = 120
#: More columns than this are typed by name rather than ticked.
MAX_TICKED_COLUMNS = 120
#: More columns than this are typed rather than chosen from a list.
MAX_LISTED_COLUMNS = 500

POLICY_TITLES = {Policy.PURE: "Pure", Policy.APPROX: "Approximate", Policy.ZCDP: "Concentrated"}


def missing(what: str) -> dict[str, str]:
    """The message for a field left empty, in place of one that does not say which."""
    return {"required": what}


class WholeNumberField(forms.IntegerField):
    """A whole number in digits alone. Django's own takes 1.000, which is a thousand in some countries, for 1."""

    re_decimal = re.compile(r"(?!)")


class DecimalTextField(forms.CharField):
    """A number with a point, kept as it was typed: only that can be read exactly, and quoted where it is wrong."""

    widget = forms.TextInput(attrs={"inputmode": "decimal"})

    def __init__(self, *, max_length: int = 40, **kwargs: Any) -> None:
        super().__init__(max_length=max_length, **kwargs)


class TypedTextField(forms.CharField):
    """Text exactly as it was typed, without null characters, which no database takes."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, strip=False, **kwargs)

    def to_python(self, value: Any) -> str:
        return str(super().to_python(value)).replace("\0", "")


class TextsField(forms.Field):
    """Every text that was sent under one name, in order."""

    widget = forms.MultipleHiddenInput

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)


class _IsSent(forms.CheckboxInput):
    def value_from_datadict(self, data: Mapping[str, Any], files: Any, name: str) -> bool:
        return name in data


class SentField(forms.BooleanField):
    """Whether the field came at all, whatever it holds: of a button, whether it was pressed."""

    widget = _IsSent

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)


class LenientForm(forms.Form):
    """What an address says, or a button. A field that cannot be read is as good as one that was not sent."""

    @property
    def given(self) -> dict[str, Any]:
        """By field what was sent; None of a field that cannot be read."""
        self.is_valid()
        return {**dict.fromkeys(self.fields), **self.cleaned_data}


class GroupField(forms.ModelChoiceField):  # type: ignore[type-arg]
    """The group that works on something with the person who made it; whoever makes the form says which to choose of."""

    def __init__(self) -> None:
        super().__init__(
            queryset=Group.objects.none(),
            label="Group that works on it with you",
            required=False,
            empty_label="nobody else",
            error_messages={"invalid_choice": "Group: must be one that you belong to."},
        )


def sent_with(posted: QueryDict, *names: str) -> QueryDict | None:
    """What one of a page's forms is bound to: all that was sent, if a field of that form is in it."""
    return posted if any(name in posted for name in names) else None


def typed_or_first(given: QueryDict, first: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a plan in an address says; before anything is typed, what a person would try first."""
    return given if "epsilon" in given else first


def in_one_line(form: forms.BaseForm) -> str:
    """Everything that is wrong with a form, for a page that shows none of its fields."""
    return " ".join(str(each) for errors in form.errors.values() for each in errors)


def whole_number(what: str, *, least: int, most: int, example: int) -> dict[str, str]:
    """The messages of a field for a whole number."""
    return {
        "required": f"{what}: nothing was typed; must be a whole number, such as {example:,}.",
        "invalid": f"{what}: must be a whole number, such as {example}, in digits alone.",
        "min_value": f"{what}: must be at least {least:,}.",
        "max_value": f"{what}: must be at most {most:,}.",
    }


def check_amounts(form: forms.Form, policy: Policy) -> None:
    """Whether what was typed is a budget under the policy; said of the text as it was typed."""
    given = form.cleaned_data
    for name in ("epsilon", "delta"):
        text = given.get(name, "")
        if not text:
            continue
        try:
            amount = exact(text, field=name)
            if name == "epsilon" and not 0 < amount <= LARGEST_EPSILON:
                raise InvalidInput(name, text, f"must be above 0 and at most {LARGEST_EPSILON}")
            if name == "delta" and policy is Policy.PURE and amount != 0:
                raise InvalidInput(name, text, "must be 0 with the pure rule")
            if name == "delta" and policy is not Policy.PURE and not 0 < amount < 1:
                raise InvalidInput(name, text, "must be above 0 and below 1; only the pure rule goes without it")
        except InvalidInput as error:
            form.add_error(name, in_words(error))


def read_json(text: str, *, what: str, listed: str = "") -> dict[str, Any]:
    """What a person pasted, as an object; what is wrong with it is said with its line and column.

    Args:
        listed: the field of the object that a bare list is taken for.
    """
    try:
        read = json.loads(text, object_pairs_hook=_each_once)
    except json.JSONDecodeError as error:
        raise ValidationError(
            f"The {what} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from None
    except RecursionError:
        raise ValidationError(f"The {what} is not usable: it is nested too deeply.") from None
    except _NamedTwice as error:
        raise ValidationError(f"The {what} names the field {error.args[0]!r} twice in one object.") from None
    except ValueError:
        raise ValidationError(f"The {what} holds a number of too many digits.") from None
    if listed and isinstance(read, list):
        return {"version": 1, listed: read}
    if not isinstance(read, dict):
        raise ValidationError(f"The {what} must be a JSON object, in braces.")
    return read


class _NamedTwice(ValueError):
    """JSON lets a field be named twice and keeps the last; a person who did that meant something else."""


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for name, value in pairs:
        if name in read:
            raise _NamedTwice(name)
        read[name] = value
    return read
