"""The page of releases that were planned together: one line for each, and what all of them spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from releases.engine.accounting import filters
from releases.ledger.balances import sum_text
from releases.models import Collection, LedgerEntry, Release, ReleaseState
from releases.presentation.releases.collection_check import confidence
from releases.presentation.releases.release_status import release_status
from releases.publication.archive import ARCHIVE
from releases.publication.report import HTML

#: What people download first, by the name without its ending.
_FIRST = ("report", "answers", "totals", "synthetic")


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """A file to download."""

    name: str
    address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class PartShown:
    """One release of a collection.

    Attributes:
        state: its chip; `says` what was found, or what becomes of it.
        bound: the accuracy in one sentence, where `says` is another; empty of one that is not finished.
    """

    title: str
    address: str
    state: ReleaseState
    says: str
    bound: str
    epsilon: str
    files: tuple[File, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CollectionPage:
    """What a reader may see of a collection.

    Attributes:
        parts: those that the reader may see.
        dataset_address: empty for readers who do not work on it.
        spent: by all of these together.
        confidence: how sure all of their bounds are at once.
        check_address: where drafts that are left are released; empty where there are none.
        address: what is fetched until nothing changes by itself; empty where nothing does.
        report_address: of one report of several results; empty while some are computed, and where there are not two.
        report: what it is called.
    """

    title: str
    dataset: str
    dataset_address: str
    parts: tuple[PartShown, ...]
    spent: str
    confidence: str
    check_address: str
    address: str
    report_address: str
    report: str


def collection_page(collection: Collection, releases: Sequence[Release], *, is_own: bool) -> CollectionPage:
    """
    Args:
        releases: `for_collection`, of which the reader may see each.
        is_own: the reader may work on the dataset.
    """
    states = {release.status for release in releases}
    waits = any(not each.is_final and each not in (ReleaseState.REVIEW, ReleaseState.DRAFT) for each in states)
    number = 0 if waits else sum(map(has_report, releases))
    return CollectionPage(
        title=collection.title,
        dataset=collection.dataset.title,
        dataset_address=reverse("dataset_detail", args=[collection.dataset_id]) if is_own else "",
        parts=tuple(_part(release, is_own=is_own) for release in releases),
        spent=_spent(releases),
        confidence=confidence(collection, releases),
        check_address=reverse("confirm_collection", args=[collection.pk])
        if is_own and ReleaseState.DRAFT in states
        else "",
        address=reverse("collection", args=[collection.pk]) if waits else "",
        report_address=reverse("collection_report", args=[collection.pk]) if number > 1 else "",
        report=f"One report of {'all' if number == len(releases) else f'the {number}'} results",
    )


def has_report(release: Release) -> bool:
    """
    Args:
        release: of `for_collection`.
    """
    return release.status is ReleaseState.PUBLISHED and HTML in (release.published_files or ())  # type: ignore[attr-defined]


def _part(release: Release, *, is_own: bool) -> PartShown:
    is_published = release.status is ReleaseState.PUBLISHED
    found = release.headline or "" if is_published else ""  # type: ignore[attr-defined]
    bound = release.bound_sentence or "" if is_published else ""  # type: ignore[attr-defined]
    status = release_status(release, is_own=is_own)
    waits = status.progress.label if status.progress is not None else status.meaning
    return PartShown(
        title=release.title,
        address=reverse("release_detail", args=[release.pk]),
        state=status.state,
        says=(found or bound) if is_published else waits,
        bound=bound if found else "",
        epsilon=release.epsilon,
        files=tuple(_files(release)) if is_published else (),
    )


def _files(release: Release) -> Sequence[File]:
    published = sorted(release.published_files or ())  # type: ignore[attr-defined]
    shown = [name for first in _FIRST for name in published if name.split(".")[0] == first and name.endswith(_SHOWN)]
    return [File(name=name, address=reverse("download", args=[release.pk, name])) for name in (*shown, ARCHIVE)]


#: Of a file in several forms, those that everybody can open.
_SHOWN = (".csv", ".html", ".pdf", ".docx")


def _spent(releases: Sequence[Release]) -> str:
    """What the ledger has of them; charges that were given back are none."""
    charges = LedgerEntry.objects.charges_that_stand().filter(release__in=[each.pk for each in releases])
    return sum_text(filters.Totals.of(each.amounts for each in charges.with_amounts()))
