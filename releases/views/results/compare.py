"""Two releases of the same dataset beside each other: where both answer a question, and how far apart they are.

Both numbers were paid for, so what is said here of the two together costs nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.defaultfilters import floatformat

from releases.engine.domain.universe import Schema, Universe
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Family, Workload, unweighted
from releases.engine.workload.questions import Question
from releases.engine.workload.statistic import Part
from releases.forms.releases import ComparisonLinkForm
from releases.models import Release, ReleaseState
from releases.permissions import NotVisible, get_published_for
from releases.presentation.results.answers import PAGE_LENGTH
from releases.presentation.results.statistics import number_text
from releases.presentation.results.stored_answers import stored_rows
from releases.publication import files
from releases.publication.receipt import percent

#: Releases offered to compare with.
MAX_OTHERS = 50


#: What two releases can have in common: a family of counts, or a statistic's kind with one part of its answer.
Asked = Family | tuple[str, Part]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A released number and where the truth lies."""

    estimate: float
    lower: float
    upper: float

    @property
    def half_width(self) -> float:
        # An end may have been cut off where no truth can be; then the other is the half width.
        return max(self.upper - self.estimate, self.estimate - self.lower)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """The same number in two releases. Both intervals hold with probability 1 - (beta + beta') or more, so then the
    truth is in both, and the estimates differ by no more than the sum of their half widths."""

    labels: tuple[str, ...]
    first: Interval
    second: Interval
    is_count: bool = True
    #: What stands above the labels, and above the two numbers.
    heads: tuple[str, ...] = ()
    titles: tuple[str, str] = ("", "")

    def text(self, value: float) -> str:
        """A count as whole rows; another statistic with the digits it was released with."""
        if not self.is_count:
            return number_text(value)
        whole = str(floatformat(abs(value), "0g"))
        return f"−{whole}" if value < 0 and whole != "0" else whole

    @property
    def named(self) -> list[tuple[str, str]]:
        """The labels with their heads."""
        return list(zip(self.heads, self.labels, strict=True))

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """What stands in the table: each release's title, and its number with its half width."""
        both = zip(self.titles, (self.first, self.second), strict=True)
        return [(title, self.text(each.estimate), self.text(each.half_width)) for title, each in both]

    @property
    def difference_text(self) -> str:
        return self.text(self.difference)

    @property
    def most_text(self) -> str:
        return self.text(self.most)

    @property
    def range_text(self) -> str:
        return f"{self.text(self.lower)} to {self.text(self.upper)}"

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
    is_choice = not _is_measured(release)
    others = [] if is_choice else _others(request, release)
    link = ComparisonLinkForm(request.GET).given
    other = _chosen(others, link["other"])
    context: dict[str, Any] = {
        "release": release,
        "dataset": release.dataset,
        "is_choice": is_choice,
        "others": [(each, each == other) for each in others],
        "other": other,
    }
    if other is not None:
        context |= _pairs_context(release, other, question=link["question"] or 0, page=link["page"])
    return render(request, "results/compare_releases.html", context)


def _others(request: HttpRequest, release: Release) -> list[Release]:
    """Releases that one may read, of the same table, with columns declared alike and a number in common."""
    asked, schema = set(_asked(release)), _schema(release)
    same_table = Release.objects.visible_to(request.user).filter(
        dataset=release.dataset_id, state=ReleaseState.PUBLISHED
    )
    newest = same_table.exclude(pk=release.pk).defer("plan").order_by("-published_at")[:MAX_OTHERS]
    return [
        each
        for each in newest
        if _declare_alike(_schema(each), schema) and not asked.isdisjoint(_asked(each)) and _is_measured(each)
    ]


def _receipt(release: Release) -> dict[str, Any]:
    assert release.result is not None
    receipt: dict[str, Any] = release.result["receipt"]
    return receipt


def _schema(release: Release) -> Schema:
    return Schema.from_json(_receipt(release)["schema"])


def _declare_alike(one: Schema, other: Schema) -> bool:
    """Whether columns that both have are declared alike, so that a bin means the same in both."""
    alike = set(one.universe.attributes) & set(other.universe.attributes)
    return {each.name for each in alike} == set(one.universe.names) & set(other.universe.names)


def _count_the_same_rows(one: Schema, other: Schema) -> bool:
    """Whether the true counts are the same in two releases whose columns are declared alike, whatever is in the table:
    a column of one alone leaves no row out. Which of a person's rows are kept depends on all columns.
    """
    if (one.unit, one.neighbours) != (other.unit, other.neighbours):
        return False
    alone = set(one.universe.attributes) ^ set(other.universe.attributes)
    return not alone or (one.unit.kind == "row" and not any(each.may_drop for each in alone))


def _question(release: Release) -> Question:
    return read_answered(_receipt(release)["workload"], _schema(release).universe)


def _asked(release: Release) -> tuple[Asked, ...]:
    """What a release answers, in the order of its answers, so that two releases can be compared."""
    question = _question(release)
    if isinstance(question, Workload):
        # What is asked is the same however much it mattered.
        return tuple(map(unweighted, question.families))
    return tuple((question.statistic.kind, part) for part in question.families)


def _is_measured(release: Release) -> bool:
    """Whether its answers are numbers with an interval; what was chosen from a list has none."""
    return (
        isinstance(_question(release), Workload)
        or "estimate" in files.read_answers(files.folder_of(release)).column_names
    )


def _chosen(others: list[Release], number: str) -> Release | None:
    if not number:
        return None
    for each in others:
        if str(each.pk) == number:
            return each
    raise NotVisible


def _pairs_context(first: Release, second: Release, *, question: int, page: str | None) -> dict[str, Any]:
    universe = _schema(first).universe
    ours, theirs = _asked(first), _asked(second)
    theirs_asked = set(theirs)
    common = [asked for asked in ours if asked in theirs_asked]
    asked = common[question if question < len(common) else 0]
    family = _part(asked)
    shown = Paginator(range(family.cells(universe)), PAGE_LENGTH).get_page(page)
    start, stop = shown.start_index() - 1, shown.end_index()
    betas = [Fraction(_receipt(each)["bound"]["beta"]) for each in (first, second)]
    return {
        "is_of_persons": _schema(first).unit.kind == "person",
        "is_of_other_rows": not _count_the_same_rows(_schema(first), _schema(second)),
        "first_receipt": _receipt(first),
        "second_receipt": _receipt(second),
        "confidence": percent(max(1 - sum(betas, Fraction(0)), Fraction(0))),
        "questions": [(number, _part(each).title(universe), each == asked) for number, each in enumerate(common)],
        "title": family.title(universe),
        "heads": family.attributes,
        "pairs": [
            Pair(
                labels=labels,
                first=one,
                second=another,
                is_count=not isinstance(asked, tuple),
                heads=tuple(family.attributes),
                titles=(first.title, second.title),
            )
            for labels, one, another in zip(
                islice(family.labels(universe), start, stop),
                _intervals(first, universe, ours, asked, start, stop),
                _intervals(second, universe, theirs, asked, start, stop),
                strict=True,
            )
        ],
        "page": shown,
    }


def _part(asked: Asked) -> Family | Part:
    return asked[1] if isinstance(asked, tuple) else asked


def _intervals(
    release: Release, universe: Universe, every: tuple[Asked, ...], asked: Asked, start: int, stop: int
) -> Iterator[Interval]:
    """The answers number `start` to `stop` of one thing that a release answers."""
    before = every[: every.index(asked)]
    first = sum(_part(each).cells(universe) for each in before)
    stored = stored_rows(files.folder_of(release) / f"{files.ANSWERS}.parquet", first + start, first + stop)
    for estimate, lower, upper in zip(stored["estimate"], stored["lower"], stored["upper"], strict=True):
        yield Interval(estimate=estimate, lower=lower, upper=upper)
