"""Declared columns that another table can take: those that it has, or whose formula reads columns that it has.

A column here may be taken for one there whose name is written in another way, where a person has said so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.impossible import Combination, of_columns
from releases.engine.domain.universe import Universe
from releases.models import Dataset
from releases.schema.learned import Learned, learned_of
from releases.schema.similar_names import SimilarNames, similar_names


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnsToTake:
    """What of one table's declaration another can take, and what differs.

    Attributes:
        taken: declared there, and here for a column of the same name, or of one that is paired with it; by the name
            here, and as it is called here.
        learned: by name what a release learned from the rows of the other table; it is taken by nobody else, for the
            receipts of this table could not say what it cost.
        lacking: declared there, of columns that are not here.
        undeclared: columns of this table that neither declares.
    """

    taken: Mapping[str, Attribute]
    learned: Mapping[str, Learned]
    lacking: tuple[str, ...]
    undeclared: tuple[str, ...]


def similar_columns(dataset: Dataset, source: Dataset) -> SimilarNames:
    """Columns that the other table's declaration or protection names, and this table writes in another way."""
    attributes = source.universe.attributes if source.universe is not None else ()
    named = [each.name for attribute in attributes for each in attribute.reads]
    id_column = source.budget.privacy_unit.id_column if source.budget is not None else None
    return similar_names([*named, *([id_column] if id_column is not None else [])], dataset.columns)


def columns_to_take(dataset: Dataset, source: Dataset, pairs: Mapping[str, str] | None = None) -> ColumnsToTake:
    """What a table can take of another's declaration; what it declares already is compared by its name alone.

    Args:
        pairs: by the name there, that of a column here which is the same one.
    """
    names = pairs or {}
    attributes = source.universe.attributes if source.universe is not None else ()
    known_there = [*dataset.columns, *names]
    fitting = columns_there(attributes, known_there)
    said = learned_of(source)
    learned = {name: found for name, each in fitting.items() if (found := _learned_in(each, said)) is not None}
    own = {each.name: each for each in dataset.universe.attributes} if dataset.universe is not None else {}
    taken = [each.of_columns(names) for name, each in fitting.items() if name not in learned]
    known = {*(names.get(name, name) for name in fitting), *own}
    return ColumnsToTake(
        taken={each.name: _with_own_range(each, own.get(each.name)) for each in taken},
        learned=learned,
        lacking=tuple(each.name for each in attributes if each.name not in fitting),
        undeclared=tuple(name for name in dataset.columns if name not in known),
    )


def _with_own_range(taken: Attribute, own: Attribute | None) -> Attribute:
    """With the range of dates that is declared here already: it is another one in each table."""
    if own is None or own.dates is None or taken.dates is None or not taken.dates.is_like(own.dates):
        return taken
    return replace(taken, dates=own.dates)


def impossible_to_take(
    dataset: Dataset, source: Dataset, columns: ColumnsToTake, pairs: Mapping[str, str] | None = None
) -> list[Combination]:
    """Combinations of columns that a table takes, declared impossible there and not here, in whatever order."""
    own = dataset.universe.impossible if dataset.universe is not None else ()
    there = source.universe.impossible if source.universe is not None else ()
    there = tuple(each.of_columns(pairs or {}) for each in there)
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
