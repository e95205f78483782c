"""Lists of predicates, which some statistics are about: for each its attributes and, for each, the accepted bins."""

from __future__ import annotations

from typing import TypeAlias

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.queries import Count, read_count

Predicates: TypeAlias = tuple[tuple[tuple[str, ...], tuple[tuple[int, ...], ...]], ...]


def read_predicates(value: object, universe: Universe, *, field: str) -> Predicates:
    """Read a list of counts.

    Raises:
        InvalidInput: naming the field, the value and the rule.
    """
    if not isinstance(value, list) or not value:
        raise InvalidInput(field, value, "must be a list of predicates")
    counts = [read_count(each, universe) for each in value]
    return tuple((count.attributes, count.bins) for count in counts)


def tell_rows_apart(predicates: Predicates, universe: Universe) -> bool:
    """Whether one of the counts can come out otherwise for another table of as many rows."""
    return any(Count(attributes=names, bins=bins).tells_rows_apart(universe) for names, bins in predicates)


def columns_used(predicates: Predicates, universe: Universe) -> tuple[str, ...]:
    """The columns of all the predicates, in the universe's order."""
    used = {name for names, _ in predicates for name in names}
    return tuple(sorted(used, key=universe.axis))
