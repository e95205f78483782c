"""A release's entry for the public registry of deployments, to download."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from releases.ledger import audit_log
from releases.models import AuditAction
from releases.permissions import get_published_for, signed_in
from releases.publication.readme import name_of
from releases.publication.registry_entry import registry_entry


@login_not_required
def registry(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    release = get_published_for(request, release_id)
    assert release.result is not None
    entry = registry_entry(
        release.result["receipt"],
        address=request.build_absolute_uri(reverse("receipt", args=[release.pk])),
        is_session=release.kind.is_interactive,
    )
    reader = signed_in(request) if request.user.is_authenticated else None
    audit_log.record(AuditAction.DOWNLOAD, actor=reader, on=release, detail="deployment.yaml")
    told_apart = f"{name_of(release.title, str(release.pk))}-deployment.yaml"
    attached = {"Content-Disposition": f'attachment; filename="{told_apart}"'}
    return HttpResponse(entry, content_type="application/yaml; charset=utf-8", headers=attached)
