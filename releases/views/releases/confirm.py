"""Confirm: the plan, its price and what it means, and the one button that spends."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.engine.domain.privacy import exact
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.forms.releases import TitleForm
from releases.ledger import ledger
from releases.models import Release, ReleaseState
from releases.permissions import signed_in
from releases.planning import comparison
from releases.planning.epsilon_meaning import beliefs
from releases.planning.usefulness import guessed_rows
from releases.presentation.error_messages import in_words
from releases.publication.receipt import rules_in_words
from releases.services.releases import plan_digest
from releases.views.common.wizard import frame
from releases.views.releases.drafts import back_to_questions, draft_or_result
from releases.views.results.certificates import address_of_certificate, certificate_facts
from releases.views.sessions.sessions import address_of_plan, session_facts

#: Earlier releases that are looked through for the same questions under the same declaration.
_MOST_ALIKE = 20


def confirm(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Confirm: the exact charge, the accuracy, and that it cannot be undone."""
    release = draft_or_result(request, release_id, is_confirmed=True)
    if isinstance(release, HttpResponse):
        return release
    if (back := back_to_questions(request, release)) is not None:
        return back
    if not release.epsilon or not release.mechanism:
        messages.info(request, "Choose a mechanism first.")
        return redirect("compare", release_id=release.pk)
    try:
        plan = services.plan_of(release=release)
    except (InvalidInput, services.Refusal) as error:
        messages.error(request, in_words(error))
        return redirect("compare", release_id=release.pk)
    row = _row(release, plan)
    if row is None:
        messages.info(request, "What was chosen answers another kind of question. Choose one of these mechanisms.")
        return redirect("compare", release_id=release.pk)
    problem = barred = row.why_not or _over_the_limit(release, row, signed_in(request))
    form = TitleForm(request.POST or None, initial={"title": release.title})
    reason = request.POST.get("reason", "").replace("\0", "")
    if request.method == "POST" and form.is_valid():
        try:
            if request.POST.get("plan") != plan_digest(plan):
                raise services.Refusal("The draft was changed since this page was shown. Read it once more.")
            services.name_release(release=release, title=form.cleaned_data["title"])
            services.submit_release(
                release=release,
                key=uuid.UUID(request.POST.get("key", "")),
                by=signed_in(request),
                reason=reason,
            )
        except (ledger.LedgerRefusal, services.Refusal, EngineError) as error:
            release.refresh_from_db()
            if release.status is not ReleaseState.DRAFT:
                # The first of two presses on the button came in between: this page is about what it submitted.
                return redirect("release_detail", release_id=release.pk)
            problem = in_words(error)
            # What was left when the page was shown may have been spent since.
            row = _row(release, plan) or row
            barred = row.why_not or _over_the_limit(release, row, signed_in(request))
        except ValueError:
            problem = "The form is out of date. Read it once more and confirm again."
        else:
            return redirect("release_detail", release_id=release.pk)
    epsilon = exact(release.epsilon, field="epsilon")
    why_it_waits = None if barred else services.why_it_waits(release=release, plan=plan, by=signed_in(request))
    context = {
        "form": form,
        "plan": plan,
        "fingerprint": plan_digest(plan),
        "row": row,
        "problem": problem,
        "can_be_confirmed": not barred,
        "key": uuid.uuid4(),
        **beliefs(epsilon),
        "rules": rules_in_words(plan.schema.universe),
        "answered_before": _answered_before(request, release, plan),
        "needs_review": why_it_waits is not None,
        "why_it_waits": why_it_waits.in_words("you") if why_it_waits is not None else "",
        "reason": reason,
        **frame("confirm", release.dataset, release),
    }
    refused = 409 if request.method == "POST" and problem else 200
    page = "releases/confirm.html"
    if release.is_session:
        page = "releases/session_confirm.html"
        form.fields["title"].label = "Title of the session"
        context |= {**session_facts(plan, release.dataset), "address_of_plan": address_of_plan(release)}
    elif release.certifies is not None:
        page = "releases/certificate_confirm.html"
        form.fields["title"].label = "Title of the certificate"
        context |= {
            **certificate_facts(plan, release.certifies),
            "address_of_plan": address_of_certificate(release),
        }
    return render(request, page, context, status=400 if form.errors else refused)


def _row(release: Release, plan: Plan) -> comparison.ComparedPlan | None:
    """The plan as the comparison shows it; None where it answers another kind of question."""
    rows = comparison.compared([plan], release.dataset.budget, guess=guessed_rows(release.options or {}))
    return rows[0] if rows else None


def _answered_before(request: HttpRequest, release: Release, plan: Plan) -> Release | None:
    """The newest finished release that one may read and that has answered the very same questions."""
    alike = Release.objects.visible_to(request.user).filter(
        dataset=release.dataset_id, state=ReleaseState.PUBLISHED, workload=release.workload, is_session=False
    )
    schema = plan.schema.to_json()
    newest = alike.defer("plan").order_by("-published_at")[:_MOST_ALIKE]
    return next((each for each in newest if each.result and each.result["receipt"]["schema"] == schema), None)


def _over_the_limit(release: Release, row: comparison.ComparedPlan, person: User) -> str:
    """Why the limit for one person keeps this one from a release that fits; empty where it does not."""
    budget = release.dataset.budget
    if budget is None or row.price is None:
        return ""
    refusal = ledger.over_the_limit(release=release, budget=budget, price=row.price, person=person)
    return str(refusal or "")
