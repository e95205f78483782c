"""Two releases of the same dataset beside each other: where both answer a question, and how far apart they are.

Both numbers were paid for, so what is said here of the two together costs nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from releases import files
from releases.engine.universe import Schema
from releases.engine.workload import Family, Workload, read_question, unweighted
from releases.models import Release, ReleaseState
from releases.receipt import percent
from releases.views.access import get_published_for
from releases.views.results import PAGE_LENGTH, stored_rows

#: Releases offered to compare with.
MOST_OTHERS = 50


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A released count and where the truth lies."""

    estimate: float
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        # The lower end may have been cut off at 0; the upper end never is.
        return self.upper - self.estimate


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same count in two releases. Both intervals hold with probability 1 - (beta + beta') or more, so then the
    truth is in both, and the estimates differ by no more than the sum of their half widths."""

    labels: tuple[str, ...]
    first: Interval
    second: Interval

    @property
    def difference(self) -> float:
        return self.first.estimate - self.second.estimate

    @property
    def most(self) -> float:
        return self.first.half_width + self.second.half_width

    @property
    def lower(self) -> float:
        return max(self.first.lower, self.second.lower)

    @property
    def upper(self) -> float:
        return min(self.first.upper, self.second.upper)

    @property
    def is_apart(self) -> bool:
        """Whether no truth is in both intervals: one of the two bounds failed, as each may with its own beta."""
        return self.lower > self.upper


@login_not_required
def compare_releases(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Choose another release of the dataset, choose a question that both answer, and see both."""
    release = get_published_for(request, release_id)
    others = _others(request, release)
    other = _chosen(others, request.GET.get("other", ""))
    context: dict[str, Any] = {"release": release, "dataset": release.dataset, "others": others, "other": other}
    if other is not None:
        context |= _pairs_context(
            release, other, question=request.GET.get("question", ""), page=request.GET.get("page")
        )
    return render(request, "releases/compare_releases.html", context)


def _others(request: HttpRequest, release: Release) -> list[Release]:
    """Releases that one may read, of the same table declared in the same way, with a count in common."""
    asked = _queries(release)
    same_table = Release.objects.visible_to(request.user).filter(
        dataset=release.dataset_id, state=ReleaseState.PUBLISHED
    )
    newest = same_table.exclude(pk=release.pk).defer("plan").order_by("-published_at")[:MOST_OTHERS]
    return [
        each for each in newest if _receipt(each)["schema"] == _receipt(release)["schema"] and asked & _queries(each)
    ]


def _receipt(release: Release) -> dict[str, Any]:
    assert release.result is not None
    receipt: dict[str, Any] = release.result["receipt"]
    return receipt


def _queries(release: Release) -> set[str]:
    """The counts that a release answers, in words that can be compared."""
    receipt = _receipt(release)
    universe = Schema.from_json(receipt["schema"]).universe
    if not isinstance(read_question(receipt["workload"], universe), Workload):
        return set()
    # What is asked is the same however much it mattered.
    asked = [
        {name: value for name, value in query.items() if name != "weight"} for query in receipt["workload"]["queries"]
    ]
    return {json.dumps(query, sort_keys=True) for query in asked}


def _chosen(others: list[Release], number: str) -> Release | None:
    if not number:
        return None
    for each in others:
        if str(each.pk) == number:
            return each
    raise Http404


def _pairs_context(first: Release, second: Release, *, question: str, page: str | None) -> dict[str, Any]:
    universe = Schema.from_json(_receipt(first)["schema"]).universe
    ours, theirs = _workload(first), _workload(second)
    theirs_asked = set(map(unweighted, theirs.families))
    common = [family for family in map(unweighted, ours.families) if family in theirs_asked]
    chosen = int(question) if question.isascii() and question.isdecimal() and len(question) < 10 else 0
    family = common[chosen if chosen < len(common) else 0]
    cells = family.cells(universe)
    pages = -(-cells // PAGE_LENGTH)
    text = page or ""
    shown = min(max(int(text), 1), pages) if text.isascii() and text.isdecimal() and len(text) < 10 else 1
    start = (shown - 1) * PAGE_LENGTH
    stop = min(start + PAGE_LENGTH, cells)
    betas = [Fraction(_receipt(each)["bound"]["beta"]) for each in (first, second)]
    return {
        "first_receipt": _receipt(first),
        "second_receipt": _receipt(second),
        "confidence": percent(max(1 - sum(betas, Fraction(0)), Fraction(0))),
        "questions": [(str(number), each.title(universe)) for number, each in enumerate(common)],
        "question": str(common.index(family)),
        "title": family.title(universe),
        "heads": family.attributes,
        "pairs": [
            Pair(labels=labels, first=one, second=another)
            for labels, one, another in zip(
                islice(family.labels(universe), start, stop),
                _intervals(first, ours, family, start, stop),
                _intervals(second, theirs, family, start, stop),
                strict=True,
            )
        ],
        "cells": cells,
        "first_shown": start + 1,
        "last_shown": stop,
        "previous_page": str(shown - 1) if shown > 1 else "",
        "next_page": str(shown + 1) if shown < pages else "",
    }


def _workload(release: Release) -> Workload:
    receipt = _receipt(release)
    read = read_question(receipt["workload"], Schema.from_json(receipt["schema"]).universe)
    assert isinstance(read, Workload)
    return read


def _intervals(release: Release, workload: Workload, family: Family, start: int, stop: int) -> Iterator[Interval]:
    """The answers number `start` to `stop` of one family of a release."""
    position = list(map(unweighted, workload.families)).index(family)
    first = sum(each.cells(workload.universe) for each in workload.families[:position])
    stored = stored_rows(files.folder_of(release) / f"{files.ANSWERS}.parquet", first + start, first + stop)
    for estimate, lower, upper in zip(stored["estimate"], stored["lower"], stored["upper"], strict=True):
        yield Interval(estimate=estimate, lower=lower, upper=upper)
