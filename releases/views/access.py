"""Who may: each getter returns the object or a 404, so an object one may not see does not exist."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, cast

from django.contrib.auth.models import Group, User
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.functional import SimpleLazyObject

from releases.models import (
    AuditAction,
    AuditEvent,
    Dataset,
    Organisation,
    Person,
    Release,
    ReleaseState,
    Session,
    Survey,
    Upload,
)

View = Callable[..., HttpResponseBase]


def signed_in(request: HttpRequest) -> User:
    """The person of a page that needs a sign-in."""
    return cast("User", request.user)


def get_dataset_for(request: HttpRequest, dataset_id: uuid.UUID) -> Dataset:
    """A dataset one owns or shares a group with."""
    return get_object_or_404(
        Dataset.objects.visible_to(request.user).select_related("budget", "owner", "group"), pk=dataset_id
    )


def get_upload_for(request: HttpRequest, upload_id: uuid.UUID) -> Upload:
    """A table that one sent oneself."""
    return get_object_or_404(Upload.objects.visible_to(request.user).select_related("dataset"), pk=upload_id)


def groups_to_choose(person: User, held: int | None) -> QuerySet[Group]:
    """Those with which a person may share something: their own, and the one it is shared with already."""
    return Group.objects.filter(Q(pk__in=person.groups.values("pk")) | Q(pk=held)).order_by("name")


def get_release_for(request: HttpRequest, release_id: uuid.UUID) -> Release:
    """A release one may read: public, or of a dataset one may work on."""
    return get_object_or_404(
        Release.objects.visible_to(request.user).select_related("dataset__budget", "dataset__owner", "submitted_by"),
        pk=release_id,
    )


def taken_back(release_id: uuid.UUID) -> tuple[Release, datetime] | None:
    """A release that was public, and since when it is not; whoever has cited it may learn that, and no more."""
    gone = Release.objects.filter(pk=release_id, state__in=(ReleaseState.WITHDRAWN, ReleaseState.PUBLISHED))
    release = gone.filter(is_public=False).first()
    about = AuditEvent.objects.filter(object_id=str(release_id)).order_by("-pk")
    if release is None or not about.filter(action=AuditAction.MAKE_PUBLIC).exists():
        return None
    if release.withdrawn_at is not None:
        return release, release.withdrawn_at
    hidden = about.filter(action=AuditAction.MAKE_PRIVATE).first()
    return (release, hidden.at) if hidden is not None else None


def says_if_withdrawn(view: View) -> View:
    """For what a public release gave away: whoever has its address is told that it was taken back, and since when."""

    @wraps(view)
    def wrapped(request: HttpRequest, release_id: uuid.UUID, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, release_id, *args, **kwargs)
        except Http404:
            if (gone := taken_back(release_id)) is None:
                raise
            return render(request, "releases/withdrawn.html", {"release": gone[0], "since": gone[1]}, status=410)

    return wrapped


def get_own_release_for(request: HttpRequest, release_id: uuid.UUID) -> Release:
    """A release of a dataset one may work on."""
    return get_object_or_404(
        Release.objects.editable_by(request.user).select_related("dataset__budget", "dataset__owner"), pk=release_id
    )


def get_published_for(request: HttpRequest, release_id: uuid.UUID) -> Release:
    """A published release one may read."""
    return get_object_or_404(
        Release.objects.visible_to(request.user).filter(state=ReleaseState.PUBLISHED).select_related("dataset"),
        pk=release_id,
    )


def get_session_for(request: HttpRequest, release_id: uuid.UUID) -> Session:
    """A session one may ask in, or one may read what was answered."""
    readable = Session.objects.readable_by(request.user).exclude(release__state=ReleaseState.WITHDRAWN)
    return get_object_or_404(readable, pk=release_id)


def withdrawn_session(request: HttpRequest, release_id: uuid.UUID) -> Session | None:
    """A session whose answers one could read until they were withdrawn."""
    readable = Session.objects.readable_by(request.user).filter(release__state=ReleaseState.WITHDRAWN)
    return readable.filter(pk=release_id).first()


def get_own_session_for(request: HttpRequest, release_id: uuid.UUID) -> Session:
    """A session on a dataset one may work on."""
    own = Release.objects.editable_by(request.user)
    mine = Session.objects.for_asking(request.user).filter(release__in=own).select_related("release__dataset__budget")
    return get_object_or_404(mine, pk=release_id)


def get_survey_for(request: HttpRequest, survey_id: uuid.UUID) -> Survey:
    """A survey one may read: of one's own, or closed and made public."""
    return get_object_or_404(Survey.objects.readable_by(request.user).select_related("owner", "group"), pk=survey_id)


def get_own_survey_for(request: HttpRequest, survey_id: uuid.UUID) -> Survey:
    """A survey one owns or shares a group with."""
    return get_object_or_404(Survey.objects.visible_to(request.user).select_related("owner", "group"), pk=survey_id)


def get_survey_to_answer(survey_id: uuid.UUID) -> Survey:
    """A survey that was opened: whoever has its link may see the question, and nobody is asked who they are."""
    return get_object_or_404(Survey.objects.for_answering().defer("result"), pk=survey_id)


def is_reviewer(person: Person) -> bool:
    """Whether somebody may look at the reviewers' pages: staff, and members of the group that decides."""
    if not person.is_authenticated:
        return False
    return bool(getattr(person, "is_staff", False)) or Organisation.objects.filter(reviewers__user=person.pk).exists()


def may_decide(request: HttpRequest) -> bool:
    return Organisation.current().lets_decide(request.user)


def reviewer(request: HttpRequest) -> dict[str, Any]:
    """For the templates: whether the person sees the reviewers' pages."""
    return {"is_reviewer": SimpleLazyObject(lambda: is_reviewer(request.user))}


def reviewers_only(view: View) -> View:
    """For reviewers. Others get the 404 that every unknown page gives."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not is_reviewer(request.user):
            raise Http404
        return view(request, *args, **kwargs)

    return wrapped


def staff_only(view: View) -> View:
    """For staff. Others get the 404 that every unknown page gives."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not request.user.is_staff:
            raise Http404
        return view(request, *args, **kwargs)

    return wrapped
