"""What the latest check of a table says of the columns of a plan, in sentences."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.models import Release
from releases.publication.column_checks import latest_check, left_out_in_words, misread_in_words, worst_first


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnCheck:
    """A check, seen from a plan, or by itself.

    Attributes:
        release: the check; None where the table never had one.
        found: what it found of the plan's columns, the worst first.
        misread: the columns of which certainly more than half of the rows are left out, or cannot be read as declared,
            in sentences; empty where there is none.
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
    checked = worst_first(check, universe)
    return ColumnCheck(
        release=check, found=tuple(left_out_in_words(check, checked, universe)), misread=misread_in_words(checked)
    )
