"""What an SPSS or Stata file, or a database, says of its own columns, as a codebook that is proposed: a person confirms
it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.schema.descriptions import DESCRIPTION, LONGEST, Notes, read_note
from releases.schema.missing_values import with_bin_for_missing

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
    """The codes that the file takes for missing, as text: each list of them once, behind the columns that have it."""
    found: dict[str, list[str]] = {}
    for each in dataset.file_codebook:
        if each["missing"]:
            found.setdefault(", ".join(each["missing"]), []).append(each["name"])
    return [(", ".join(names), codes) for codes, names in found.items()]


def columns_of_dates(dataset: Dataset) -> dict[str, AttributeKind]:
    """The columns that the file or the database itself declares as dates, which are stored as in ISO 8601, by their
    types. What is of no such type, text above all, is not looked at."""
    types = {each["name"]: each.get("format", "") for each in dataset.file_codebook}
    types |= dataset.catalogue.get("types", {})
    found = {name: _kind_of(str(kind)) for name, kind in types.items() if name in dataset.columns}
    return {name: kind for name, kind in found.items() if kind is not None}


#: Types of databases and Parquet, and formats of SPSS, Stata and SAS.
_WITH_TIME = re.compile(r"TIMESTAMP[A-Z0-9_() ]*|DATETIME[0-9.()]*|YMDHMS[0-9.]*|%-?TC.*", re.IGNORECASE)
_OF_DAYS = re.compile(
    r"[AEJS]?DATE[0-9.]*|(DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?[0-9.]*|E8601DA[0-9.]*|%-?T?D.*", re.IGNORECASE
)


def _kind_of(declared: str) -> AttributeKind | None:
    if _WITH_TIME.fullmatch(declared):
        return AttributeKind.DATETIME
    return AttributeKind.DATE if _OF_DAYS.fullmatch(declared) else None


def _attribute(name: str, categories: list[str], missing: list[str]) -> Attribute | None:
    if not categories:
        return None
    single = [each for each in missing if " to " not in each]
    column = {"name": name, "type": "categorical", "categories": categories, "missing": single}
    column = with_bin_for_missing(column)
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
