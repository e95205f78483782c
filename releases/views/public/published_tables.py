"""Synthetic rows from tables that somebody else published: made at once, saved by the browser, stored nowhere here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from releases.engine.metering import meter
from releases.forms.published_tables import PublishedTablesForm


def published_tables(request: HttpRequest) -> HttpResponse:
    is_sent = request.method == "POST"
    form = PublishedTablesForm(request.POST, request.FILES) if is_sent else PublishedTablesForm()
    if form.is_valid():
        meter()
        if (made := form.make()) is not None:
            response = HttpResponse(made.archive, content_type="application/zip")
            response["Content-Disposition"] = 'attachment; filename="synthetic-rows.zip"'
            return response
    return render(request, "public/published_tables.html", {"form": form}, status=400 if form.errors else 200)
