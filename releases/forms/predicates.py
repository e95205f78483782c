"""The fields of one predicate, a condition on each column, and what was typed in them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django import forms
from django.http import QueryDict

from releases.engine.domain.attribute import Attribute, plain
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput

#: Bins of a column offered in a form; the rest can be asked for in JSON.
_MAX_OFFERED_BINS = 200


class ConditionsForm(forms.Form):
    """A condition on each column, in the fields `from.<column>`, `to.<column>` and `in.<column>`."""

    def __init__(self, posted: QueryDict, *, universe: Universe) -> None:
        super().__init__(posted)
        self.posted = posted
        self.universe = universe

    def predicate(self) -> dict[str, Any]:
        """What was typed; empty fields do not restrict.

        Raises:
            InvalidInput: all of them are empty.
        """
        conditions: dict[str, Any] = {}
        for attribute in self.universe.attributes:
            name = attribute.name
            if attribute.is_numeric or attribute.in_time:
                limits = {end: self.posted.get(f"{end}.{name}", "").strip() for end in ("from", "to")}
                limits["to"] = _edge_above(attribute, limits["to"])
                if any(limits.values()):
                    conditions[name] = {end: value for end, value in limits.items() if value}
            elif chosen := self.posted.getlist(f"in.{name}"):
                conditions[name] = chosen
        if not conditions:
            raise InvalidInput("count", "no condition", "must restrict at least one column")
        return conditions

    @property
    def column_fields(self) -> tuple[ColumnField, ...]:
        return tuple(_column_field(each, self.posted) for each in self.universe.attributes)


def _edge_above(attribute: Attribute, typed: str) -> str:
    """What was typed as the end of a range of whole numbers. The last number of a bin, as its label says it, stands for
    the edge behind it; not of the last bin, which holds its upper edge too."""
    if attribute.kind is not AttributeKind.INTEGER or not typed.removeprefix("-").isdecimal() or len(typed) > 20:
        return typed
    behind = Decimal(typed) + 1
    is_last_of_bin = Decimal(typed) not in attribute.edges and behind in attribute.edges[1:-1]
    return plain(behind) if is_last_of_bin else typed


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnField:
    """The condition on one column, as fields.

    Attributes:
        size: how many bins or categories it has.
        is_in_order: a range of its bins can be asked for: of numbers, or of dates in order of time.
        edges: of a numeric column, the first ones; `lowest` and `highest` of all. Of dates the names of bins.
        lower, upper: what was typed as the ends of a range.
        lower_choices, upper_choices: edges with whether each was chosen, where all are offered; else empty.
        categories: of another column, the first ones, each with whether it was chosen; `more` how many are left out.
        is_set: something was typed.
    """

    name: str
    is_numeric: bool
    size: int
    is_set: bool
    is_in_order: bool = False
    edges: tuple[str, ...] = ()
    lowest: str = ""
    highest: str = ""
    lower: str = ""
    upper: str = ""
    lower_choices: tuple[tuple[str, bool], ...] = ()
    upper_choices: tuple[tuple[str, bool], ...] = ()
    categories: tuple[tuple[str, bool], ...] = ()
    more: int = 0


def _column_field(attribute: Attribute, posted: QueryDict) -> ColumnField:
    name = attribute.name
    if attribute.in_time:
        return _field_in_time(attribute, posted)
    if not attribute.is_numeric:
        chosen = posted.getlist(f"in.{name}")
        return ColumnField(
            name=name,
            is_numeric=False,
            size=attribute.size,
            is_set=bool(chosen),
            categories=tuple((each, each in chosen) for each in attribute.categories[:_MAX_OFFERED_BINS]),
            more=max(0, attribute.size - _MAX_OFFERED_BINS),
        )
    edges = tuple(plain(edge) for edge in attribute.edges[:_MAX_OFFERED_BINS])
    lower, upper = posted.get(f"from.{name}", ""), posted.get(f"to.{name}", "")
    offered = edges if len(edges) > attribute.ranges else ()
    return ColumnField(
        name=name,
        is_numeric=True,
        is_in_order=True,
        size=attribute.ranges,
        is_set=bool(lower or upper),
        edges=edges,
        lowest=plain(attribute.edges[0]),
        highest=plain(attribute.edges[-1]),
        lower=lower,
        upper=upper,
        lower_choices=tuple((each, each == lower) for each in offered[:-1]),
        upper_choices=tuple((each, each == upper) for each in offered[1:]),
    )


def _field_in_time(attribute: Attribute, posted: QueryDict) -> ColumnField:
    bins, name = attribute.labels[: attribute.in_time], attribute.name
    lower, upper = posted.get(f"from.{name}", ""), posted.get(f"to.{name}", "")
    offered = bins[:_MAX_OFFERED_BINS]
    return ColumnField(
        name=name,
        is_numeric=False,
        is_in_order=True,
        size=attribute.size,
        is_set=bool(lower or upper),
        edges=offered,
        lowest=bins[0],
        highest=bins[-1],
        lower=lower,
        upper=upper,
        lower_choices=tuple((each, each == lower) for each in offered) if offered == bins else (),
        upper_choices=tuple((each, each == upper) for each in offered) if offered == bins else (),
    )
