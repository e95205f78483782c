"""The front page, and the catalogue of releases that curators made public."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from releases.display.charts.answers import marginal_bars
from releases.display.charts.epsilon import belief_bars
from releases.display.glossary import WORDS
from releases.display.paging import PaginatorByKey, chosen_page
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.counted import Counted
from releases.forms.buttons import SearchForm
from releases.models import Dataset, Notice, Release, ReleaseQuerySet, Session
from releases.models.role_rules import may_review
from releases.permissions import signed_in
from releases.planning.epsilon_meaning import highest_posterior
from releases.presentation.releases.release_rows import release_rows
from releases.presentation.results.stored_answers import first_table
from releases.presentation.review.queue_page import requests_waiting
from releases.presentation.sessions.session_list import session_rows
from releases.publication import files
from releases.publication.receipt import counted_by, percent, rows_text
from releases.publication.search_index import folded
from releases.views.datasets.datasets import with_standings

#: Open sessions shown beside the catalogue; all of them have a page of their own.
MAX_SESSIONS = 5
#: New notices shown on the front page, newest first.
MAX_NOTICES = 5
#: Of each kind, on the front page.
MAX_DATASETS, MAX_RELEASES, MAX_REQUESTS = 6, 8, 8
#: Of the newest releases, those with a chart.
MAX_DRAWN = 2
#: Of the front page's picture of how far a belief of one half can rise.
_DRAWN_EPSILONS = ("0", "0.1", "0.5", "1", "2", "4")
#: Words that a search goes by; further ones are left out.
_MAX_WORDS = 8


@dataclass(frozen=True, kw_only=True)
class CatalogueEntry:
    """A published release as the catalogue lists it.

    Attributes:
        margin: how far its counts can be from the truth; empty where the bound is of something else.
        says: what it bounds then.
        confidence: with which probability; empty where nothing is known of the bound.
        proof: how it is known, where that is no proof.
        headline: what was found, in one sentence; empty of releases that have none.
        certificates: what was certified of it since, in words.
        about: what the table is, as it was put when the release was made.
    """

    release: Release
    margin: str
    says: str
    confidence: str
    proof: str
    headline: str
    certificates: tuple[CatalogueEntry, ...] = ()
    about: str = ""


def listed(releases: Iterable[Any]) -> list[CatalogueEntry]:
    """Releases of the catalogue's query with their bounds in short."""
    return [in_short(each, tuple(in_short(one) for one in each.listed_certificates)) for each in releases]


def in_short(release: Any, certificates: tuple[CatalogueEntry, ...] = ()) -> CatalogueEntry:
    """A release of a query with bounds, with its bound in short."""
    is_known, counted = release.bound_alpha is not None, Counted(release.bound_counts or Counted.ROWS)
    is_proved = not is_known or Proof(release.bound_proof).is_proved
    return CatalogueEntry(
        release=release,
        margin=f"± {rows_text(release.bound_alpha, counted)}" if is_known and not release.bound_says else "",
        says=release.bound_says or "",
        confidence=percent(1 - Fraction(release.bound_beta)) if is_known else "",
        proof="" if is_proved else release.bound_proof,
        headline=release.headline or "",
        certificates=certificates,
        about=getattr(release, "about", "") or "",
    )


@login_not_required
def home(request: HttpRequest) -> HttpResponse:
    """What a person has to do with: a reviewer what waits, a curator the datasets, anybody else what can be read.

    Whoever is not signed in is told what the site is.
    """
    if not request.user.is_authenticated:
        beliefs = [(each, highest_posterior(Fraction(1, 2), Fraction(each))) for each in _DRAWN_EPSILONS]
        newest = list(Release.objects.for_catalogue()[:MAX_RELEASES])
        context: dict[str, Any] = {
            "drawn": _drawn(newest[:MAX_DRAWN]),
            "releases": listed(newest[MAX_DRAWN:]),
            "beliefs": beliefs,
            "beliefs_chart": belief_bars(beliefs),
        }
        return render(request, "public/welcome.html", context)
    person = signed_in(request)
    new = Notice.objects.for_home(person)
    datasets = list(Dataset.objects.for_list(person)[:MAX_DATASETS])
    context = {
        "rows": with_standings(datasets),
        "notices": new[:MAX_NOTICES],
        "more_notices": max(0, new.count() - MAX_NOTICES),
    }
    is_reviewer = may_review(person)
    if is_reviewer:
        requests, waiting = requests_waiting(MAX_REQUESTS)
        context |= {"requests": requests, "waiting": waiting, "not_shown": waiting - len(requests)}
    if datasets:
        mine = Release.objects.for_list(person).with_review().with_headline()
        context["releases"] = release_rows(mine[:MAX_RELEASES])
    else:
        context["catalogue"] = listed(Release.objects.for_catalogue()[:MAX_RELEASES])
        if not is_reviewer:
            context["sessions"] = session_rows(Session.objects.that_answer(person)[:MAX_SESSIONS])
    return render(request, "public/home.html", context)


def _drawn(releases: list[Any]) -> list[dict[str, Any]]:
    """Releases with a small table of each, and its chart."""
    results = dict(
        Release.objects.filter(pk__in=[each.pk for each in releases]).values_list("pk", "stored_result__content")
    )
    drawn = []
    for each in listed(releases):
        result = results[each.release.pk]
        title, rows = first_table(result, files.folder_of(each.release)) if result is not None else ("", [])
        bars, chart = [row.to_json() for row in rows], None
        if bars and result is not None:
            chart = marginal_bars(bars, title=title, unit=counted_by(result["receipt"]).many)
        drawn.append({"listed": each, "title": title, "rows": rows, "chart": chart})
    return drawn


@login_not_required
def words(request: HttpRequest) -> HttpResponse:
    """What the words of the field mean."""
    return render(request, "public/words.html", {"words": sorted(WORDS, key=lambda each: each.name.lower())})


def found_in_catalogue(wanted: str) -> ReleaseQuerySet:
    """What is public and has every word of a search, in any order, in its title, its dataset's, or in what it tells of
    its columns and its table. What a curator has declared or written and not released is nobody else's to find."""
    found = Release.objects.for_catalogue()
    for each in wanted.split()[:_MAX_WORDS]:
        told = Q(searchable__text__contains=folded(each))
        found = found.filter(Q(title__icontains=each) | Q(dataset__title__icontains=each) | told)
    return found


@login_not_required
def catalogue(request: HttpRequest) -> HttpResponse:
    wanted = SearchForm(request.GET).wanted
    page = chosen_page(PaginatorByKey(found_in_catalogue(wanted), 20), request.GET)
    sessions = Session.objects.that_answer(request.user)[:MAX_SESSIONS]
    context = {"page": page, "releases": listed(page), "wanted": wanted, "sessions": session_rows(sessions)}
    return render(request, "public/catalogue.html", context)
