"""Words of the field with their meaning, where they first stand on a page.

Each is a button that opens its meaning in place: a popover of HTML, without a script, by pointer, touch and keyboard.
The meanings stand at the end of the page, where a browser that knows no popovers shows them as a list.
"""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString, mark_safe

from releases.display.glossary import ANY_FORM, BY_FIELD, BY_FORM, Word

register = template.Library()


def _used(context: Any) -> dict[str, Word] | None:
    """The words explained on the page so far; None of a part of a page, which has no end to put meanings at."""
    request = context.get("request")
    if request is None or request.headers.get("HX-Request"):
        return None
    if not hasattr(request, "words_used"):
        request.words_used = {}
    used: dict[str, Word] = request.words_used
    return used


def _button(word: Word, text: str) -> SafeString:
    return format_html(
        '<button type="button" class="word" popovertarget="word-{0}" aria-describedby="says-{0}">{1}</button>',
        word.anchor,
        text,
    )


@register.simple_tag(takes_context=True)
def word(context: Any, form: str, text: str = "") -> str:
    """A word, in whatever form; where it stands first on the page, with its meaning."""
    meant, used = BY_FORM[form.lower()], _used(context)
    if used is None or meant.anchor in used:
        return conditional_escape(text or form)
    used[meant.anchor] = meant
    return _button(meant, text or form)


@register.simple_tag(takes_context=True)
def glossed(context: Any, text: object) -> str:
    """A text of the site's own with every word that it uses first on the page."""
    parts, end, plain = [], 0, str(text)
    for found in ANY_FORM.finditer(plain):
        parts += [conditional_escape(plain[end : found.start()]), word(context, found[0])]
        end = found.end()
    parts.append(conditional_escape(plain[end:]))
    return mark_safe("".join(parts))  # noqa: S308  each part was escaped


@register.simple_tag(takes_context=True)
def what_is(context: Any, field: str) -> str:
    """Beside a field: what its name means."""
    used = _used(context)
    if used is None or field not in BY_FIELD:
        return ""
    meant = BY_FORM[BY_FIELD[field]]
    used[meant.anchor] = meant
    return _button(meant, f"What {'are' if meant.name.endswith('s') else 'is'} {meant.name}?")


@register.inclusion_tag("shared/_meanings.html", takes_context=True)
def meanings(context: Any) -> dict[str, Any]:
    """What the words of the page mean."""
    return {"words": list((_used(context) or {}).values())}
