"""Two releases beside each other: choose another that answers the same, and see how far apart both are."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_not_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from releases.forms.releases import ComparisonLinkForm
from releases.models import Release, ReleaseState
from releases.permissions import NotVisible, get_published_for
from releases.presentation.results.release_comparison import (
    Comparable,
    comparable,
    is_measured,
    release_comparison,
    why_not_compared,
)

#: Releases offered of the same dataset, and of others, each the newest.
MAX_OTHERS = 50
#: Of other datasets so many are looked at.
_MAX_SEEN = 100


@login_not_required
def compare_releases(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Choose another release, choose a question that both answer, and see both."""
    release = get_published_for(request, release_id)
    is_choice = not is_measured(release)
    ours = comparable(release)
    own, others = ([], []) if is_choice else _offered(request, release, ours)
    link = ComparisonLinkForm(request.GET).given
    other = _chosen(request, release, [*own, *others], link["other"])
    why_not, page = "", None
    if other is not None and not is_choice:
        why_not = why_not_compared(ours, other)
        page = (
            None if why_not else release_comparison(release, other, question=link["question"] or 0, page=link["page"])
        )
    context = {
        "release": release,
        "is_choice": is_choice,
        "why_not": why_not,
        "groups": [
            (title, [(each, each == other) for each in listed])
            for title, listed in (("The same table", own), ("Other tables", others))
            if listed
        ],
        "page": page,
    }
    return render(request, "results/compare_releases.html", context)


def _offered(request: HttpRequest, release: Release, ours: Comparable) -> tuple[list[Release], list[Release]]:
    """Those that the person may read and that can be compared: of the same table, and of others."""
    readable = _readable(request, release)
    own = readable.filter(dataset=release.dataset_id)[:MAX_OTHERS]
    others = readable.exclude(dataset=release.dataset_id)[:_MAX_SEEN]
    return (
        [each for each in own if not why_not_compared(ours, each)],
        [each for each in others if not why_not_compared(ours, each)][:MAX_OTHERS],
    )


def _readable(request: HttpRequest, release: Release) -> QuerySet[Release]:
    visible = Release.objects.visible_to(request.user).filter(state=ReleaseState.PUBLISHED).exclude(pk=release.pk)
    return visible.select_related("dataset", "stored_result").order_by("-published_at")


def _chosen(request: HttpRequest, release: Release, offered: list[Release], number: str) -> Release | None:
    """The other release, also one that is not offered."""
    if not number:
        return None
    found = next((each for each in offered if str(each.pk) == number), None)
    if found is not None:
        return found
    try:
        return _readable(request, release).get(pk=uuid.UUID(number))
    except (ValueError, Release.DoesNotExist):
        raise NotVisible from None
