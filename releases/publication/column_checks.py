"""What checks of the columns have released: of each column, how many rows are certainly left out by its rule."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

from releases.engine.domain.attribute import Attribute
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_answered
from releases.models import CHECK, Budget, Dataset, Release, ReleaseState
from releases.publication import files

#: So many checks may be charged to one budget: they find a mistake in the declaration, and are no way to ask.
MOST_CHECKS = 2
#: States in which nothing is charged for a check.
_NOT_CHARGED = (ReleaseState.DRAFT, ReleaseState.REVIEW, ReleaseState.CANCELLED)


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedColumn:
    """What a check says of a column.

    Attributes:
        declared: the column, as it was declared then.
        states: for each way that its values can read, how many rows there are at least and at most. All of them hold
            at once, with the confidence of the check.
    """

    declared: Attribute
    states: dict[str, tuple[float, float]]

    @property
    def left_out(self) -> tuple[float, float]:
        """The share of the rows that the column's rule leaves out, from 0 to 1: at least and at most."""
        dropped = [ends for state, ends in self.states.items() if self.declared.drops(state)]
        kept = [ends for state, ends in self.states.items() if not self.declared.drops(state)]
        return _share(_sum(dropped, 0), _sum(kept, 1)), _share(_sum(dropped, 1), _sum(kept, 0))

    @property
    def is_misread(self) -> bool:
        """Whether more than half of the rows are certainly left out."""
        return self.left_out[0] > 0.5


def checks_had(budget: Budget) -> int:
    """How many checks are charged to a budget."""
    return Release.objects.of_kind(CHECK).filter(dataset__budget=budget).exclude(state__in=_NOT_CHARGED).count()


def latest_check(dataset: Dataset) -> Release | None:
    """The newest check of a table; none where its answers are away."""
    published = dataset.releases.of_kind(CHECK).filter(state=ReleaseState.PUBLISHED)
    newest = published.order_by("-published_at").first()
    return newest if newest is not None and files.has_answers(newest) else None


def checked_columns(check: Release, universe: Universe) -> tuple[CheckedColumn, ...]:
    """What a published check says of those columns of a universe that are declared as they were then."""
    assert check.result is not None
    receipt = check.result["receipt"]
    workload = read_answered(receipt["workload"], Schema.from_json(receipt["schema"]).universe)
    answers = files.read_answers(files.folder_of(check))
    ends = zip(answers["lower"].to_pylist(), answers["upper"].to_pylist(), strict=True)
    checked = []
    for family in workload.families:
        counts = list(islice(ends, family.cells(workload.universe)))
        state = workload.universe[family.attributes[0]]
        is_of_all = len(family.attributes) == 1 and len(counts) == state.size
        if is_of_all and state.name in universe.names and _read_alike(state.state_of, universe[state.name]):
            states = dict(zip(state.categories, counts, strict=True))
            checked.append(CheckedColumn(declared=universe[state.name], states=states))
    return tuple(checked)


def misread_columns(release: Release, universe: Universe) -> list[str]:
    """The columns of a release that certainly leave out more than half of the rows, by the latest check."""
    check = latest_check(release.dataset) if release.kind.counts_by_rules else None
    return [] if check is None else [each.declared.name for each in checked_columns(check, universe) if each.is_misread]


def _read_alike(before: Attribute | None, now: Attribute) -> bool:
    """Whether each value of a column reads as it did, whatever becomes of those that do not read as declared."""
    return before is not None and replace(before, outside=now.outside, missing_as=now.missing_as) == now


def _sum(ends: list[tuple[float, float]], which: int) -> float:
    return sum(each[which] for each in ends)


def _share(part: float, others: float) -> float:
    return part / (part + others) if part + others else 0.0
