"""What is wrong with what a person gave, in words: the one way from an error to a page.

Programs are told the place as a path (``queries[3].count.age.from``), because they wrote the path. People wrote a
question or filled in a field, so pages say "Question 4, count, age, from". Value and rule stay as they are.
"""

from __future__ import annotations

import json
import re

from releases.engine.errors import InvalidInput
from releases.questions.base import phrases

#: Places that a path names by one fixed word each.
_PLACES = {
    "workload": "Questions",
    "workload.version": "Version of the questions",
    "queries": "Questions",
    "schema": "Codebook",
    "schema.version": "Version of the codebook",
    "plan": "Plan file",
    "plan.version": "Version of the plan file",
    "unit": "Whom to protect",
    "unit.kind": "Whom to protect",
    "unit.id": "Column that tells people apart",
    "unit.max_rows": "Rows counted of each person",
    "header_row": "Row with names",
    "sheet": "Sheet",
    "alert_addresses": "Who hears of requests",
    "default_epsilon": "Epsilon suggested for a budget",
    "is_two_person": "Two reviewers must approve",
    "most_per_person": "Most that one person may spend",
    "review_above": "Review releases above epsilon",
    "upload_cap": "Largest upload",
}
_QUERY = re.compile(r"queries\[(\d+)\]\.(.+)", re.DOTALL)
_COLUMN = re.compile(r"columns\[(\d+)\](?: \((.*)\))?(?:\.(\w+))?", re.DOTALL)
_LINE = re.compile(r"line (\d+)(?: \((.*)\))?(?:\.(\w+))?", re.DOTALL)
#: A number with a comma, or with thousands in groups.
_WITH_COMMA = re.compile(r"[+-]?[0-9.]+(?:,[0-9]+)+(?:\.[0-9]+)?")
_IN_GROUPS = re.compile(r"[+-]?[0-9]{1,3}(?:[.'’\s_][0-9]{3})+")
_LONGEST = 80


def in_words(error: Exception, *, place: str = "") -> str:
    """An error as a page says it; of one that names a place, the place in words.

    Args:
        place: what the person knows the place by, where the page knows better: the label of a field.
    """
    # A subclass has a sentence of its own: a table that cannot be read names no field.
    if type(error) is not InvalidInput:
        return str(error)
    said = f"{place or place_in_words(error.field)}: {_shown(error.value)} {error.rule}"
    return said + separators(error.value, error.rule)


def separators(value: object, rule: str) -> str:
    """The end of a rule for a number that has a comma, or thousands in groups: it could be meant in two ways."""
    if not isinstance(value, str) or "number" not in rule:
        return ""
    if _WITH_COMMA.fullmatch(value.strip()):
        return "; decimals have a point and thousands no separator, such as 0.5 or 1000"
    if "whole number" in rule and _IN_GROUPS.fullmatch(value.strip()):
        return "; thousands have no separator, such as 1000"
    return ""


def place_in_words(path: str) -> str:
    """`columns[2] (age).edges` as "Column 3 (age), edges"; what is no path is left as it is."""
    if path in _PLACES:
        return _PLACES[path]
    if match := _QUERY.fullmatch(path):
        return ", ".join([f"Question {int(match[1]) + 1}", *_inside_query(match[2])])
    if match := _COLUMN.fullmatch(path):
        return _numbered("Column", int(match[1]) + 1, match[2], match[3])
    if match := _LINE.fullmatch(path):
        return _numbered("Line", int(match[1]), match[2], match[3])
    if path.startswith("options."):
        return f"Option {path.removeprefix('options.')}"
    if path.partition(".")[0] in phrases() and ("." in path or "_" in path):
        said = ", ".join(_inside_query(path))
        return said[:1].upper() + said[1:]
    return path


def _inside_query(path: str) -> list[str]:
    """What a path names inside a query, from the outside in."""
    kind, _, rest = path.partition(".")
    if kind == "query":
        return []
    if kind not in phrases():
        return [path]
    if kind != "count":
        return [phrases()[kind], rest] if rest else [phrases()[kind]]
    # A column's name may hold dots; only a limit stands behind it.
    column, dot, limit = rest.rpartition(".")
    if dot and limit in ("from", "to"):
        return ["count", column, limit]
    return ["count", rest] if rest else ["count"]


def _numbered(what: str, number: int, name: str | None, field: str | None) -> str:
    named = f"{what} {number} ({name})" if name else f"{what} {number}"
    # An unknown field is named by the value.
    return f"{named}, {field}" if field and field != "column" else named


def _shown(value: object) -> str:
    if value is None or value == "":
        return "nothing is given;"
    if isinstance(value, str):
        shown = repr(value)
    elif isinstance(value, (bool, list, dict)):
        # Half a pair of code units is text in JSON, and none that a page can hold.
        shown = json.dumps(value, ensure_ascii=False, default=str).encode(errors="backslashreplace").decode()
    else:
        shown = str(value)
    return shown if len(shown) <= _LONGEST else f"{shown[: _LONGEST - 3]}..."
