"""Who may: each getter returns the object or raises a 404, so an object one may not see does not exist.

Whoever is not signed in is asked to sign in instead, also where there is no such object
(`releases/middleware/session_expiry.py`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast

from django.contrib.auth.models import Group, User
from django.db.models import Model, Q, QuerySet
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.utils.functional import SimpleLazyObject

from releases.engine.errors import InvalidInput
from releases.models import (
    AuditAction,
    AuditEvent,
    Collection,
    Dataset,
    Organisation,
    Release,
    ReleaseState,
    SavedWorkload,
    Session,
    Survey,
    Upload,
    WorkloadVersion,
)
from releases.models.role_rules import may_administer, may_review, may_upload

View = Callable[..., HttpResponseBase]
M = TypeVar("M", bound=Model)


class NotVisible(Http404):
    """There is no such object, or the person may not see it; nothing tells the two apart."""


def _get_visible(objects: QuerySet[M], pk: uuid.UUID) -> M:
    # There is one at most, and `first` would have it put in order.
    found = next(iter(objects.filter(pk=pk).order_by()), None)
    if found is None:
        raise NotVisible
    return found


def signed_in(request: HttpRequest) -> User:
    """The person of a page that needs a sign-in."""
    return cast("User", request.user)


def get_dataset_for(request: HttpRequest, dataset_id: uuid.UUID) -> Dataset:
    """A dataset one owns or shares a group with."""
    return _get_visible(Dataset.objects.visible_to(request.user).select_related("budget", "owner", "group"), dataset_id)


def get_upload_for(request: HttpRequest, upload_id: uuid.UUID) -> Upload:
    """A table that one sent oneself."""
    return _get_visible(Upload.objects.visible_to(request.user).select_related("dataset"), upload_id)


def get_workload_for(request: HttpRequest, workload_id: uuid.UUID) -> SavedWorkload:
    """A workload one owns or shares a group with."""
    visible = SavedWorkload.objects.visible_to(request.user).select_related("owner", "group")
    return get_object_or_404(visible, pk=workload_id)


def workload_of_release(request: HttpRequest, release: Release) -> WorkloadVersion | None:
    """The saved workload that a release was taken from, for those who may see it."""
    if release.workload_version_id is None:
        return None
    visible = SavedWorkload.objects.visible_to(request.user)
    named = WorkloadVersion.objects.filter(pk=release.workload_version_id, workload__in=visible)
    return named.select_related("workload").defer("questions", "columns").first()


def get_collection_for(request: HttpRequest, collection_id: uuid.UUID) -> Collection:
    """Releases planned together, of which one may read at least one."""
    visible = Collection.objects.visible_to(request.user)
    return _get_visible(visible.select_related("dataset__budget"), collection_id)


def get_own_collection_for(request: HttpRequest, collection_id: uuid.UUID) -> Collection:
    """Releases planned together, of a dataset one may work on."""
    own = Collection.objects.editable_by(request.user)
    return _get_visible(own.select_related("dataset__budget"), collection_id)


def groups_to_choose(person: User, held: int | None) -> QuerySet[Group]:
    """Those with which a person may share something: their own, and the one it is shared with already."""
    return Group.objects.filter(Q(pk__in=person.groups.values("pk")) | Q(pk=held)).order_by("name")


def own_group(person: User, name: str | None) -> Group | None:
    """A group of one's own by its name, as programs give it; None for nobody else.

    Raises:
        InvalidInput: one belongs to no such group.
    """
    group = person.groups.filter(name=name).first()
    if name is not None and group is None:
        raise InvalidInput("group", name, "must be the name of a group that you belong to")
    return group


def get_release_for(request: HttpRequest, release_id: uuid.UUID) -> Release:
    """A release one may read: public, or of a dataset one may work on."""
    return _get_visible(
        Release.objects.visible_to(request.user).select_related("dataset__budget", "dataset__owner", "submitted_by"),
        release_id,
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
            return render(request, "results/withdrawn.html", {"release": gone[0], "since": gone[1]}, status=410)

    return wrapped


def get_own_release_for(request: HttpRequest, release_id: uuid.UUID) -> Release:
    """A release of a dataset one may work on."""
    return _get_visible(
        Release.objects.editable_by(request.user).select_related("dataset__budget", "dataset__owner"), release_id
    )


def get_published_for(request: HttpRequest, release_id: uuid.UUID) -> Release:
    """A published release one may read."""
    return _get_visible(
        Release.objects.visible_to(request.user).filter(state=ReleaseState.PUBLISHED).select_related("dataset"),
        release_id,
    )


def get_session_for(request: HttpRequest, release_id: uuid.UUID) -> Session:
    """A session one may ask in, or one may read what was answered."""
    readable = Session.objects.readable_by(request.user).exclude(release__state=ReleaseState.WITHDRAWN)
    return _get_visible(readable, release_id)


def withdrawn_session(request: HttpRequest, release_id: uuid.UUID) -> Session | None:
    """A session whose answers one could read until they were withdrawn."""
    readable = Session.objects.readable_by(request.user).filter(release__state=ReleaseState.WITHDRAWN)
    return readable.filter(pk=release_id).first()


def get_own_session_for(request: HttpRequest, release_id: uuid.UUID) -> Session:
    """A session on a dataset one may work on."""
    own = Release.objects.editable_by(request.user)
    mine = Session.objects.for_asking(request.user).filter(release__in=own).select_related("release__dataset__budget")
    return _get_visible(mine, release_id)


def get_survey_for(request: HttpRequest, survey_id: uuid.UUID) -> Survey:
    """A survey one may read: of one's own, or closed and made public."""
    return _get_visible(Survey.objects.readable_by(request.user).select_related("owner", "group"), survey_id)


def get_own_survey_for(request: HttpRequest, survey_id: uuid.UUID) -> Survey:
    """A survey one owns or shares a group with."""
    return _get_visible(Survey.objects.visible_to(request.user).select_related("owner", "group"), survey_id)


def get_survey_to_answer(survey_id: uuid.UUID) -> Survey:
    """A survey that was opened: whoever has its link may see the question, and nobody is asked who they are."""
    return get_object_or_404(Survey.objects.for_answering().defer("result"), pk=survey_id)


def may_decide(request: HttpRequest) -> bool:
    return Organisation.current().lets_decide(request.user)


def roles(request: HttpRequest) -> dict[str, Any]:
    """For the templates: what the person may do by their roles."""
    return {
        "is_reviewer": SimpleLazyObject(lambda: may_review(request.user)),
        "is_administrator": SimpleLazyObject(lambda: may_administer(request.user)),
        "may_upload": SimpleLazyObject(lambda: may_upload(request.user)),
    }


def reviewers_only(view: View) -> View:
    """For reviewers. Others get the 404 that every unknown page gives."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not may_review(request.user):
            raise Http404
        return view(request, *args, **kwargs)

    return wrapped


def administrators_only(view: View) -> View:
    """For administrators. Others get the 404 that every unknown page gives."""

    @wraps(view)
    def wrapped(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        if not may_administer(request.user):
            raise Http404
        return view(request, *args, **kwargs)

    return wrapped
