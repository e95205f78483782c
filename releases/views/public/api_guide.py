"""How programs use the site: what a token is, and every call of a release's way as it can be typed."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


@login_not_required
def programs(request: HttpRequest) -> HttpResponse:
    """The examples are whole scripts in pieces, with this site's own address; a test runs them as they stand here."""
    return render(request, "public/programs.html", {"site": request.build_absolute_uri("/").rstrip("/")})
