"""Ranges learned from the data: which releases learned one, and which declared columns have theirs from such a release.

Nothing of this is stored beside the releases themselves. A column has its range from a release when its lowest and
highest edges are the two values that were released of it, and everybody who may see the columns may know that.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from releases.engine.errors import InvalidInput
from releases.engine.statistic import Range
from releases.engine.universe import Attribute, AttributeKind, Schema, Universe, places
from releases.models import Dataset, Release, ReleaseState

#: The mechanism that learns ranges.
MECHANISM = "exponential-range"
#: A learned range is offered in at most so many bins.
_MOST_BINS = 10


@dataclass(frozen=True, kw_only=True)
class LearnedRange:
    """The two values that a release said of a column. Paid for, like everything here.

    Attributes:
        release, title: which release.
        epsilon, delta: what it could spend, as decimals.
        lowest, highest: the ends that a declaration takes from it; never equal.
    """

    release: uuid.UUID
    title: str
    column: str
    epsilon: str
    delta: str
    lowest: Decimal
    highest: Decimal

    @property
    def cost(self) -> str:
        return f"epsilon {self.epsilon}" + (f", delta {self.delta}" if self.delta not in ("", "0") else "")

    def declares(self, attribute: Attribute) -> bool:
        """Whether a declared column's range is this one."""
        return attribute.is_numeric and (attribute.edges[0], attribute.edges[-1]) == (self.lowest, self.highest)

    def to_json(self) -> dict[str, str]:
        """For receipts, which strangers read: without the title."""
        return {
            "column": self.column,
            "release": str(self.release),
            "epsilon": self.epsilon,
            **({"delta": self.delta} if self.delta not in ("", "0") else {}),
        }


def learned_ranges(dataset: Dataset) -> list[LearnedRange]:
    """What releases of the dataset have said, the newest first. A withdrawn one was said all the same."""
    said = dataset.releases.filter(
        mechanism=MECHANISM, state__in=(ReleaseState.PUBLISHED, ReleaseState.WITHDRAWN)
    ).order_by("-published_at")
    fields = ("pk", "title", "epsilon", "delta", "workload", "result__receipt__notes")
    return [
        _learned(
            release=number,
            title=title,
            epsilon=epsilon,
            delta=delta,
            workload=workload,
            notes=notes,
        )
        for number, title, epsilon, delta, workload, notes in said.values_list(*fields)
    ]


def learned_by(release: Release) -> LearnedRange | None:
    """The range that a release learned; None where it learned none, or has not yet."""
    if release.mechanism != MECHANISM or release.result is None:
        return None
    return _learned(
        release=release.pk,
        title=release.title,
        epsilon=release.epsilon,
        delta=release.delta,
        workload=release.workload,
        notes=release.result["receipt"]["notes"],
    )


def origins(dataset: Dataset, universe: Universe | None) -> dict[str, LearnedRange]:
    """For each column whose range was learned: by which release, the first of several that said the same."""
    if universe is None:
        return {}
    found = {}
    for learned in learned_ranges(dataset):
        if learned.column in universe.names and learned.declares(universe[learned.column]):
            found[learned.column] = learned
    return found


def with_range(universe: Universe | None, learned: LearnedRange, release: Release) -> Universe:
    """The declared columns, one of them with the range that the release learned, in bins of a round width.

    Raises:
        InvalidInput: the column is declared as categories since.
    """
    assert release.result is not None
    planned = Schema.from_json(release.result["receipt"]["schema"]).universe[learned.column]
    declared = universe.attributes if universe is not None else ()
    present = next((each for each in declared if each.name == learned.column), None)
    if present is not None and not present.is_numeric:
        raise InvalidInput(learned.column, "categories", "must be declared as numbers to take a range")
    # How many places and what becomes of values outside: as declared now, else as it was learned.
    kept = planned if present is None or present.kind is not planned.kind else present
    attribute = replace(
        kept,
        edges=edges_between(learned.lowest, learned.highest),
        decimals=max(kept.decimals, *(places(each) for each in (learned.lowest, learned.highest))),
    )
    if present is None:
        return Universe(attributes=(*declared, attribute))
    return Universe(attributes=tuple(attribute if each is present else each for each in declared))


def with_bounds(universe: Universe, column: str, *, lowest: Decimal, highest: Decimal, decimals: int) -> Universe:
    """The declared columns, one of them with the widest range that certainly holds everything, in a single bin.

    A column that has these bounds already stays as it is.

    Raises:
        InvalidInput: they are no range.
    """
    present = universe[column]
    if not present.is_numeric:
        raise InvalidInput("column", column, "must be a numeric column")
    if (present.edges[0], present.edges[-1], present.decimals) == (lowest, highest, decimals):
        return universe
    if lowest >= highest:
        raise InvalidInput("highest", highest, f"must be above the lowest, {lowest:f}")
    if present.kind is AttributeKind.INTEGER:
        for field, value in (("lowest", lowest), ("highest", highest)):
            if value != value.to_integral_value():
                raise InvalidInput(field, value, "must be a whole number, as the column holds")
    widest = replace(present, edges=(lowest, highest), decimals=decimals)
    return Universe(attributes=tuple(widest if each is present else each for each in universe.attributes))


def edges_between(lowest: Decimal, highest: Decimal) -> tuple[Decimal, ...]:
    """Both ends, and between them bins of one width: 1, 2 or 5 times a power of ten; the last may be shorter."""
    unit = Decimal(1).scaleb(-max(places(lowest), places(highest)))
    power = unit
    while True:
        for width in (power, 2 * power, 5 * power):
            whole, rest = divmod(highest - lowest, width)
            bins = int(whole) + bool(rest)
            if bins <= _MOST_BINS:
                return (*(lowest + width * index for index in range(bins)), highest)
        power *= 10


def _learned(*, workload: Any, notes: dict[str, str], **known: Any) -> LearnedRange:
    (query,) = workload["queries"]
    lowest, highest = Decimal(notes["lowest"]), Decimal(notes["highest"])
    if lowest == highest:
        # A range has some width: the least that these numbers can have.
        highest += Decimal(1).scaleb(-places(highest))
    return LearnedRange(column=query[Range.kind]["column"], lowest=lowest, highest=highest, **known)
