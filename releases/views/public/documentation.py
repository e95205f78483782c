"""The documentation, for everybody."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from releases.display import documentation


@login_not_required
def contents(request: HttpRequest) -> HttpResponse:
    return render(request, "public/documentation.html", {"chapters": documentation.chapters()})


@login_not_required
def page(request: HttpRequest, page: str) -> HttpResponse:
    if (found := documentation.pages().get(page)) is None:
        raise Http404
    return render(request, "public/documentation_page.html", {"page": found})
