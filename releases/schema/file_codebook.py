"""What an SPSS or Stata file, or a database, says of its own columns, as a codebook that is proposed: a person confirms
it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from releases.engine.domain.universe import Attribute, Schema
from releases.engine.errors import InvalidInput
from releases.schema.descriptions import DESCRIPTION, LONGEST, Notes, read_note

if TYPE_CHECKING:
    from releases.models import Dataset


def proposed(dataset: Dataset) -> tuple[dict[str, Attribute], Notes]:
    """The columns whose values have labels, as categories, and what is said of each column.

    What breaks a rule of the schema is left out: a person did not write it. Single codes that the file takes for
    missing are missing codes of the column; ranges of them cannot be declared.
    """
    attributes, notes = {}, Notes()
    for each in dataset.file_codebook:
        name = each["name"]
        if name not in dataset.columns:
            continue
        if (attribute := _attribute(name, list(each["values"]), each["missing"])) is not None:
            attributes[name] = attribute
        if said := _description(each):
            notes[name] = {DESCRIPTION: said}
    return attributes, notes


def missing_codes(dataset: Dataset) -> list[tuple[str, str]]:
    """Of each column that has some, the codes that the file takes for missing, as text."""
    return [(each["name"], ", ".join(each["missing"])) for each in dataset.file_codebook if each["missing"]]


def _attribute(name: str, categories: list[str], missing: list[str]) -> Attribute | None:
    if not categories:
        return None
    single = [each for each in missing if " to " not in each]
    column = {"name": name, "type": "categorical", "categories": categories, "missing": single}
    try:
        return Schema.from_json({"version": 1, "columns": [column]}).universe[name]
    except InvalidInput:
        return None


def _description(said: dict[str, Any]) -> str:
    labels = ", ".join(f"{code} = {label}" for code, label in said["values"].items() if label)
    text = ": ".join(each for each in (said["label"], labels) if each)
    try:
        return read_note(DESCRIPTION, text[: LONGEST[DESCRIPTION]])
    except InvalidInput:
        return ""
