"""The front page, and the catalogue of releases that curators made public."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases.models import BudgetRequest, Dataset, Notice, Release, ReleaseRequest, Session
from releases.views.access import is_reviewer, signed_in

#: Open sessions shown beside the catalogue; all of them have a page of their own.
MOST_SESSIONS = 5
#: New notices shown on the front page, newest first.
MOST_NOTICES = 5


@login_not_required
def home(request: HttpRequest) -> HttpResponse:
    """What waits for the person who signed in; the catalogue for everybody else."""
    if not request.user.is_authenticated:
        return redirect("catalogue")
    person = signed_in(request)
    new = Notice.objects.for_home(person)
    return render(
        request,
        "releases/home.html",
        {
            "datasets": Dataset.objects.for_list(person)[:6],
            "releases": Release.objects.for_list(person)[:8],
            "waiting": _waiting() if is_reviewer(person) else 0,
            "notices": new[:MOST_NOTICES],
            "more_notices": max(0, new.count() - MOST_NOTICES),
        },
    )


def _waiting() -> int:
    return BudgetRequest.objects.for_review().count() + ReleaseRequest.objects.for_review().count()


@login_not_required
def catalogue(request: HttpRequest) -> HttpResponse:
    wanted = request.GET.get("q", "").strip()
    found = Release.objects.for_catalogue()
    if wanted:
        found = found.filter(Q(title__icontains=wanted) | Q(dataset__title__icontains=wanted))
    page = Paginator(found, 20).get_page(request.GET.get("page"))
    sessions = Session.objects.for_list(request.user).filter(closed_at=None)[:MOST_SESSIONS]
    return render(request, "releases/catalogue.html", {"page": page, "wanted": wanted, "sessions": sessions})
