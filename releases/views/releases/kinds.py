"""Each kind of release on pages: where its draft is planned, and how it is confirmed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from releases.engine.mechanisms.base import Plan
from releases.models import CERTIFICATE, CHECK, PLAIN, SESSION, Release, ReleaseKind, ReleaseState
from releases.presentation.sessions.session_plan import session_plan
from releases.publication.receipt import rules_of
from releases.views.datasets.column_checks import address_of_check
from releases.views.results.certificates import address_of_certificate, certificate_facts
from releases.views.sessions.sessions import address_of_session

#: Earlier releases that are looked through for the same questions under the same declaration.
_MAX_ALIKE = 20


@dataclass(frozen=True, kw_only=True)
class KindPages:
    """The pages of a kind of release.

    Attributes:
        confirmation: the template.
        title_label: of the field for the title; `button`: what the button says that spends.
        address_of_plan: where a draft is planned, filled with what it holds.
        facts: what the confirmation says of this kind alone.
    """

    confirmation: str
    title_label: str
    button: str
    address_of_plan: Callable[[Release], str]
    facts: Callable[[HttpRequest, Release, Plan], dict[str, Any]]


def pages_of(release: Release) -> KindPages:
    return _PAGES[release.kind]


def _facts_of_counts(request: HttpRequest, release: Release, plan: Plan) -> dict[str, Any]:
    return {
        "rules": rules_of(plan.schema),
        "answered_before": _answered_before(request, release, plan),
    }


def _answered_before(request: HttpRequest, release: Release, plan: Plan) -> Release | None:
    """The newest finished release that one may read and that has answered the very same questions."""
    alike = Release.objects.visible_to(request.user).filter(
        dataset=release.dataset_id, state=ReleaseState.PUBLISHED, stored_questions__content=release.workload
    )
    schema = plan.schema.to_json()
    newest = alike.of_kind(PLAIN).select_related("stored_result").order_by("-published_at")[:_MAX_ALIKE]
    return next((each for each in newest if each.result and each.result["receipt"]["schema"] == schema), None)


def _facts_of_certificate(request: HttpRequest, release: Release, plan: Plan) -> dict[str, Any]:
    assert release.certifies is not None
    return certificate_facts(plan, release.certifies)


_PAGES: dict[ReleaseKind, KindPages] = {
    PLAIN: KindPages(
        confirmation="releases/confirm.html",
        title_label="Title of the release",
        button="Spend and release",
        address_of_plan=lambda release: reverse("compare", args=[release.pk]),
        facts=_facts_of_counts,
    ),
    SESSION: KindPages(
        confirmation="sessions/session_confirm.html",
        title_label="Title of the session",
        button="Spend and open",
        address_of_plan=address_of_session,
        facts=lambda request, release, plan: {"planned": session_plan(plan, release.dataset)},
    ),
    CERTIFICATE: KindPages(
        confirmation="results/certificate_confirm.html",
        title_label="Title of the certificate",
        button="Spend and measure",
        address_of_plan=address_of_certificate,
        facts=_facts_of_certificate,
    ),
    CHECK: KindPages(
        confirmation="datasets/check_confirm.html",
        title_label="Title of the check",
        button="Spend and check",
        address_of_plan=address_of_check,
        facts=lambda request, release, plan: {},
    ),
}
