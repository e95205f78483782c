"""What the latest check of a table says of the columns of a plan, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from django.urls import reverse

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.models import Release
from releases.publication.column_checks import CheckedColumn, checked_columns, latest_check

#: Columns of which a sentence is shown.
_MOST = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnCheck:
    """A check, seen from a plan, or by itself.

    Attributes:
        release: the check; None where the table never had one.
        found: what it found of the plan's columns, the worst first.
        misread: the columns that certainly leave out more than half of the rows, in one sentence; empty where none
            does.
    """

    release: Release | None
    found: tuple[str, ...] = ()
    misread: str = ""

    def address_beside(self, release: Release) -> str:
        """Where the check can be read; empty where there is none, or it is looked at itself."""
        if self.release is None or self.release == release:
            return ""
        return reverse("release_detail", args=[self.release.pk])


@dataclass(frozen=True, kw_only=True, slots=True)
class LeftOut:
    """What becomes of values that were not declared, in some parts of what is released.

    Attributes:
        titles: of these parts; empty where there is one alone.
        found: what the latest check of the table says of their columns.
    """

    titles: str
    rules: tuple[str, ...]
    found: tuple[str, ...]

    @property
    def says(self) -> str:
        """What the check found, and of which parts; empty where there is nothing to say."""
        return " ".join([*([f"In {self.titles}:"] if self.titles else []), *self.found])


NO_CHECK = ColumnCheck(release=None)


def column_check(release: Release, universe: Universe) -> ColumnCheck:
    """The latest check of the table, of the columns of a plan."""
    check = latest_check(release.dataset) if release.kind.counts_by_rules else None
    return NO_CHECK if check is None else _findings(check, universe)


def own_findings(check: Release) -> ColumnCheck:
    """A published check, of the columns as they were declared then."""
    assert check.result is not None
    states = Schema.from_json(check.result["receipt"]["schema"]).universe.attributes
    return _findings(check, Universe(attributes=tuple(each.state_of for each in states if each.state_of is not None)))


def _findings(check: Release, universe: Universe) -> ColumnCheck:
    checked = sorted(checked_columns(check, universe), key=lambda each: each.left_out, reverse=True)
    misread = [each.declared.name for each in checked if each.is_misread]
    leave = "leaves" if len(misread) == 1 else "leave"
    return ColumnCheck(
        release=check,
        found=tuple(_found(checked, universe)),
        misread=f"{', '.join(misread)} {leave} out more than half of the rows." if misread else "",
    )


def _found(checked: Sequence[CheckedColumn], universe: Universe) -> list[str]:
    shown = [each for each in checked if each.left_out[0] > 0][:_MOST]
    sentences = [f"{each.declared.name} leaves out {_between(*each.left_out)} of the rows." for each in shown]
    if others := checked[len(shown) :]:
        each_of = "Each other column" if shown else "Each column"
        sentences.append(f"{each_of} leaves out at most {ceil(100 * max(each.left_out[1] for each in others))}%.")
    names = {each.declared.name for each in checked}
    own = [each.name for each in universe.attributes if each.per_person is None]
    if changed := [name for name in own if name not in names]:
        sentences.append(f"Declared otherwise since, so not checked: {', '.join(changed)}.")
    return sentences


def _between(least: float, most: float) -> str:
    low, high = floor(100 * least), ceil(100 * most)
    return f"{low}% to {high}%" if low < high else f"{low}%"
