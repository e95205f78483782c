"""Certifying: the largest error of a published release measured with noise, planned here, confirmed like any release.

What pages say of certificates is made from plans and from published results alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor, inf, log10
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from releases import services
from releases.display.error_messages import in_words
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.domain.schema import Schema
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.engine.mechanisms.measured_error import NUMBER, MeasuredErrorPlan, rows_in_hundredths
from releases.engine.workload.kinds.largest_error import RELEASED_ANSWERS
from releases.forms.releases import CertificateForm
from releases.models import PLAIN, Release, ReleaseState
from releases.permissions import get_own_release_for, signed_in
from releases.planning import comparison
from releases.presentation.results.closer import RowsAreCloser, rows_are_closer
from releases.publication.receipt import percent, rows_text
from releases.questions.kinds.largest_error import certified_means, certified_parts
from releases.services.release_inputs import FILES
from releases.views.common.live_validation import status_of
from releases.views.common.wizard import budget_facts

#: Part of a release's epsilon that is proposed for its certificate: one number needs little.
DEFAULT_SHARE = Fraction(1, 20)
#: Beside the chosen epsilon, so many times it is planned too, to show what more would buy.
_LARGER = (2, 5, 10)


@dataclass(frozen=True, kw_only=True)
class Certified:
    """What a published certificate says of its release.

    Attributes:
        release: the certificate.
        sentence: its bound with its confidence.
        line: its number in the ledger.
        is_together: it holds together with the other certificates of its release; else by itself.
    """

    release: Release
    sentence: str
    line: int
    is_together: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "release": str(self.release.pk),
            "sentence": self.sentence,
            "epsilon": self.release.epsilon,
            "ledger_line": self.line,
            "holds": "together with the others" if self.is_together else "by itself",
        }


def certify(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """What a certificate would say and cost. All of it is in the address; a POST keeps it as a draft."""
    of = get_own_release_for(request, release_id)
    try:
        possible = services.release_inputs.certifiable(of)
    except services.release_inputs.Refusal as error:
        messages.info(request, in_words(error))
        return redirect("release_detail", release_id=of.pk)
    usual = {"epsilon": usual_epsilon(of), "delta": "0", "beta": "0.05", "what": next(iter(possible))}
    form = CertificateForm(
        request.POST if request.method == "POST" else request.GET,
        usual=usual,
        possible=list(possible),
        means=services.release_inputs.possible_means(of, next(iter(possible))),
    )
    plan, problem = None, ""
    if form.is_valid():
        try:
            plan = services.certificates.plan_certificate(of=of, **form.choice)
            if request.method == "POST" and not plan.infeasible:
                draft = services.certificates.draft_certificate(of=of, by=signed_in(request), **form.choice)
                return redirect("confirm", release_id=draft.pk)
        except (InvalidInput, services.release_inputs.Refusal) as error:
            problem = in_words(error)
    assert of.result is not None
    context = {
        "release": of,
        "dataset": of.dataset,
        "form": form,
        "problem": problem,
        "can_choose": len(possible) > 1,
        "counts": _counts_text(of.result["receipt"]["answers"]),
        "receipt": of.result["receipt"],
        **budget_facts(of.dataset.budget, Schema.from_json(of.result["receipt"]["schema"])),
        **(certificate_facts(plan, of) if plan is not None else {}),
    }
    is_wrong = bool(form.errors or problem)
    return render(request, "results/certify.html", context, status=status_of(request, is_wrong=is_wrong))


def _counts_text(number: int) -> str:
    return "its one count" if number == 1 else f"all {number:,} counts"


def usual_epsilon(of: Release) -> str:
    """What is proposed to begin with: a twentieth of what the release itself spent, or the least with which the noise
    adds at most half of what the release says of its answers; never more than the release spent."""
    spent = exact(of.epsilon, field="epsilon")
    proposed = spent * DEFAULT_SHARE
    assert of.result is not None
    half = of.result["receipt"]["bound"]["alpha"] / 2
    try:
        plan = services.certificates.plan_certificate(of=of, epsilon=decimal_text(proposed, places=12))
    except (InvalidInput, services.release_inputs.Refusal):
        return decimal_text(proposed, places=6)
    if _added(plan) > half:
        # Noise on one number is in inverse proportion to epsilon except for rounding: two digits are near enough.
        proposed = next((each for each in _steps(proposed, spent) if _added_at(plan, each) <= half), spent)
    return decimal_text(min(proposed, spent), places=6)


def _steps(low: Fraction, high: Fraction) -> Iterator[Fraction]:
    """Numbers of two digits between the two, ascending."""
    unit = Fraction(10) ** (floor(log10(low)) - 1)
    while (place := -(-low // unit) * unit) < high:
        yield place
        low = place + unit
        if low >= 100 * unit:
            unit *= 10


def _added(plan: Plan | None) -> float:
    return inf if plan is None or plan.expectation is None else plan.expectation.alpha


def _added_at(plan: Plan, epsilon: Fraction) -> float:
    return _added(comparison.at_epsilon(plan, epsilon))


def address_of_certificate(draft: Release) -> str:
    """Where a draft of a certificate is planned again, filled with what it holds."""
    assert draft.workload is not None
    parts = tuple(certified_parts(draft.workload))
    what = next(word for word, named in services.release_inputs.CERTIFIABLE.items() if set(named) == set(parts))
    held = {"what": what, "epsilon": draft.epsilon, "delta": draft.delta, "beta": draft.beta}
    asked = urlencode({**held, "means": certified_means(draft.workload)}, doseq=True)
    return f"{reverse('certify', args=[draft.certifies_id])}?{asked}"


def certificate_facts(plan: Plan, of: Release) -> dict[str, Any]:
    """What pages say of a certificate's plan. Public inputs only."""
    budget = of.dataset.budget
    row = comparison.compared([plan], budget)[0]
    facts: dict[str, Any] = {
        "of": of,
        "row": row,
        "why_not": row.why_not,
        "earlier": _begun(of),
    }
    if isinstance(plan, MeasuredErrorPlan) and plan.expectation is not None:
        adds = rows_text(plan.expectation.alpha, row.counted)
        facts |= {
            "adds": adds,
            "confidence": percent(1 - plan.beta),
            "fails": percent(plan.beta),
            "number": (number := plan.options[NUMBER.name]),
            "parts": number * (number + 1),
            "asked": plan.statistic.in_words,
            "means": [
                {"asked": plan.statistic.mean_in_words(each.word), "adds": rows_in_hundredths(each.added, row.counted)}
                for each in plan.means
            ],
            "own_margin": _own_margin(plan, of),
            "is_on_answers": _is_on_answers(plan),
            # What rounds to the same number of rows is not said to be less.
            "larger": [
                {"epsilon": decimal_text(again.budget.epsilon, places=8), "adds": less}
                for factor in _LARGER
                if (again := comparison.at_epsilon(plan, plan.budget.epsilon * factor))
                and again.expectation
                and (less := rows_text(again.expectation.alpha, row.counted)) != adds
            ],
        }
    return facts


def _own_margin(plan: MeasuredErrorPlan, of: Release) -> str:
    """What the release has proved of its answers, where the noise may add as much."""
    assert of.result is not None
    own, added = of.result["receipt"]["bound"], plan.expectation
    is_weaker = added is not None and added.alpha >= own["alpha"] and Proof(own["proof"]).is_proved
    return rows_text(own["alpha"], plan.schema.counted) if is_weaker else ""


def _is_on_answers(plan: MeasuredErrorPlan) -> bool:
    return [each.what for each in plan.statistic.released] == [RELEASED_ANSWERS]


def _begun(of: Release) -> QuerySet[Release]:
    """The certificates that were bought, whatever became of them."""
    bought = of.certificates.exclude(state__in=(ReleaseState.DRAFT, ReleaseState.CANCELLED))
    return bought.order_by("created_at")


def certificates_of(request: HttpRequest, of: Release) -> list[Certified]:
    """The published certificates of a release that somebody may read, as its page and its receipt show them."""
    return [
        Certified(
            release=each,
            sentence=_sentence(each),
            line=each.line,  # type: ignore[attr-defined]
            is_together=bool((each.result or {})["receipt"]["mechanism"]["options"].get(NUMBER.name)),
        )
        for each in Release.objects.for_certified(of, request.user)
    ]


def closer_of(of: Release, certificates: Sequence[Certified]) -> RowsAreCloser | None:
    """What the certificates that somebody may read prove of a release's synthetic rows beside its counts."""
    assert of.result is not None
    receipts = [each.release.result["receipt"] for each in certificates if each.release.result is not None]
    return rows_are_closer(of.result["receipt"], receipts)


def certified_files(receipt: dict[str, Any]) -> list[dict[str, str]]:
    """The files that a certificate's receipt speaks of; none of any other receipt."""
    asked = certified_parts(receipt["workload"])
    return [{"name": FILES[what], "sha256": named["sha256"]} for what, named in asked.items()]


def certification(request: HttpRequest, release: Release, *, is_own: bool) -> dict[str, Any]:
    """For a release's page: who has certified it, whether one may, and, of a certificate, what it is about."""
    if release.certifies_id is not None:
        of = Release.objects.filter(pk=release.certifies_id).only("title", "state").get()
        may_read = Release.objects.visible_to(request.user).filter(pk=of.pk).exists()
        return {"certified": of if may_read else None, "is_of_withdrawn": of.status is ReleaseState.WITHDRAWN}
    if release.result is None:
        return {}
    certificates = certificates_of(request, release)
    shown: dict[str, Any] = {"certificates": certificates}
    if release.status is ReleaseState.PUBLISHED:
        shown["closer"] = closer_of(release, certificates)
    if is_own and release.kind is PLAIN and release.status is ReleaseState.PUBLISHED:
        try:
            services.release_inputs.certifiable(release)
        except services.release_inputs.Refusal as error:
            shown["why_not_certified"] = in_words(error)
        else:
            shown["usual_epsilon"] = usual_epsilon(release)
    return shown


def _sentence(certificate: Release) -> str:
    assert certificate.result is not None
    bound = certificate.result["receipt"]["bound"]
    return f"at {percent(1 - Fraction(bound['beta']))} confidence {bound['says']}"
