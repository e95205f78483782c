"""The fields of one predicate, a condition on each column, and what was typed in them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.http import QueryDict

from releases.engine.domain.universe import Attribute, AttributeKind, Universe, plain
from releases.engine.errors import InvalidInput

#: Bins of a column offered in a form; the rest can be asked for in JSON.
_MAX_OFFERED_BINS = 200


def predicate(universe: Universe, posted: QueryDict) -> dict[str, Any]:
    """A predicate from the fields `from.<column>`, `to.<column>` and `in.<column>`; empty ones do not restrict."""
    conditions: dict[str, Any] = {}
    for attribute in universe.attributes:
        name = attribute.name
        if attribute.is_numeric:
            limits = {end: posted.get(f"{end}.{name}", "").strip() for end in ("from", "to")}
            limits["to"] = _edge_above(attribute, limits["to"])
            if any(limits.values()):
                conditions[name] = {end: value for end, value in limits.items() if value}
        elif chosen := posted.getlist(f"in.{name}"):
            conditions[name] = chosen
    if not conditions:
        raise InvalidInput("count", "no condition", "must restrict at least one column")
    return conditions


def _edge_above(attribute: Attribute, typed: str) -> str:
    """What was typed as the end of a range of whole numbers. The last number of a bin, as its label says it, stands for
    the edge behind it; not of the last bin, which holds its upper edge too."""
    if attribute.kind is not AttributeKind.INTEGER or not typed.removeprefix("-").isdecimal() or len(typed) > 20:
        return typed
    behind = Decimal(typed) + 1
    is_last_of_bin = Decimal(typed) not in attribute.edges and behind in attribute.edges[1:-1]
    return plain(behind) if is_last_of_bin else typed


def column_field(attribute: Attribute, posted: QueryDict) -> dict[str, Any]:
    field: dict[str, Any] = {"name": attribute.name, "is_numeric": attribute.is_numeric, "size": attribute.size}
    if attribute.is_numeric:
        field["edges"] = [plain(edge) for edge in attribute.edges[:_MAX_OFFERED_BINS]]
        field["lowest"], field["highest"] = plain(attribute.edges[0]), plain(attribute.edges[-1])
        field["from"] = posted.get(f"from.{attribute.name}", "")
        field["to"] = posted.get(f"to.{attribute.name}", "")
        field["is_set"] = bool(field["from"] or field["to"])
    else:
        chosen = posted.getlist(f"in.{attribute.name}")
        field["categories"] = [(category, category in chosen) for category in attribute.categories[:_MAX_OFFERED_BINS]]
        field["more"] = max(0, attribute.size - _MAX_OFFERED_BINS)
        field["is_set"] = bool(chosen)
    return field
