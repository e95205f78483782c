"""What pages of every room show alike: links that know where the reader is, and chips of states."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.forms import BoundField
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import mark_safe

register = template.Library()

#: Of states, the class of the chip and what it says; any other is as it is called.
_CHIPS = {"published": ("chip ok", "✓ finished")}
_CHIPS |= {each: ("chip bad", f"✕ {each}") for each in ("failed", "withdrawn", "refused")}
_CHIPS |= {
    each: ("chip wait", f"◔ {each}")
    for each in ("queued", "running", "closing", "waiting", "reading", "awaiting review")
}


@register.simple_tag
def state_chip(state: object) -> str:
    """The state of a release or an upload."""
    return format_html('<span class="{}">{}</span>', *_CHIPS.get(str(state), ("chip", f"○ {state}")))


@register.simple_tag
def moment(when: datetime) -> str:
    """What `shared/_moment.html` shows, for the middle of a sentence: behind a file there is white space."""
    return _without_end("shared/_moment.html", when)


@register.simple_tag
def day(when: datetime) -> str:
    """What `shared/_day.html` shows, for the middle of a sentence."""
    return _without_end("shared/_day.html", when)


def _without_end(name: str, when: datetime) -> str:
    return mark_safe(render_to_string(name, {"when": when}).rstrip())  # noqa: S308  a template has made it


@register.simple_tag(takes_context=True)
def site_link(context: Any, name: str, title: str, *beginnings: str) -> str:
    """A link that says so where it leads to the page itself or, with beginnings of addresses, to its room."""
    address, request = reverse(name), context.get("request")
    path = request.path if request is not None else ""
    is_here = path.startswith(beginnings) if beginnings else path == address
    here = format_html(' aria-current="{}"', "page") if is_here else ""
    return format_html('<a href="{}"{}>{}</a>', address, here, title)


@register.filter
def hidden_again(field: BoundField) -> str:
    """A field that also shows elsewhere on the page, hidden and without the identifier that the other has."""
    return field.as_hidden(attrs={"id": False})
