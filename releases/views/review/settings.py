"""The organisation's settings: one page for administrators, every change in the audit log."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.review import OrganisationForm
from releases.models import AuditAction, AuditEvent, Organisation
from releases.permissions import administrators_only, signed_in

#: Changes listed below the form; the log has all of them.
CHANGES_LENGTH = 10


@administrators_only
def organisation(request: HttpRequest) -> HttpResponse:
    current = Organisation.current()
    form = OrganisationForm(request.POST or None, initial=OrganisationForm.initial_of(current))
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            services.organisation.change_settings(
                by=signed_in(request),
                upload_cap_bytes=given["upload_cap"] * 2**20,
                default_epsilon=given["default_epsilon"],
                review_above=given["review_above"],
                most_per_person=given["most_per_person"],
                is_two_person=given["is_two_person"],
                reviewers=given["reviewers"],
                alert_addresses=given["alert_addresses"],
            )
        except InvalidInput as error:
            form.add_error(error.field if error.field in form.fields else None, in_words(error))
        else:
            messages.success(request, "Saved. It holds from now on.")
            return redirect("organisation")
    changes = AuditEvent.objects.for_log_page().filter(action=AuditAction.SETTINGS)[:CHANGES_LENGTH]
    context = {"form": form, "changes": changes}
    return render(request, "review/organisation.html", context, status=400 if form.errors else 200)
