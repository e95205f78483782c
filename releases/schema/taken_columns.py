"""Declared columns that another table can take: those that it has, or whose formula reads columns that it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.impossible import Combination, of_columns
from releases.engine.domain.universe import Universe
from releases.models import Dataset
from releases.schema.learned import Learned, learned_of


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnsToTake:
    """What of one table's declaration another can take, and what differs.

    Attributes:
        taken: declared there, and here for a column of the same name.
        learned: by name what a release learned from the rows of the other table; it is taken by nobody else, for the
            receipts of this table could not say what it cost.
        lacking: declared there, of columns that are not here.
        undeclared: columns of this table that neither declares.
    """

    taken: Mapping[str, Attribute]
    learned: Mapping[str, Learned]
    lacking: tuple[str, ...]
    undeclared: tuple[str, ...]


def columns_to_take(dataset: Dataset, source: Dataset) -> ColumnsToTake:
    """What a table can take of another's declaration; what it declares already is compared by its name alone."""
    attributes = source.universe.attributes if source.universe is not None else ()
    fitting = columns_there(attributes, dataset.columns)
    said = learned_of(source)
    learned = {name: found for name, each in fitting.items() if (found := _learned_in(each, said)) is not None}
    known = {*fitting, *(dataset.universe.names if dataset.universe is not None else ())}
    return ColumnsToTake(
        taken={name: each for name, each in fitting.items() if name not in learned},
        learned=learned,
        lacking=tuple(each.name for each in attributes if each.name not in fitting),
        undeclared=tuple(name for name in dataset.columns if name not in known),
    )


def impossible_to_take(dataset: Dataset, source: Dataset, columns: ColumnsToTake) -> list[Combination]:
    """Combinations of columns that a table takes, declared impossible there and not here, in whatever order."""
    own = dataset.universe.impossible if dataset.universe is not None else ()
    there = source.universe.impossible if source.universe is not None else ()
    known = {_in_no_order(each) for each in own}
    return [each for each in of_columns(there, columns.taken) if _in_no_order(each) not in known]


def _in_no_order(combination: Combination) -> frozenset[tuple[str, frozenset[str]]]:
    return frozenset((name, frozenset(labels)) for name, labels in combination.bins)


def columns_there(attributes: Sequence[Attribute], columns: Sequence[str]) -> dict[str, Attribute]:
    """By name those declared columns that a table has, or that are made from columns that it has."""
    there = set(columns)

    def fits(attribute: Attribute) -> bool:
        if attribute.formula is None:
            return attribute.name in there
        return attribute.name not in there and all(each.name in there for each in attribute.reads)

    return {each.name: each for each in attributes if fits(each)}


def merged_universe(dataset: Dataset, taken: Mapping[str, Attribute]) -> Universe:
    """A table's declared columns with those taken from elsewhere, in the order of the table."""
    own = {each.name: each for each in dataset.universe.attributes} if dataset.universe else {}
    place = {name: position for position, name in enumerate(dataset.columns)}
    both = sorted({**own, **taken}.values(), key=lambda each: place.get(each.name, len(place)))
    # What is declared impossible is checked when the columns are declared.
    return Universe(attributes=tuple(both))


def _learned_in(attribute: Attribute, said: Sequence[Learned]) -> Learned | None:
    """Which release learned something of a column. What a formula reads has no range and no categories of its own."""
    return next((each for each in said if each.column == attribute.name and each.standing_in(attribute)), None)
