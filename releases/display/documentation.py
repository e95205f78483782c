"""The documentation as pages of the site: Markdown from `docs/`, read once a process.

Only what people of the site read is shown. A page that is generated from the code is left out, and a link to it leads
to the site's own page of the same content, where there is one.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings
from django.templatetags.static import static
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.anchors import anchors_plugin

#: What is shown, by heading: folders of `docs/`, or single pages.
CHAPTERS = {
    "First steps": ("tutorial",),
    "For your role": ("guide",),
    "How to": ("how-to",),
    "Why results can be trusted": ("explanation",),
    "Files and formats": ("reference/files", "reference/formats", "reference/counting"),
    "Running the site": ("operations",),
}
#: Pages of the site in place of pages that are generated from the code.
_OF_SITE = {"reference/glossary": "words", "reference/api": "programs", "reference/mechanisms": "ways"}
_PICTURES = "pictures/"
_GENERATED = "<!-- generated:"
_ELSEWHERE = re.compile(r"[a-z]+:|#|/")


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentationPage:
    """One page.

    Attributes:
        name: its path below `docs/`, without `.md`.
        title: its heading.
        html: what follows the heading.
    """

    name: str
    title: str
    html: SafeString


@cache
def chapters() -> dict[str, list[DocumentationPage]]:
    """All pages by chapter, in the order in which they are listed."""
    return {chapter: [_page(name) for name in names] for chapter, names in _listed().items()}


@cache
def pages() -> dict[str, DocumentationPage]:
    return {page.name: page for each in chapters().values() for page in each}


@cache
def _listed() -> dict[str, list[str]]:
    """The names of all pages by chapter."""
    return {chapter: [name for one in listed for name in _names(one)] for chapter, listed in CHAPTERS.items()}


def _names(listed: str) -> list[str]:
    docs: Path = settings.DOCUMENTATION_DIR
    names = [listed]
    if (docs / listed).is_dir():
        _, _, after = (docs / listed / "index.md").read_text().partition("```{toctree}")
        names = [f"{listed}/{each}" for each in re.findall(r"^[\w-]+$", after.partition("```")[0], flags=re.MULTILINE)]
    return [each for each in names if _GENERATED not in (docs / f"{each}.md").read_text()]


def _page(name: str) -> DocumentationPage:
    text = (settings.DOCUMENTATION_DIR / f"{name}.md").read_text()
    heading, _, rest = text.partition("\n")
    tokens = _MARKDOWN.parse(rest)
    _lead_on(tokens, folder=posixpath.dirname(name))
    # Whoever uses the keyboard alone moves long lines sideways too.
    html = _MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}).replace("<pre>", '<pre tabindex="0">')
    return DocumentationPage(name=name, title=heading.removeprefix("# ").strip(), html=mark_safe(html))  # noqa: S308  our own text


def _lead_on(tokens: Sequence[Token], *, folder: str) -> None:
    """Make links and pictures those of the site. Where a link leads to no page of it, only its words are left."""
    open_links: list[bool] = []
    for token in tokens:
        if token.children:
            _lead_on(token.children, folder=folder)
        if token.type == "image":
            path = posixpath.normpath(posixpath.join(folder, str(token.attrs["src"])))
            token.attrs["src"] = static(f"documentation/{path.removeprefix(_PICTURES)}")
            token.attrs["loading"] = "lazy"
        elif token.type == "link_open":
            address = _address(str(token.attrs["href"]), folder=folder)
            token.attrs["href"] = address
            token.hidden = not address
            open_links.append(token.hidden)
        elif token.type == "link_close":
            token.hidden = open_links.pop()


def _address(link: str, *, folder: str) -> str:
    """Where a link leads on the site; empty where it leads nowhere there."""
    if _ELSEWHERE.match(link):
        return link
    path, mark, anchor = link.partition("#")
    name = posixpath.normpath(posixpath.join(folder, path)).removesuffix(".md")
    if name in _OF_SITE:
        return reverse(_OF_SITE[name])
    if posixpath.basename(name) == "index":
        return reverse("documentation")
    is_shown = any(name in names for names in _listed().values())
    return reverse("documentation_page", args=[name]) + mark + anchor if is_shown else ""


def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False}).enable("table")
    made.use(anchors_plugin, min_level=2, max_level=4)
    # A wide table moves sideways by itself.
    made.add_render_rule("table_open", lambda *_: '<div class="table-wrap" tabindex="0"><table>\n')
    made.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return made


_MARKDOWN = _markdown()
