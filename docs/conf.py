"""Sphinx: how `manage.py docs` makes the site of this folder.

Pages are Markdown. A line such as `<!-- generated: openapi -->` is replaced by what one of the functions below makes
from the code. Nothing on a page is loaded from elsewhere: formulas become MathML, and pictures lie beside the pages.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from html import escape
from pathlib import Path
from textwrap import indent
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpweb.settings")

import django
from django.apps import apps
from docutils.nodes import SkipNode

if not apps.ready:
    # Not started by `manage.py`: building pages makes no installation.
    scratch = tempfile.TemporaryDirectory()
    os.environ.setdefault("DATA_DIR", scratch.name)
    django.setup()

from releases.display.math import typeset

project = "dpweb"
author = "the authors of dpweb"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "dpweb"
html_static_path = [str(ROOT / "docs" / "_static")]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_copyright = False
html_math_renderer = "mathml"
html_copy_source = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4

#: A line of a page that the code fills in: the name of a function below, and its arguments.
_GENERATED = re.compile(r"^<!-- generated: (\w+)(.*) -->$", flags=re.MULTILINE)


def docstrings(*ends: str) -> Iterator[str]:
    """What modules of the engine say of themselves. A module is named by the end of its path, without `.py`; `a|b` is
    whichever there is."""
    modules = {f"/{each.with_suffix('').as_posix()}": each for each in (ROOT / "releases" / "engine").rglob("*.py")}
    for end in ends:
        found = [path for name, path in modules.items() if name.endswith(tuple(f"/{each}" for each in end.split("|")))]
        if len(found) != 1:
            raise ValueError(f"{end}: must be the end of one path in releases/engine, and is of {len(found)}")
        text = ast.get_docstring(ast.parse(found[0].read_text())) or ""
        first, _, rest = text.partition("\n\n")
        yield f"## {' '.join(first.split()).rstrip('.')}\n\nFrom `{found[0].relative_to(ROOT)}`:\n"
        yield _as_written(rest or first)


def room(folder: str) -> Iterator[str]:
    """Every module of a folder, and its public functions and classes with what they say of themselves."""
    for path in sorted((ROOT / folder).glob("*.py")):
        module = ast.parse(path.read_text())
        if (said := ast.get_docstring(module)) is None:
            continue
        heading = "" if path.stem == "__init__" else f"## {path.stem}\n\n`{path.relative_to(ROOT)}`\n\n"
        yield heading + _as_written(said)
        for node in module.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := _documented(node)):
                yield f"### {node.name}\n\n{_as_written(text)}"


def _documented(node: ast.FunctionDef | ast.ClassDef) -> str:
    """The signature and the docstring, of a class with its public methods; empty where there is nothing to read."""
    said = ast.get_docstring(node)
    if node.name.startswith("_") or said is None:
        return ""
    if isinstance(node, ast.FunctionDef):
        returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
        return f"{node.name}({ast.unparse(node.args)}){returned}\n\n{indent(said, '    ')}"
    bases = f"({', '.join(ast.unparse(each) for each in node.bases)})" if node.bases else ""
    methods = [_documented(each) for each in node.body if isinstance(each, ast.FunctionDef)]
    parts = [said, *(each for each in methods if each)]
    return f"class {node.name}{bases}\n\n" + "\n\n".join(indent(each, "    ") for each in parts)


def _as_written(text: str) -> str:
    """Docstrings are laid out for a fixed width, and their asterisks are powers."""
    return f"````text\n{text.strip()}\n````\n"


def mechanisms() -> Iterator[str]:
    """Every mechanism, from its class and its module."""
    from releases.engine.mechanisms.base import mechanisms as registered

    for name, each in registered().items():
        kinds = ", ".join(f"`{kind.kind}`" for kind in each.answers) or "counts"
        yield f"## {name}\n\n**{each.title}.** {each.summary}\n\nIt answers: {kinds}. Source: {each.source}.\n"
        for option in each.options:
            yield f"* option `{option.name}`: {option.help}"
        yield "\n" + _as_written(sys.modules[type(each).__module__].__doc__ or "")


def glossary() -> Iterator[str]:
    """The words that the site's pages explain."""
    from releases.display.glossary import WORDS

    for word in sorted(WORDS, key=lambda each: each.name.lower()):
        yield f"**{word.name}**: {word.meaning}\n"


_COMMANDS = "management/commands/[a-z]*.py"


def commands() -> Iterator[str]:
    """The help of every command of our own."""
    from django.core.management import load_command_class

    found = {path.stem: app for app in ("benchmarks", "releases") for path in (ROOT / app).glob(_COMMANDS)}
    for name, app in sorted(found.items()):
        parser = load_command_class(app, name).create_parser("manage.py", name)
        yield f"## {name}\n\n{parser.description}\n"
        for action in parser._actions:
            if action.dest in _OF_DJANGO:
                continue
            shown = ", ".join(f"`{each}`" for each in action.option_strings) or f"`{action.metavar or action.dest}`"
            yield f"* {shown}: {escape(str(action.help or ''))}"
        yield ""


def openapi() -> Iterator[str]:
    """Every operation of the REST API, from its OpenAPI schema."""
    from releases.api import api

    schema = api.get_openapi_schema()
    parts = schema["components"]["schemas"]
    for path, operations in schema["paths"].items():
        for verb, operation in operations.items():
            yield f"## {verb.upper()} {path}\n\n{operation.get('description') or operation.get('summary', '')}\n"
            rows = [
                (each["name"], _type(each["schema"]), f"in the {each['in']}", each.get("required", False))
                for each in operation.get("parameters", [])
            ]
            for kind, body in operation.get("requestBody", {}).get("content", {}).items():
                fields = _resolved(body["schema"], parts)
                required = fields.get("required", [])
                rows += [
                    (name, _type(each), kind, name in required) for name, each in fields.get("properties", {}).items()
                ]
            if rows:
                yield "| name | type | where | required |\n|---|---|---|---|"
                yield from (
                    f"| `{name}` | {kind} | {where} | {'yes' if must else 'no'} |" for name, kind, where, must in rows
                )
            yield f"\nAnswers: {', '.join(str(code) for code in operation['responses'] if code != 'default')}.\n"


def _resolved(schema: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return parts[name] if name else schema


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"])
    named = schema.get("$ref", "").rpartition("/")[2]
    default = f", {schema['default']!r} if left out" if schema.get("default") is not None else ""
    return f"{named or schema.get('format') or schema.get('type', 'anything')}{default}"


#: Options that Django gives to every command.
_OF_DJANGO = {
    *("help", "version", "verbosity", "settings", "pythonpath", "traceback", "no_color", "force_color", "skip_checks"),
}
_MAKERS = {each.__name__: each for each in (docstrings, room, mechanisms, glossary, commands, openapi)}


def fill_in(app: Any, name: str, source: list[str]) -> None:
    """Replace the lines that ask for something made from the code."""
    source[0] = _GENERATED.sub(lambda found: "\n".join(_MAKERS[found[1]](*found[2].split())), source[0])


def write_rooms() -> None:
    """A page for each folder of the engine, filled in when it is read; the pages of folders that are gone go too."""
    pages = ROOT / "docs/reference/engine"
    pages.mkdir(exist_ok=True)
    folders = {f"{each.parent.name}.md": each.parent for each in (ROOT / "releases/engine").rglob("__init__.py")}
    for page in pages.iterdir():
        if page.name not in folders:
            page.unlink()
    for name, folder in folders.items():
        page, path = pages / name, folder.relative_to(ROOT)
        text = f"# {path.relative_to('releases')}\n\n<!-- generated: room {path} -->\n"
        if not page.exists() or page.read_text() != text:
            page.write_text(text)


def setup(app: Any) -> None:
    def inline(writer: Any, node: Any) -> None:
        writer.body.append(typeset(node.astext()).replace('display="block"', 'display="inline"', 1))
        raise SkipNode

    def block(writer: Any, node: Any) -> None:
        writer.body.append(typeset(node.astext()))
        raise SkipNode

    write_rooms()
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    app.connect("source-read", fill_in)
