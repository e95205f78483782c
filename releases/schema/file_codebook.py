"""What an SPSS or Stata file, or a database, says of its own columns, as a codebook that is proposed: a person confirms
it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.formula_tree import Type
from releases.engine.domain.reach import TRUTHS, Values, check_can_be_met
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
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
    kinds = {Type.DATE: AttributeKind.DATE, Type.MOMENT: AttributeKind.DATETIME}
    found = {name: values.type for name, values in column_values(dataset).items()}
    return {name: kinds[type_] for name, type_ in found.items() if type_ in kinds}


def check_can_all_be_met(dataset: Dataset, universe: Universe) -> None:
    """Refuse columns that no value of the table meets as they are declared, by what is public of the table.

    Raises:
        InvalidInput: naming the column, the field, what is declared, and what the column has.
    """
    found, any_text = column_values(dataset), Values(can_write=_writer(dataset))
    for place, attribute in enumerate(universe.attributes):
        try:
            check_can_be_met(attribute, found.get(attribute.name, any_text))
        except InvalidInput as error:
            where = f"columns[{place}] ({attribute.name}).{error.field}"
            raise InvalidInput(where, error.value, error.rule) from None


def column_values(dataset: Dataset) -> dict[str, Values]:
    """Which values columns can have, by the types that the file or the database gives them."""
    types = {each["name"]: each.get("format", "") for each in dataset.file_codebook}
    types |= dataset.catalogue.get("types", {})
    found = {name: _values_of_type(str(type_)) for name, type_ in types.items()}
    if dataset.is_in_database:
        # Its type lists them all; the labels of a file name some.
        listed = {each["name"]: frozenset(each["values"]) for each in dataset.file_codebook if each["values"]}
        found |= {name: Values(texts=texts) for name, texts in listed.items()}
    return {name: values for name, values in found.items() if values is not None and name in dataset.columns}


def _writer(dataset: Dataset) -> Callable[[str], bool]:
    """Whether a text can be in a text file as it was read: its encoding has it, and no sign of it parts values."""
    facts = dataset.read_as
    parts = facts.separator if facts.quote == "none" else ""

    def can_write(text: str) -> bool:
        try:
            text.encode(facts.encoding or "utf-8")
        except UnicodeEncodeError:
            return False
        return not parts or parts not in text

    return can_write


#: Types of databases and Parquet, and those formats of SPSS, Stata and SAS whose values are read as dates.
_WITH_TIME = re.compile(r"TIMESTAMP[A-Z0-9_() ]*|DATETIME[0-9.()]*|YMDHMS[0-9.]*|%TC", re.IGNORECASE)
_OF_DAYS = re.compile(
    r"[AEJS]?DATE[0-9.]*|(DDMMYY|MMDDYY|YYMMDD)[BCDNPS]?[0-9.]*|E8601DA[0-9.]*|%T?D|%TDD_M_Y|%TDCCYY-NN-DD",
    re.IGNORECASE,
)
#: Whole numbers, by the name of their type: how many bits they have.
_BITS = {"TINY": 8, "SMALL": 16, "MEDIUM": 24, "": 32, "BIG": 64, "HUGE": 128}
_INTEGERS = re.compile(
    r"(?P<u>U?)(?P<size>TINY|SMALL|MEDIUM|BIG|HUGE|)INT(EGER)?(\([0-9]+\))?(?P<unsigned> UNSIGNED)?", re.IGNORECASE
)
_DECIMALS = re.compile(r"(DECIMAL|NUMERIC)\((?P<digits>[0-9]+), ?(?P<places>[0-9]+)\)( UNSIGNED)?", re.IGNORECASE)
_NUMBERS = re.compile(r"DOUBLE( PRECISION)?|FLOAT|REAL|F[0-9]+(\.[0-9]+)?|%-?0?[0-9]+\.[0-9]+[FGE]C?", re.IGNORECASE)


def _values_of_type(declared: str) -> Values | None:
    """What values of a type are; None of one that is not known, and of text."""
    if _WITH_TIME.fullmatch(declared):
        return Values(type=Type.MOMENT)
    if _OF_DAYS.fullmatch(declared):
        return Values(type=Type.DATE)
    if declared.upper() == "BOOLEAN":
        return TRUTHS
    if (found := _INTEGERS.fullmatch(declared)) is not None:
        bits = _BITS[found["size"].upper()]
        ends = (0, 2.0**bits) if found["u"] or found["unsigned"] else (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1))
        return Values(type=Type.NUMBER, lowest=ends[0], highest=ends[1] - 1, is_whole=True)
    if (found := _DECIMALS.fullmatch(declared)) is not None:
        digits, places = int(found["digits"]), int(found["places"])
        most = 10.0 ** (digits - places)
        return Values(type=Type.NUMBER, lowest=-most, highest=most, is_whole=places == 0)
    return Values(type=Type.NUMBER) if _NUMBERS.fullmatch(declared) else None


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
