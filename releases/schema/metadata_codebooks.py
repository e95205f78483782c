"""Codebooks that are no JSON: variables of DDI Codebook in XML, and metadata of SmartNoise SQL in YAML.

Both are read into the words of another format, Frictionless fields or CSVW columns with the terms of differential
privacy, which ``standard_codebooks.py`` reads into ours. Frequencies and other statistics of the rows, which DDI can
hold, are never looked at.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Hashable, Iterator
from typing import Any

import yaml

from releases.engine.errors import InvalidInput

#: What SmartNoise says of a table beside its columns.
_OF_TABLE = {
    *("rows", "rows_exact", "row_privacy", "max_ids", "sample_max_ids", "clamp_counts", "clamp_columns", "use_dpsu"),
    "censor_dims",
}
#: Characters of YAML, which is read slowly.
_LONGEST = 100_000
_TYPES = {"int": "integer", "float": "double", "datetime": "dateTime", "boolean": "boolean", "string": "string"}


def read_other(text: str) -> dict[str, Any] | None:
    """A pasted text that is XML, or begins as YAML does with a name on a line of its own; None of any other.

    Raises:
        InvalidInput: as `from_ddi` and `from_smartnoise`.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        return from_ddi(text)
    lines = (line.strip() for line in text.lstrip("\ufeff").splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "---", "engine:"))), "")
    return from_smartnoise(text) if first.endswith(":") else None


def from_ddi(text: str) -> dict[str, Any]:
    """The variables of one file of DDI Codebook, as fields of Frictionless.

    Raises:
        InvalidInput: it is no such XML, or is about several files.
    """
    if "<!DOCTYPE" in text:
        raise InvalidInput("codebook", "<!DOCTYPE", "must be XML without a document type; delete that line")
    try:
        root = ET.fromstring(text.lstrip("\ufeff"))  # noqa: S314  without a document type there are no entities
    except ET.ParseError as error:
        line, column = error.position
        raise InvalidInput("codebook", f"line {line}, column {column + 1}", "must be XML") from None
    variables = list(_all(root, "var"))
    if _named(root) != "codeBook" or not variables:
        raise InvalidInput("codebook", _named(root), "must be a codeBook of DDI with variables (var)")
    files = {each for variable in variables for each in variable.get("files", "").split()}
    if len(files) > 1:
        raise InvalidInput("codebook", " ".join(sorted(files)), "must be about one file of data")
    return {"fields": [_field(variable) for variable in variables]}


def from_smartnoise(text: str) -> dict[str, Any]:
    """The one table of a SmartNoise file, as a table of CSVW.

    Raises:
        InvalidInput: it is no such YAML, or is about several tables.
    """
    if len(text) > _LONGEST:
        raise InvalidInput("codebook", f"{len(text):,} characters", f"must be YAML of at most {_LONGEST:,}")
    try:
        found = yaml.load(text, Loader=_OncePlainly)  # noqa: S506  a safe loader, without aliases
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        at = getattr(error, "problem_mark", None)
        where = f"line {at.line + 1}, column {at.column + 1}" if at is not None else "text"
        raise InvalidInput("codebook", where, "must be YAML without aliases, each name once") from None
    for what in ("database", "schema", "table"):
        listed = [each for name, each in found.items() if name != "engine"] if isinstance(found, dict) else []
        if len(listed) != 1:
            raise InvalidInput("codebook", f"{len(listed)} of {what}", "must hold one database, one schema, one table")
        (found,) = listed
    if not isinstance(found, dict):
        raise InvalidInput("codebook", found, "must name the columns of the table")
    columns = [_column(str(name), said) for name, said in found.items() if name not in _OF_TABLE]
    whole: dict[str, Any] = {"tableSchema": {"columns": columns}, "maxContributions": found.get("max_ids", 1)}
    if found.get("row_privacy") is True:
        whole |= {"maxContributions": 1, "privacyUnit": "row"}
    return whole


def _column(name: str, said: object) -> dict[str, Any]:
    if not isinstance(said, dict):
        raise InvalidInput(f"{name}", said, "must be a column with its type")
    ends = {ours: said[theirs] for theirs, ours in (("lower", "minimum"), ("upper", "maximum")) if theirs in said}
    kind = _TYPES.get(str(said.get("type", "string")), "string")
    return {"name": name, "datatype": kind, "privacyId": said.get("private_id") is True, **ends}


def _field(variable: ET.Element) -> dict[str, Any]:
    categories = [each for each in _below(variable, "catgry") if _text(each, "catValu")]
    missing = [_text(each, "catValu") for each in categories if each.get("missing", "N") == "Y"]
    missing += [each.get("VALUE", "") for each in _inside(variable, "invalrng", "item")]
    kept = {_text(each, "catValu"): _text(each, "labl") for each in categories if each.get("missing", "N") != "Y"}
    left_out = set(missing)
    kept = {value: label for value, label in kept.items() if value not in left_out}
    ends = next(_inside(variable, "valrng", "range"), None)
    rules: dict[str, Any] = {}
    is_range = variable.get("intrvl") == "contin" or not kept
    if ends is not None and is_range:
        rules = {word: ends.get(end) for word, end in (("minimum", "min"), ("maximum", "max")) if ends.get(end)}
    elif kept:
        rules = {"enum": list(kept)}
    labels = "; ".join(f"{value}: {label}" for value, label in kept.items() if label and label != value)
    return {
        "name": variable.get("name"),
        "type": "integer" if variable.get("dcml") == "0" else "number",
        "description": " – ".join(filter(None, (_text(variable, "labl"), labels))),
        "constraints": rules,
        "missingValues": [each for each in missing if each],
    }


def _named(element: ET.Element) -> str:
    """Without the name space, which tells the version."""
    return str(element.tag).rpartition("}")[2]


def _all(element: ET.Element, name: str) -> Iterator[ET.Element]:
    return (each for each in element.iter() if _named(each) == name)


def _below(element: ET.Element, name: str) -> Iterator[ET.Element]:
    return (each for each in element if _named(each) == name)


def _inside(variable: ET.Element, part: str, name: str) -> Iterator[ET.Element]:
    return (each for found in _below(variable, part) for each in _all(found, name))


def _text(element: ET.Element, name: str) -> str:
    found = next(_below(element, name), None)
    return "" if found is None else " ".join("".join(found.itertext()).split())


class _OncePlainly(yaml.SafeLoader):
    """Aliases could make a small text as large as they like; of a name that comes twice, only one would count."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.composer.ComposerError(None, None, "an alias", self.get_event().start_mark)  # type: ignore[no-untyped-call]
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        names: set[object] = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if not isinstance(name, str | int | float | bool | None) or name in names:
                raise yaml.constructor.ConstructorError(None, None, "a name", key.start_mark)
            names.add(name)
        return super().construct_mapping(node, deep=deep)
