"""Whether a draft is at the step that a person asks for; where not, where to."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from releases.engine.errors import InvalidInput
from releases.models import Release, ReleaseState
from releases.permissions import get_own_release_for
from releases.views.common.wizard import workload_of
from releases.views.releases.kinds import pages_of


def draft_or_result(
    request: HttpRequest, release_id: uuid.UUID, *, is_confirmed: bool = False
) -> Release | HttpResponse:
    """A draft one may work on; a submitted release's steps lead to its page.

    A session's and a certificate's lead to their own plan, but for the confirmation, which all have.
    """
    release = get_own_release_for(request, release_id)
    if release.status is not ReleaseState.DRAFT:
        return redirect("release_detail", release_id=release.pk)
    if not release.kind.has_steps and not is_confirmed:
        return redirect(pages_of(release).address_of_plan(release))
    return release


def back_to_questions(request: HttpRequest, release: Release) -> HttpResponse | None:
    """To the questions, where there are none, or where the columns have changed and they no longer fit."""
    try:
        if workload_of(release) is not None:
            return None
        messages.info(request, "Say first what the release should answer.")
    except InvalidInput:
        messages.info(request, "The columns have changed, and the questions no longer fit them.")
    return redirect("questions", release_id=release.pk)
