"""Data, first half, where the table is in a database: it is chosen from a list, and stays where it is."""

from __future__ import annotations

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.uploads import DatabaseTableForm
from releases.models.role_rules import NotAllowed, check_may_upload
from releases.permissions import signed_in
from releases.views.common.wizard import frame


def databases(request: HttpRequest) -> HttpResponse:
    """The databases that this site may read, for curators; the only one at once."""
    if (refused := _refused(request)) is not None:
        return refused
    found = services.connections.connections()
    if len(found) == 1:
        return redirect("database_table", database=found[0].name)
    return render(request, "datasets/databases.html", {"connections": found, **frame("data")})


def database_table(request: HttpRequest, database: str) -> HttpResponse:
    """Its tables, one of which becomes a dataset."""
    if (refused := _refused(request)) is not None:
        return refused
    if (named := services.connections.find_connection(database)) is None:
        raise Http404
    context = {"connection": named, **frame("data")}
    try:
        listed = services.connections.tables_of(named)
        form = DatabaseTableForm(request.POST or None, tables=listed.tables)
        if form.is_valid():
            made = services.connections.register_table(
                owner=signed_in(request), listed=listed, **{name: form.cleaned_data[name] for name in form.fields}
            )
            return redirect("columns", dataset_id=made.pk)
    except InvalidInput as error:
        form.add_error(error.field if error.field in form.fields else None, in_words(error))
    except services.connections.Unavailable as error:
        return render(request, "datasets/database_table.html", {**context, "why_not": in_words(error)}, status=409)
    return render(
        request, "datasets/database_table.html", {**context, "form": form}, status=400 if form.errors else 200
    )


def _refused(request: HttpRequest) -> HttpResponse | None:
    try:
        check_may_upload(signed_in(request))
    except NotAllowed as refusal:
        return render(request, "403.html", {"why": in_words(refusal)}, status=403)
    return None
