"""Synthetic rows from tables that somebody else published: made at once, saved by the browser, stored nowhere here."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from releases.engine.errors import InvalidInput
from releases.engine.metering import meter
from releases.forms.published_tables import MAX_ROWS, PublishedTablesForm
from releases.publication.published_rows import PublishedRows, lines_of, published_rows

#: Combinations of values that a request may take, a second of a processor; `manage.py published` takes more.
MAX_CELLS = 300_000


def published_tables(request: HttpRequest) -> HttpResponse:
    is_sent = request.method == "POST"
    form = PublishedTablesForm(request.POST, request.FILES) if is_sent else PublishedTablesForm()
    if form.is_valid():
        meter()
        try:
            made = _rows_of(form)
        except InvalidInput as error:
            form.refuse(error)
        else:
            response = HttpResponse(made.archive, content_type="application/zip")
            response["Content-Disposition"] = 'attachment; filename="synthetic-rows.zip"'
            return response
    return render(request, "public/published_tables.html", {"form": form}, status=400 if form.errors else 200)


def _rows_of(form: PublishedTablesForm) -> PublishedRows:
    lines = {str(each.name): lines_of(str(each.name), each.read()) for each in form.sent}
    if len(lines) < len(form.sent):
        raise InvalidInput("tables", ", ".join(str(each.name) for each in form.sent), "must have different names")
    return published_rows(
        lines,
        universe=None,
        deviation=form.cleaned_data["deviation"] or 0.0,
        rows=form.cleaned_data["rows"],
        max_cells=MAX_CELLS,
        max_rows=MAX_ROWS,
    )
