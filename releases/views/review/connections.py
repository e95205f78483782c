"""Connections: the databases and folders whose tables curators may use; one page for administrators."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.review import ConnectionForm
from releases.models import RegisteredConnection
from releases.permissions import administrators_only, signed_in
from releases.services.connections import Unavailable


@sensitive_post_parameters("address")
@administrators_only
def connections(request: HttpRequest) -> HttpResponse:
    """All of them, those of the settings too, and a form that registers one."""
    form = ConnectionForm(request.POST or None)
    if form.is_valid():
        try:
            made = services.connections.register_connection(**form.cleaned_data, by=signed_in(request))
            messages.success(request, f"Curators can use the tables of {made.name} from now on.")
            return redirect("connections")
        except InvalidInput as error:
            form.refuse(error)
        except Unavailable as error:
            form.add_error("address", in_words(error))
    context = {
        "form": form,
        "found": services.connections.all_connections(),
        "secrets": settings.SECRETS_DIR,
        "folders": settings.CONNECTABLE_FOLDERS,
    }
    return render(request, "review/connections.html", context, status=400 if form.errors else 200)


@administrators_only
@require_POST
def remove_connection(request: HttpRequest, connection_id: uuid.UUID) -> HttpResponse:
    """Read nothing by a registered one any more."""
    removed = get_object_or_404(RegisteredConnection, pk=connection_id)
    services.connections.remove_connection(connection=removed, by=signed_in(request))
    messages.success(request, f"{removed} is removed. Datasets of it are refused from now on.")
    return redirect("connections")
