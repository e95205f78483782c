"""What checks of the columns have released: of each column, how many rows are certainly left out by its rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil, floor

from releases.engine.domain.attribute import UNREADABLE, Attribute
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_answered
from releases.models import CHECK, Budget, Dataset, Release, ReleaseState
from releases.publication import files
from releases.publication.readme import BY_CHECK

#: So many checks may be charged to one budget: they find a mistake in the declaration, and are no way to ask.
MOST_CHECKS = 2
#: Said of a table whose rows come and go.
_OF_THEN = "The table is in a database, so that is of the rows that were there then."
#: Columns of which a sentence is shown.
_MOST_SHOWN = 5
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
    def unreadable(self) -> tuple[float, float]:
        """The share of the rows whose value cannot be read as declared, whatever becomes of them."""
        unread = [ends for state, ends in self.states.items() if state == UNREADABLE]
        others = [ends for state, ends in self.states.items() if state != UNREADABLE]
        return _share(_sum(unread, 0), _sum(others, 1)), _share(_sum(unread, 1), _sum(others, 0))

    @property
    def is_left_out(self) -> bool:
        """Whether more than half of the rows are certainly left out."""
        return self.left_out[0] > 0.5

    @property
    def is_misread(self) -> bool:
        """Whether that is so, or more than half certainly cannot be read: where these have a bin, it is in no count of
        anything that was asked."""
        return self.is_left_out or self.unreadable[0] > 0.5


def checks_had(budget: Budget) -> int:
    """How many checks are charged to a budget."""
    return Release.objects.of_kind(CHECK).filter(dataset__budget=budget).exclude(state__in=_NOT_CHARGED).count()


def latest_check(dataset: Dataset, *, before: Release | None = None) -> Release | None:
    """The newest check of a table, or the newest before one of its releases; none where its answers are away."""
    published = dataset.releases.of_kind(CHECK).filter(state=ReleaseState.PUBLISHED)
    if before is not None:
        published = published.filter(published_at__lt=before.published_at)
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


def misread_in_words(checked: Sequence[CheckedColumn]) -> str:
    """Which columns are certainly misread, in a sentence for each reason; empty where none is."""
    left_out = [each.declared.name for each in checked if each.is_left_out]
    unread = [each.declared.name for each in checked if each.is_misread and not each.is_left_out]
    leave = "leaves" if len(left_out) == 1 else "leave"
    said = [f"{', '.join(left_out)} {leave} out more than half of the rows."] if left_out else []
    said += [f"{', '.join(unread)} cannot be read as declared in more than half of the rows."] if unread else []
    return " ".join(said)


def misread_columns(release: Release, universe: Universe) -> str:
    """The columns of a release that are certainly misread, by the latest check, in words."""
    check = latest_check(release.dataset) if release.kind.counts_by_rules else None
    return "" if check is None else misread_in_words(checked_columns(check, universe))


def left_out_in_words(check: Release, checked: Sequence[CheckedColumn], universe: Universe) -> list[str]:
    """Which share of the rows each column leaves out, the columns in the order given, in sentences."""
    shown = [each for each in checked if each.left_out[0] > 0][:_MOST_SHOWN]
    sentences = [f"{each.declared.name} leaves out {_between(*each.left_out)} of the rows." for each in shown]
    sentences += [
        f"{each.declared.name} cannot be read as declared in {_between(*each.unreadable)} of the rows."
        for each in checked
        if each.unreadable[0] > 0 and not each.declared.drops(UNREADABLE)
    ][:_MOST_SHOWN]
    if others := checked[len(shown) :]:
        each_of = "Each other column" if shown else "Each column"
        sentences.append(f"{each_of} leaves out at most {ceil(100 * max(each.left_out[1] for each in others))}%.")
    # Rows that one column leaves out may be among those of another, or be others.
    most = sum(each.left_out[1] for each in checked)
    if len(checked) > 1 and most < 1 and not universe.own_rows:
        least = max(each.left_out[0] for each in checked)
        sentences.append(f"Together they leave out {_between(least, most)} of the rows.")
    names = {each.declared.name for each in checked}
    own = [each.name for each in universe.attributes if each.per_person is None]
    if changed := [name for name in own if name not in names]:
        sentences.append(f"Declared otherwise since, so not checked: {', '.join(changed)}.")
    return [*sentences, _OF_THEN] if sentences and check.dataset.is_in_database else sentences


def worst_first(check: Release, universe: Universe) -> list[CheckedColumn]:
    """As `checked_columns`, those that leave out most rows first."""
    return sorted(checked_columns(check, universe), key=lambda each: each.left_out, reverse=True)


def check_before(release: Release) -> Release | None:
    """The latest check that was published before a release that leaves rows out by rules."""
    assert release.result is not None
    is_asked = release.kind.counts_by_rules and Schema.from_json(release.result["receipt"]["schema"]).rows_may_vanish
    return latest_check(release.dataset, before=release) if is_asked else None


def check_in_readme(release: Release, address_of: Callable[[Release], str]) -> list[str]:
    """What was bought before a release about the rows that its columns leave out: to all who may read the release where
    the check is public too, else where it is."""
    if (check := check_before(release)) is None:
        return []
    assert release.result is not None
    universe = Schema.from_json(release.result["receipt"]["schema"]).universe
    found = left_out_in_words(check, worst_first(check, universe), universe) if check.is_public else []
    if not found:
        return [f"A check of the columns, made before, says more to those who may read it: {address_of(check)}"]
    return [" ".join([f"{BY_CHECK} ({address_of(check)}):", *found])]


def _between(least: float, most: float) -> str:
    low, high = floor(100 * least), ceil(100 * most)
    return f"{low}% to {high}%" if low < high else f"{low}%"


def _read_alike(before: Attribute | None, now: Attribute) -> bool:
    """Whether each value of a column reads as it did, whatever becomes of those that do not read as declared."""
    return before is not None and replace(before, outside=now.outside, missing_as=now.missing_as) == now


def _sum(ends: list[tuple[float, float]], which: int) -> float:
    return sum(each[which] for each in ends)


def _share(part: float, others: float) -> float:
    return part / (part + others) if part + others else 0.0
