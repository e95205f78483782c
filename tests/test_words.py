"""The words of pages and messages are those that `docs/STYLE-OF-PAGES.md` allows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NO_TEXT = re.compile(r"\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\}|<!--.*?-->|<[^>]*>", re.DOTALL)


def words_not_used() -> list[str]:
    table = (ROOT / "docs/STYLE-OF-PAGES.md").read_text().split("|---|---|")[1]
    return [word for row in table.strip().splitlines() for word in row.split("|")[1].strip().split(", ")]


def messages(source: str) -> Iterator[str]:
    """Texts of more than one word in a program, but no docstrings, and of choices not what is stored."""
    tree = ast.parse(source)
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    choices = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef) and "Choices" in " ".join(map(ast.unparse, each.bases))
    ]
    alone |= {
        id(line.value.elts[0])
        for each in choices
        for line in each.body
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Tuple)
    }
    for each in ast.walk(tree):
        is_text = isinstance(each, ast.Constant) and isinstance(each.value, str) and id(each) not in alone
        if is_text and " " in each.value.strip():
            yield each.value


def found_in(texts: Iterator[str]) -> list[str]:
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words_not_used()))})\b", re.IGNORECASE)
    lines = [" ".join(text.split()) for text in texts]
    return [line[max(at.start() - 40, 0) : at.end() + 40] for line in lines for at in pattern.finditer(line)]


def test_templates_use_the_words_of_the_style():
    templates = [path for path in (ROOT / "templates").rglob("*.*") if path.suffix in (".html", ".txt")]
    assert len(templates) > 100
    found = {str(path): found_in(iter([NO_TEXT.sub(" ", path.read_text())])) for path in templates}
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_messages_use_the_words_of_the_style():
    folders = (ROOT / "releases", ROOT / "benchmarks")
    sources = [path for folder in folders for path in folder.rglob("*.py") if "migrations" not in path.parts]
    found = {str(path): found_in(messages(path.read_text())) for path in sources}
    assert {path: texts for path, texts in found.items() if texts} == {}


def test_a_word_that_is_not_used_is_found_across_lines_and_in_capitals():
    assert found_in(
        messages('"""Anew."""\nsay("Read it once\\n more.")\nsay("Ask " "Whoever knows.")\nsay("anew")')
    ) == [
        "Read it once more.",
        "Ask Whoever knows.",
    ]
    choices = 'class State(models.TextChoices):\n    A = "read anew", "read it anew"'
    assert found_in(messages(choices)) == ["read it anew"]
    assert {"stand", "stands"} <= set(words_not_used())
