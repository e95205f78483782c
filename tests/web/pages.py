"""Reading pages in tests: their words, and what a strict content security policy would refuse in them."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

from django.urls import reverse


def link(name: str, *things: object) -> str:
    """The address of a page of these things, or of what has these identifiers."""
    return reverse(name, args=[getattr(each, "pk", each) for each in things])


def body(response) -> str:
    """What was sent; of a page, whatever lines its templates are laid out in."""
    content = b"".join(response.streaming_content) if response.streaming else response.content
    text = content.decode()
    return _on_one_line(text) if response.get("Content-Type", "").startswith("text/html") else text


def _on_one_line(page: str) -> str:
    """A page without the line breaks that a browser does not show."""
    parts = re.split(r"(<(?:textarea|pre|script|style)\b.*?</(?:textarea|pre|script|style)>)", page, flags=re.DOTALL)
    parts[::2] = [_BESIDE_TAGS.sub("", re.sub(r"\s*\n\s*", "\n", part)).replace("\n", " ") for part in parts[::2]]
    return "".join(parts)


#: Breaks between tags, at the edges of an element, and before the end of a tag.
_BESIDE_TAGS = re.compile(
    r"(?<=>)\n(?=<)|\n(?=>|</(?:p|li|t[dh]|d[dt]|h\d|div|summary|option|label)>)"
    r"|(?:(?<=<p>)|(?<=<td>)|(?<=<li>)|(?<=<dd>)|(?<=<div>)|(?<=<summary>))\n"
)


def words(response) -> str:
    """The words of a page, as one line."""
    return as_words(body(response))


def as_words(page: str) -> str:
    """The same of what a page holds."""
    text = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    # A word with its meaning stands in its sentence like any other.
    text = re.sub(r'<button type="button" class="word"[^>]*>(.*?)</button>', r"\1", text)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


#: Elements without an end tag.
_EMPTY = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"))
#: What a browser does not show, or not as words.
_NOT_SHOWN = frozenset(("head", "script", "style", "template", "noscript", "svg", "math", "textarea"))


class _Visible(HTMLParser):
    """Collects the text that shows: not what is hidden, and of closed details and menus, the line that shows."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.text: list[str] = []

    def _is_shown(self, tag: str, given: dict[str, str | None]) -> bool:
        outer, shown = self.open[-1] if self.open else ("", True)
        if outer == "closed details":
            return tag == "summary" and all(each for _, each in self.open[:-1])
        classes = (given.get("class") or "").split()
        hidden = "hidden" in given or "popover" in given or {"hidden", "on-phones", "skip", "unanswered"} & set(classes)
        return shown and not hidden and tag not in _NOT_SHOWN and not (tag == "option" and "selected" not in given)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "br":
            self.text.append(" ")
        if tag in _EMPTY:
            return
        shown = self._is_shown(tag, given)
        is_closed = tag == "details" and "open" not in given
        self.open.append(("closed details" if is_closed else tag, shown and not is_closed))
        if tag not in ("a", "b", "em", "i", "span", "strong", "button", "code"):
            self.text.append("\n")

    def handle_endtag(self, tag):
        while self.open and self.open.pop()[0] not in (tag, f"closed {tag}"):
            pass
        if tag not in ("a", "b", "em", "i", "span", "strong", "button", "code"):
            self.text.append("\n")

    def handle_data(self, data):
        if not self.open or self.open[-1][1]:
            self.text.append(re.sub(r"\s+", " ", data))


def visible_text(response) -> str:
    """What shows of a page when it is opened, a line for each paragraph, cell or label."""
    parser = _Visible()
    parser.feed(body(response))
    lines = (re.sub(r" +", " ", line).strip() for line in "".join(parser.text).splitlines())
    return "\n".join(line for line in lines if line)


def visible_words(response) -> list[str]:
    """The words that a person reads when the page is opened. Numbers and signs alone are no words."""
    return [each for each in visible_text(response).split() if re.search(r"[^\W\d_]", each)]


def field_value(response, name: str) -> str | None:
    """What stands in an input or text area of the page; None where there is no such field."""
    page = body(response)
    area = re.search(rf'<textarea[^>]*\bname="{re.escape(name)}"[^>]*>(.*?)</textarea>', page, flags=re.DOTALL)
    if area:
        return html.unescape(area[1]).removeprefix("\n")
    found = re.search(rf'<input[^>]*\bname="{re.escape(name)}"[^>]*>', page)
    if found is None:
        return None
    value = re.search(r'\bvalue="([^"]*)"', found[0])
    return html.unescape(value[1]) if value else ""


def chosen(response, name: str) -> str:
    """What is chosen in a menu of the page."""
    menu = re.search(rf'<select[^>]*\bname="{name}".*?</select>', body(response), flags=re.DOTALL)
    return re.search(r'<option value="([^"]*)" selected', menu[0])[1]


class _Inline(HTMLParser):
    """Collects what would need 'unsafe-inline'."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag == "style" or "style" in given:
            self.found.append(f"<{tag}> with a style of its own: {given}")
        # A data block is not run, so the policy does not concern it.
        if tag == "script" and "src" not in given and given.get("type") != "application/json":
            self.found.append(f"<script> without a src: {given}")
        self.found += [f"<{tag} {name}>" for name in given if name.startswith(("on", "hx-on"))]
        self.found += [
            f"<{tag} {name}={value}>" for name, value in given.items() if value and value.startswith("javascript:")
        ]


def inline_code(response) -> list[str]:
    parser = _Inline()
    parser.feed(body(response))
    return parser.found


#: What differs between two requests, or two datasets, whatever is in their tables.
_CHANGING = [
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
    (r'name="csrfmiddlewaretoken" value="[^"]+"', "TOKEN"),
    (r"\b[0-9a-f]{64}\b", "HASH"),
    (r"\bVersion [0-9a-f]{16}\b", "HASH"),
    (r"<code>[0-9a-f]{12}</code>", "HASH"),
    (r"\d{4}-\d\d-\d\dT[\d:.+]+", "TIME"),
    (r"\d{1,2} [A-Z][a-z]+ \d{4}, \d\d:\d\d UTC", "TIME"),
]


def masked(text: str) -> str:
    for pattern, word in _CHANGING:
        text = re.sub(pattern, word, text)
    return text
