"""Fields as Django writes them, without a template for each: the page of 60 columns has a thousand of them."""

from __future__ import annotations

from html import escape
from typing import Any

from django import forms
from django.forms.utils import ErrorList
from django.utils.safestring import SafeString


class QuickInput(forms.TextInput):
    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        text = self.format_value(value)
        written = {} if text is None else {"value": text}
        rest = _attributes({"type": self.input_type, "name": name, **written, **self.build_attrs(self.attrs, attrs)})
        return SafeString(f"<input{rest}>")


class QuickHidden(QuickInput):
    input_type = "hidden"


class QuickTextarea(forms.Textarea):
    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        rest = _attributes({"name": name, **self.build_attrs(self.attrs, attrs)})
        # A browser takes away the first line break.
        return SafeString(f"<textarea{rest}>\n{escape(self.format_value(value) or '')}</textarea>")


class QuickSelect(forms.Select):
    """A menu of plain choices, without groups."""

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        chosen = self.format_value(value)[:1]
        options = "".join(
            f'<option value="{escape(each)}"{" selected" if each in chosen else ""}>{escape(title)}</option>'
            for each, title in ((str(each), str(title)) for each, title in self.choices)
        )
        rest = _attributes({"name": name, **self.build_attrs(self.attrs, attrs)})
        return SafeString(f"<select{rest}>{options}</select>")


class QuickErrorList(ErrorList):
    """What is wrong with a field; most often nothing."""

    def render(self, *args: Any, **given: Any) -> SafeString:
        return super().render(*args, **given) if self else SafeString("")

    __str__ = render
    __html__ = render


def _attributes(given: dict[str, Any]) -> str:
    """Those of an element: one that is true has no value, and one that is false is left out."""
    return "".join(
        f" {name}" if value is True else f' {name}="{escape(str(value))}"'
        for name, value in given.items()
        if value is not False and value is not None
    )
