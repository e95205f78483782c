"""The bin that a column gets for missing values where nobody has chosen another rule."""

from __future__ import annotations

from typing import Any

from releases.engine.domain.attribute import NO_NUMBER, Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.dates import NO_DATE

#: The category of missing values in a column of categories; nobody has to know whether there are any.
NO_VALUE = "no value"


def bin_for_missing(kind: AttributeKind) -> str:
    """What the bin is called in a column of a type."""
    if kind is AttributeKind.CATEGORICAL:
        return NO_VALUE
    return NO_DATE if kind.is_of_dates else NO_NUMBER


def with_bin_for_missing(column: dict[str, Any]) -> dict[str, Any]:
    """A column in the schema format with that bin; in a column of categories it is one more, behind the others."""
    name = bin_for_missing(AttributeKind(column["type"]))
    listed = column.get("categories", [])
    more = {"categories": [*listed, name]} if listed and name not in listed else {}
    return {**column, **more, "missing_as": name}


def has_bin_for_missing(attribute: Attribute) -> bool:
    """Whether a column has this very bin; as the last one, and not alone, where it has categories."""
    if attribute.missing_as != bin_for_missing(attribute.kind):
        return False
    return attribute.has_grammar or (len(attribute.categories) > 1 and attribute.categories[-1] == NO_VALUE)
