"""Codebooks in formats that others write, read into the columns of the schema format, and written again.

Read are a Frictionless Table Schema or a data package of one table, and CSV on the Web (CSVW) metadata of one table,
with the terms for differential privacy of CSVW-EO (``privacyId``, ``maxContributions``, ``keyValues``, ``partitions``).
What they say of a column that has no place in the schema format is left out. A column of text is declared where its
values are listed, a column of numbers where its ends are given: in ten bins, or one for each value of few. So is a
column of dates, by month, or by year where it spans more than ten. What is
written holds each column of the schema format beside the words of the other format, and the combinations that are
impossible beside the columns; it is read back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from releases.engine.domain.attribute import FIRST, LAST, Attribute, number
from releases.engine.domain.dates import DATE_FORMATS, By, Dates, read_date
from releases.engine.domain.impossible import combinations_to_json
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.schema.bin_edges import dates_from_text
from releases.schema.descriptions import DESCRIPTION, LONGEST, Notes, noted
from releases.schema.missing_values import with_bin_for_missing

#: A column of the schema format, whole, within a column of another.
OWN = "dpweb:column"
#: Combinations of bins that are declared impossible, beside the columns.
OWN_IMPOSSIBLE = "dpweb:impossible"
_FRICTIONLESS, _CSVW = "frictionless", "csvw"
FORMATS = (_FRICTIONLESS, _CSVW)
_BINS = 10
_CONFIRMED = "By declaring it you confirm that its values and ends were not made from the rows of the table."
_BIN_FOR_MISSING = "Missing values have a bin of their own in each of its columns: it names no rule for them."
_INTEGERS = {
    *("integer", "int", "long", "short", "byte", "year", "gYear", "nonNegativeInteger", "positiveInteger"),
    *("unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
}
_NUMBERS = {"number", "decimal", "float", "double"}
_DATES = {"date": "date", "datetime": "datetime", "dateTime": "datetime", "dateTimeStamp": "datetime"}


def is_standard(value: object) -> bool:
    """Whether what was read from JSON is such a codebook."""
    return isinstance(value, dict) and _columns_of(value) is not None


def from_standard(value: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The codebook in the schema format, and sentences about what was decided for the person who pasted it.

    Raises:
        InvalidInput: it is about several tables, or a column breaks a rule, naming the column.
    """
    found = _columns_of(value)
    assert found is not None
    columns, read, missing = found
    declared: list[dict[str, Any]] = []
    said: list[str] = []
    left: list[str] = []
    for position, column in enumerate(columns):
        name = column.get("name") if isinstance(column, dict) else None
        if not isinstance(name, str):
            raise InvalidInput(f"columns[{position}].name", name, "must be text")
        try:
            made = _object(column[OWN], OWN) if OWN in column else read(column, missing)
        except InvalidInput as error:
            raise InvalidInput(f"columns[{position}] ({name}).{error.field}", error.value, error.rule) from None
        if made is None:
            left.append(name)
            continue
        declared.append(made)
        if OWN not in column and _CONFIRMED not in said:
            # Programs that write codebooks often read values and ends off the rows.
            said[:0] = [_CONFIRMED, _BIN_FOR_MISSING]
        if OWN not in column and "edges" in made:
            said.append(f"{name}: bins were chosen between {made['edges'][0]} and {made['edges'][-1]}.")
        if OWN not in column and "by" in made:
            said.append(f"{name}: bins by {made['by']} were chosen from {made['first']} to {made['last']}.")
    if (unit := _unit_of(value, columns)) is not None:
        whom = (
            f"a person, by the column {unit['id']}, with at most {unit['max_rows']} rows each"
            if unit["kind"] == "person"
            else "a row"
        )
        said.append(f"Whom to protect: {whom}; whether they are in the table is private.")
    if left:
        said.append(f"Not declared, for neither their values nor their ends are given: {', '.join(left)}.")
    whole = {"version": 1, **({} if unit is None else {"unit": unit}), "columns": declared}
    return whole | ({"impossible": value[OWN_IMPOSSIBLE]} if OWN_IMPOSSIBLE in value else {}), said


def to_standard(universe: Universe, notes: Notes, *, written: str) -> dict[str, Any]:
    """What is declared, in one of the formats."""
    columns = [_written(each, noted(each.to_json(), notes), written) for each in universe.attributes]
    beside = {OWN_IMPOSSIBLE: combinations_to_json(universe.impossible)} if universe.impossible else {}
    if written == _FRICTIONLESS:
        return {"fields": columns, **beside}
    return {"@context": "http://www.w3.org/ns/csvw", "tableSchema": {"columns": columns}, **beside}


def _unit_of(value: Mapping[str, Any], columns: list[Any]) -> dict[str, Any] | None:
    """Whom to protect, where the terms of CSVW-EO say it: one column names the person. None where they do not."""
    if value.get("privacyUnit") == "row":
        return {"kind": "row"}
    named = [each["name"] for each in columns if each.get("privacyId") is True]
    tables = value.get("tables")
    most = (tables[0] if isinstance(tables, list) else value).get("maxContributions")
    if not named or most is None:
        return None
    if len(named) > 1:
        raise InvalidInput("privacyId", ", ".join(named), "must be one column")
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise InvalidInput("maxContributions", most, "must be a whole number from 1")
    return {"kind": "person", "id": named[0], "max_rows": most}


Reader = Callable[[Mapping[str, Any], list[str]], dict[str, Any] | None]


def _columns_of(value: Mapping[str, Any]) -> tuple[list[Any], Reader, list[str]] | None:
    """The columns, how each is read, and the missing codes of all; None of another format."""
    table: Any = value
    for many, one in (("resources", "schema"), ("tables", "tableSchema")):
        if isinstance(value.get(many), list):
            if len(value[many]) != 1:
                raise InvalidInput(many, len(value[many]), "must be one table")
            table = value[many][0]
        if isinstance(table, dict) and isinstance(table.get(one), dict):
            table = table[one]
    if not isinstance(table, dict):
        return None
    if isinstance(table.get("fields"), list):
        return table["fields"], _field, _codes(table.get("missingValues", []))
    if isinstance(table.get("columns"), list) and table is not value:
        return table["columns"], _csvw, _codes(table.get("null", value.get("null", [])))
    return None


def _field(column: Mapping[str, Any], missing: list[str]) -> dict[str, Any] | None:
    """A field of Frictionless."""
    rules = _object(column.get("constraints", {}), "constraints")
    listed = rules.get("enum", column.get("categories", []))
    if not isinstance(listed, list):
        raise InvalidInput("enum", listed, "must be a list")
    values = [_text(each.get("value") if isinstance(each, dict) else each, "enum") for each in listed]
    codes = _codes(column["missingValues"]) if "missingValues" in column else missing
    title = column.get("description") or column.get("title") or ""
    ends = (rules.get("minimum"), rules.get("maximum"))
    form = _written_as(column.get("format", "default"), {"%Y": "YYYY", "%m": "MM", "%d": "DD"})
    return _column(column["name"], str(column.get("type", "any")), values, ends, codes, title, form)


def _csvw(column: Mapping[str, Any], missing: list[str]) -> dict[str, Any] | None:
    """A column of CSVW; a list of values is its format, as CSVW has no other."""
    kind = column.get("datatype", "string")
    described = kind if isinstance(kind, dict) else {"base": kind}
    listed = described.get("format", "")
    values = listed.strip("^$()").split("|") if isinstance(listed, str) and "|" in listed else []
    codes = _codes(column["null"]) if "null" in column else missing
    # CSVW-EO writes the ends beside the type.
    everywhere = {
        **{each: column[each] for each in ("minimum", "maximum") if column.get(each) is not None},
        **described,
    }
    ends = tuple(
        next((everywhere[each] for each in names if each in everywhere), None)
        for names in (("minimum", "minInclusive"), ("maximum", "maxInclusive"))
    )
    if column.get("privacyId") is True:
        return None
    values = values or _public_values(column)
    title = column.get("dc:description") or column.get("titles") or ""
    form = _written_as(listed, {"yyyy": "YYYY", "MM": "MM", "M": "MM", "dd": "DD", "d": "DD"})
    return _column(column["name"], str(described.get("base", "string")), values, ends, codes, title, form)


def _public_values(column: Mapping[str, Any]) -> list[str]:
    """The values that CSVW-EO calls public: of keys, or of partitions that are of one value each."""
    listed = column.get("keyValues") or column.get("partitions") or []
    if not isinstance(listed, list):
        raise InvalidInput("keyValues", listed, "must be a list")
    values = []
    for each in listed:
        found = each.get("predicate", each) if isinstance(each, dict) else each
        found = found.get("partitionValue") if isinstance(found, dict) else found
        if found is None:
            return []
        values.append(_text(found, "keyValues"))
    return values


def _column(
    name: str, kind: str, values: list[str], ends: tuple[Any, ...], codes: list[str], title: object, form: str
) -> dict[str, Any] | None:
    column: dict[str, Any] = {"name": name}
    if kind == "boolean":
        values = values or ["true", "false"]
    if values:
        column |= {"type": "categorical", "categories": values}
        codes = [each for each in codes if each not in values]
    elif kind in _INTEGERS | _NUMBERS and None not in ends:
        low, high = (number(end, field=which) for end, which in zip(ends, ("minimum", "maximum"), strict=True))
        column |= {"type": "integer" if kind in _INTEGERS else "number"}
        column["edges"] = _edges(low, high, is_whole=kind in _INTEGERS)
    elif kind in _DATES and form and None not in ends:
        column |= {"type": _DATES[kind], "format": form, **_range_of_dates(ends, form)}
    else:
        return None
    column = with_bin_for_missing(column)
    if codes:
        column["missing"] = codes
    if isinstance(title, str) and (said := " ".join(title.split())[: LONGEST[DESCRIPTION]]):
        column[DESCRIPTION] = said
    return column


def _edges(low: Decimal, high: Decimal, *, is_whole: bool) -> list[int | float]:
    if not low < high:
        raise InvalidInput("maximum", high, "must be above the minimum")
    if is_whole:
        for end, which in ((low, "minimum"), (high, "maximum")):
            if end != end.to_integral_value():
                raise InvalidInput(which, end, "must be a whole number, as the column holds")
        step = max(1, -(-(int(high) - int(low)) // _BINS))
        return [*range(int(low), int(high), step), int(high)]
    width = (high - low) / _BINS
    return [*(float(low + width * place) for place in range(_BINS)), float(high)]


def _range_of_dates(ends: tuple[Any, ...], form: str) -> dict[str, str]:
    """From the first to the last date, each as in ISO 8601 or as the table writes dates; a time of day is left out."""
    texts = [str(end).replace("T", " ").split(" ")[0] for end in ends]
    found = dates_from_text(f"{texts[0]} to {texts[1]} by {By.YEAR}", written=form)
    first, last = (read_date(found[end], field=which) for end, which in (("first", "minimum"), ("last", "maximum")))
    by = By.MONTH if last.year - first.year <= _BINS else By.YEAR
    return {"first": str(first), "last": str(last), "by": by.value}


def _written_as(form: object, parts: Mapping[str, str]) -> str:
    """The form of dates that a pattern of another format means; ISO 8601 where there is none, empty where it is of no
    known form. What follows the day is of the time, which has one form."""
    if form in ("", "default", "any"):
        return DATE_FORMATS[0]
    pattern = re.split(r"[ T]", str(form))[0]
    found = re.sub("|".join(map(re.escape, parts)), lambda part: parts[part[0]], pattern)
    return found if found in DATE_FORMATS else ""


def _object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "must be a JSON object")
    return value


def _text(value: object, field: str) -> str:
    """A listed value as a table in text writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise InvalidInput(field, value, "must be text or a number")
    return str(value)


def _codes(value: object) -> list[str]:
    """Missing codes but for the empty text, which is always one."""
    listed = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = (each.get("value") if isinstance(each, dict) else each for each in listed)
    return [text for text in (_text(each, "missing") for each in texts) if text.strip()]


def _written(attribute: Attribute, column: dict[str, Any], written: str) -> dict[str, Any]:
    word = DESCRIPTION if written == _FRICTIONLESS else "dc:description"
    said = {word: column[DESCRIPTION]} if DESCRIPTION in column else {}
    described = {"name": attribute.name, **said, OWN: column}
    if attribute.formula is not None and written != _FRICTIONLESS:
        # So CSVW calls a column that is not in the file.
        described["virtual"] = True
    if attribute.dates is not None:
        return {**described, **_dates_written(attribute, attribute.dates, written)}
    limits = () if attribute.categories else (("minimum", FIRST, 0), ("maximum", LAST, -1))
    ends = {limit: column["edges"][place] for limit, end, place in limits if end not in attribute.open_ends}
    kind = {"categorical": "string"}.get(attribute.kind.value, attribute.kind.value)
    if written == _FRICTIONLESS:
        rules = {"enum": list(attribute.categories)} if attribute.categories else ends
        codes = {"missingValues": ["", *attribute.missing]} if attribute.missing else {}
        return {**described, "type": kind, "constraints": rules, **codes}
    is_listed = attribute.categories and not any("|" in each for each in attribute.categories)
    listed = {"format": "|".join(attribute.categories)} if is_listed else {}
    nothing = {"null": ["", *attribute.missing]} if attribute.missing else {}
    return {**described, "datatype": {"base": kind, **ends, **listed}, **nothing}


def _dates_written(attribute: Attribute, dates: Dates, written: str) -> dict[str, Any]:
    """The range is written as the table writes dates; where these have a time of day, from the first second on."""
    first, days = dates.days_of_range
    times = (" 00:00:00", " 23:59:59") if dates.has_time else ("", "")
    ends = {
        "minimum": dates.write(first) + times[0],
        "maximum": dates.write(first + days - 1) + times[1],
    }
    words = {"YYYY": "%Y", "MM": "%m", "DD": "%d"} if written == _FRICTIONLESS else {"YYYY": "yyyy", "DD": "dd"}
    form = dates.written
    for part, word in words.items():
        form = form.replace(part, word)
    codes = ["", *attribute.missing]
    if written == _FRICTIONLESS:
        form += " %H:%M:%S" if dates.has_time else ""
        nothing = {"missingValues": codes} if attribute.missing else {}
        return {"type": attribute.kind.value, "format": form, "constraints": ends, **nothing}
    base = "dateTime" if dates.has_time else "date"
    form += " HH:mm:ss" if dates.has_time else ""
    return {"datatype": {"base": base, "format": form, **ends}, **({"null": codes} if attribute.missing else {})}
