"""A draft's plan, saved as a file and loaded from one."""

from __future__ import annotations

import json
import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.releases import PlanFileForm
from releases.models import ReleaseState
from releases.permissions import get_own_release_for, signed_in
from releases.planning.plan_file import PlanFile, plan_from_file, plan_to_file


def plan_file(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """What a draft or a release asks, may spend and is run by, to load into another draft."""
    release = get_own_release_for(request, release_id)
    if not release.kind.has_steps:
        # Neither is planned from a file: a session by its address, a certificate on the page of its release.
        return redirect("release_detail", release_id=release.pk)
    held = PlanFile(
        workload=release.workload,
        epsilon=release.epsilon,
        delta=release.delta if release.epsilon else "",
        beta=release.beta if release.epsilon else "",
        mechanism=release.mechanism,
        options=(release.options or {}).get(release.mechanism, {}),
    )
    text = json.dumps(plan_to_file(held), indent=2, ensure_ascii=False) + "\n"
    response = HttpResponse(text, content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="plan.json"'
    return response


@require_POST
def load_plan(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Fill a draft from a file: all that the file says, or nothing of it."""
    release = get_own_release_for(request, release_id)
    if release.status is not ReleaseState.DRAFT or not release.kind.has_steps:
        return redirect("release_detail", release_id=release.pk)
    form = PlanFileForm(request.POST, request.FILES)
    if not form.is_valid():
        messages.error(request, " ".join(str(each) for each in form.errors["plan"]))
        return redirect("questions", release_id=release.pk)
    try:
        loaded = plan_from_file(form.cleaned_data["plan"])
        services.releases.load_plan(
            release=release,
            by=signed_in(request),
            workload=loaded["workload"],
            epsilon=loaded["epsilon"],
            delta=loaded["delta"],
            beta=loaded["beta"],
            mechanism_name=loaded["mechanism"],
            options=loaded["options"],
        )
    except (InvalidInput, services.release_inputs.Refusal) as error:
        messages.error(request, f"The plan was not loaded. {in_words(error)}")
        return redirect("questions", release_id=release.pk)
    messages.success(request, "Loaded. Nothing is spent until you confirm.")
    release.refresh_from_db()
    return redirect("compare" if release.workload else "questions", release_id=release.pk)
