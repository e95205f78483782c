"""Declarations learned from the data: the ranges and categories that releases said, and which declared columns have
theirs from such a release.

Nothing of this is stored beside the releases themselves. A column has its range from a release when its lowest and
highest edges are the two values that were released of it, and categories from one when values that it found are among
them. Everybody who may see the columns may know that.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

from releases.engine.domain.attribute import DROP, Attribute, places
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.impossible import within
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.workload.kinds.categories import Categories
from releases.engine.workload.kinds.range import Range
from releases.models import Dataset, Release, ReleaseState
from releases.schema.missing_values import NO_VALUE

#: A learned range is offered in at most so many bins.
_MAX_BINS = 10


@dataclass(frozen=True, kw_only=True)
class Learned(ABC):
    """What a release said of a column that its declaration can take over. Paid for, like everything here.

    Class attributes:
        what: range or categories, as in sentences and in receipts.
        mechanism: the one that learns it.

    Attributes:
        release, title: which release.
        epsilon, delta: what it could spend, as decimals.
    """

    what: ClassVar[str]
    mechanism: ClassVar[str]

    release: uuid.UUID
    title: str
    column: str
    epsilon: str
    delta: str

    @property
    def is_range(self) -> bool:
        """Whether it is of one thing, a range; categories are many."""
        return isinstance(self, LearnedRange)

    @classmethod
    @abstractmethod
    def of(cls, *, workload: Any, notes: dict[str, Any], **known: Any) -> Learned:
        """From the questions and the notes of a published release."""

    @property
    def cost(self) -> str:
        return f"epsilon {self.epsilon}" + (f", delta {self.delta}" if self.delta not in ("", "0") else "")

    @property
    @abstractmethod
    def is_something(self) -> bool:
        """Whether there is anything to take over."""

    @abstractmethod
    def standing_in(self, attribute: Attribute) -> set[Hashable]:
        """What of it stands in a column's declaration."""

    @abstractmethod
    def taken_over(self, present: Attribute | None, planned: Attribute) -> Attribute:
        """The column as it is declared now, or else as it was when it was planned, with what was learned.

        Raises:
            InvalidInput: it is declared as something else since.
        """

    def to_json(self) -> dict[str, str]:
        """For receipts, which strangers read: without the title."""
        return {
            "column": self.column,
            "release": str(self.release),
            "epsilon": self.epsilon,
            **({"delta": self.delta} if self.delta not in ("", "0") else {}),
        }


@dataclass(frozen=True, kw_only=True)
class LearnedRange(Learned):
    """The two values that a release said of a numeric column.

    Attributes:
        lowest, highest: the ends that a declaration takes from it; never equal.
    """

    what: ClassVar[str] = "range"
    mechanism: ClassVar[str] = "exponential-range"

    lowest: Decimal
    highest: Decimal

    @classmethod
    def of(cls, *, workload: Any, notes: dict[str, Any], **known: Any) -> LearnedRange:
        (query,) = workload["queries"]
        lowest, highest = Decimal(notes["lowest"]), Decimal(notes["highest"])
        if lowest == highest:
            # A range has some width: the least that these numbers can have.
            highest += Decimal(1).scaleb(-places(highest))
        return cls(column=query[Range.kind]["column"], lowest=lowest, highest=highest, **known)

    @property
    def is_something(self) -> bool:
        return True

    def standing_in(self, attribute: Attribute) -> set[Hashable]:
        ends = (self.lowest, self.highest)
        return {ends} if attribute.is_numeric and (attribute.edges[0], attribute.edges[-1]) == ends else set()

    def taken_over(self, present: Attribute | None, planned: Attribute) -> Attribute:
        """In bins of a round width."""
        if present is not None and not present.is_numeric:
            raise InvalidInput(self.column, "categories", "must be declared as numbers to take a range")
        # How many places and what becomes of values outside: as declared now, else as it was learned.
        kept = planned if present is None or present.kind is not planned.kind else present
        return replace(
            kept,
            edges=edges_between(self.lowest, self.highest),
            open_ends=(),
            decimals=max(kept.decimals, *(places(each) for each in (self.lowest, self.highest))),
        )


@dataclass(frozen=True, kw_only=True)
class LearnedCategories(Learned):
    """The values of a column that a release found in many rows.

    Attributes:
        values: in order; none of them was declared when the release was planned.
    """

    what: ClassVar[str] = "categories"
    mechanism: ClassVar[str] = "stable-histogram"

    values: tuple[str, ...]

    @classmethod
    def of(cls, *, workload: Any, notes: dict[str, Any], **known: Any) -> LearnedCategories:
        (query,) = workload["queries"]
        return cls(column=query[Categories.kind], values=tuple(notes["categories"]), **known)

    @property
    def is_something(self) -> bool:
        return bool(self.values)

    def standing_in(self, attribute: Attribute) -> set[Hashable]:
        declared = set(attribute.categories)
        return {each for each in self.values if each in declared}

    def taken_over(self, present: Attribute | None, planned: Attribute) -> Attribute:
        """Beside the categories there are; those for other and for missing values come last. A column that was not
        declared gets one for missing values."""
        kept = planned if present is None else present
        if kept.has_grammar:
            raise InvalidInput(
                self.column, "dates" if kept.dates else "numbers", "must be declared as categories to take values"
            )
        last = [each for each in (kept.outside, kept.missing_as) if each not in ("", DROP)]
        there = [each for each in kept.categories if each not in last]
        declared = {*kept.categories, *kept.missing}
        new = [each for each in self.values if each not in declared]
        taken = replace(kept, categories=(*there, *new, *last))
        if present is not None:
            return taken
        names = dict.fromkeys((*taken.categories, NO_VALUE))
        return replace(taken, categories=tuple(names), missing_as=NO_VALUE)


#: What can be learned, by the mechanism that learns it.
KINDS: dict[str, type[Learned]] = {each.mechanism: each for each in (LearnedRange, LearnedCategories)}


def learned_of(dataset: Dataset) -> list[Learned]:
    """What releases of the dataset have said, the oldest first. A withdrawn one was said all the same."""
    said = dataset.releases.filter(
        mechanism__in=KINDS, state__in=(ReleaseState.PUBLISHED, ReleaseState.WITHDRAWN)
    ).order_by("published_at")
    fields = (
        "mechanism",
        "pk",
        "title",
        "epsilon",
        "delta",
        "stored_questions__content",
        "stored_result__content__receipt__notes",
    )
    return [
        KINDS[mechanism].of(release=number, title=title, epsilon=epsilon, delta=delta, workload=workload, notes=notes)
        for mechanism, number, title, epsilon, delta, workload, notes in said.values_list(*fields)
    ]


def learned_by(release: Release) -> Learned | None:
    """What a release learned; None where it learned nothing of a declaration, or has not yet."""
    if release.mechanism not in KINDS or release.result is None:
        return None
    return KINDS[release.mechanism].of(
        release=release.pk,
        title=release.title,
        epsilon=release.epsilon,
        delta=release.delta,
        workload=release.workload,
        notes=release.result["receipt"]["notes"],
    )


def origins(dataset: Dataset, universe: Universe | None) -> list[Learned]:
    """From which releases the declaration of columns was learned; of several that said the same the first."""
    if universe is None:
        return []
    found, known = [], defaultdict[str, set[Hashable]](set)
    for learned in learned_of(dataset):
        if learned.column in universe.names:
            standing = learned.standing_in(universe[learned.column]) - known[learned.column]
            if standing:
                found.append(learned)
            known[learned.column] |= standing
    return found


def with_learned(universe: Universe | None, learned: Learned, release: Release) -> Universe:
    """The declared columns, one of them with what the release learned.

    Raises:
        InvalidInput: the column is declared as something else since.
    """
    assert release.result is not None
    planned = Schema.from_json(release.result["receipt"]["schema"]).universe[learned.column]
    present = _declared(universe, learned.column)
    return _with(universe, present, learned.taken_over(present, planned))


def with_catch_all(universe: Universe, column: str, *, other: str) -> Universe:
    """The declared columns, one of them with a category for every value that is not declared. Its categories stay.

    Raises:
        InvalidInput: the word is no category, or the column is declared as numbers.
    """
    present = _declared(universe, column)
    if present is not None and present.has_grammar:
        raise InvalidInput("column", column, "must not be declared as numbers or dates")
    if other == DROP:
        raise InvalidInput("other", other, "must be another word: this one leaves rows out")
    if present is None:
        caught = Attribute(name=column, kind=AttributeKind.CATEGORICAL, categories=(other,), outside=other)
    else:
        there = present.categories
        caught = replace(present, categories=there if other in there else (*there, other), outside=other)
    return universe if caught == present else _with(universe, present, caught)


def _declared(universe: Universe | None, column: str) -> Attribute | None:
    return universe[column] if universe is not None and column in universe.names else None


def _with(universe: Universe | None, present: Attribute | None, attribute: Attribute) -> Universe:
    """One attribute in another's place, or after all others."""
    declared = universe.attributes if universe is not None else ()
    if present is None:
        changed = (*declared, attribute)
    else:
        changed = tuple(attribute if each is present else each for each in declared)
    # Of bins that are no longer there nothing is impossible; declaring them says so.
    return Universe(attributes=changed, impossible=within(universe.impossible, changed) if universe is not None else ())


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
    return _with(universe, present, replace(present, edges=(lowest, highest), open_ends=(), decimals=decimals))


def edges_between(lowest: Decimal, highest: Decimal) -> tuple[Decimal, ...]:
    """Both ends, and between them bins of one width: 1, 2 or 5 times a power of ten; the last may be shorter."""
    unit = Decimal(1).scaleb(-max(places(lowest), places(highest)))
    power = unit
    while True:
        for width in (power, 2 * power, 5 * power):
            whole, rest = divmod(highest - lowest, width)
            bins = int(whole) + bool(rest)
            if bins <= _MAX_BINS:
                return (*(lowest + width * index for index in range(bins)), highest)
        power *= 10
