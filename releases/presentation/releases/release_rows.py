"""Releases as lines of a list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.urls import reverse

from releases.models import Release, ReleaseState, RequestState


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRow:
    """One release.

    Attributes:
        is_used_up: an open session that answers nothing new; else `state` is its chip.
        found: what a published one found, in one sentence, where the query asked for that.
        remark: who can see it, or what a reviewer made of it.
    """

    title: str
    address: str
    found: str
    dataset: str
    state: ReleaseState
    is_used_up: bool
    remark: str
    epsilon: str
    begun_at: datetime


def release_rows(releases: Iterable[Release]) -> tuple[ReleaseRow, ...]:
    """
    Args:
        releases: each `with_review`.
    """
    return tuple(map(_row, releases))


def _row(release: Release) -> ReleaseRow:
    return ReleaseRow(
        title=release.title,
        address=reverse("release_detail", args=[release.pk]),
        found=(getattr(release, "headline", "") or "") if release.status is ReleaseState.PUBLISHED else "",
        dataset=release.dataset.title,
        state=release.shown_state,
        is_used_up=release.status is ReleaseState.OPEN and getattr(release, "used_up_at", None) is not None,
        remark=_remark(release),
        epsilon=release.epsilon or "–",
        begun_at=release.created_at,
    )


def _remark(release: Release) -> str:
    if release.status is ReleaseState.PUBLISHED:
        return "public" if release.is_public else "private: visible to the dataset team"
    if release.status is not ReleaseState.DRAFT:
        return ""
    state, epsilon = release.review_state, release.review_epsilon  # type: ignore[attr-defined]
    if state == RequestState.APPROVED and epsilon == release.epsilon:
        return f"approved for epsilon {epsilon}, to be confirmed"
    return "a reviewer returned it with a question" if state == RequestState.ASKED_BACK else ""
