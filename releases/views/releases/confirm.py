"""Confirm: the plan, its price and what it means, and the one button that spends."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.forms.releases import SubmitForm, TitleForm
from releases.ledger import person_limits, refusals
from releases.models import Release, ReleaseState
from releases.permissions import signed_in
from releases.planning import comparison
from releases.planning.epsilon_meaning import epsilon_meaning
from releases.planning.usefulness import guessed_rows
from releases.presentation.releases.column_check import column_check
from releases.presentation.releases.confirm_page import confirm_page, title_at_first
from releases.services.releases import DRAFT_CHANGED, plan_digest
from releases.views.common.wizard import frame
from releases.views.releases.drafts import back_to_questions, draft_or_result
from releases.views.releases.kinds import pages_of


def confirm(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Confirm: the exact charge, the accuracy, and that it cannot be undone."""
    release = draft_or_result(request, release_id, is_confirmed=True)
    if isinstance(release, HttpResponse):
        return release
    plan = _planned(request, release)
    if isinstance(plan, HttpResponse):
        return plan
    row = _row(release, plan)
    if row is None:
        messages.info(request, "What was chosen answers another kind of question. Choose one of these mechanisms.")
        return redirect("compare", release_id=release.pk)
    form = TitleForm(request.POST or None, initial={"title": title_at_first(release.title, plan.workload)})
    problem = ""
    if request.method == "POST" and form.is_valid():
        refusal = _submit(request, release, plan, title=form.cleaned_data["title"])
        release.refresh_from_db()
        # Of two presses on the button, the second finds what the first has submitted.
        if refusal is None or release.status is not ReleaseState.DRAFT:
            return redirect("release_detail", release_id=release.pk)
        problem = refusal
        # What was left when the page was shown may have been spent since.
        row = _row(release, plan) or row
    return _shown(request, release, plan, row, form=form, problem=problem)


def _shown(
    request: HttpRequest,
    release: Release,
    plan: Plan,
    row: comparison.ComparedPlan,
    *,
    form: TitleForm,
    problem: str,
) -> HttpResponse:
    barred = row.why_not or _over_the_limit(release, row, signed_in(request))
    waits = None if barred else services.releases.why_it_waits(release=release, plan=plan, by=signed_in(request))
    pages = pages_of(release)
    form.fields["title"].label = pages.title_label
    facts = pages.facts(request, release, plan)
    page = confirm_page(
        release,
        plan,
        row,
        barred=barred,
        problem=problem,
        why_it_waits=waits.in_words("you") if waits is not None else "",
        check=column_check(release, plan.schema.universe),
        rules=facts.get("rules", ()),
        button=pages.button,
    )
    context = {
        "page": page,
        "form": form,
        "row": row,
        "reason": SubmitForm(request.POST).given["reason"],
        "address_of_plan": pages.address_of_plan(release),
        "meaning": epsilon_meaning(release.epsilon, delta=release.delta, price=row.price),
        **frame("confirm", release.dataset, release),
        **facts,
    }
    refused = 409 if request.method == "POST" and page.problem else 200
    return render(request, pages.confirmation, context, status=400 if form.errors else refused)


def _planned(request: HttpRequest, release: Release) -> Plan | HttpResponse:
    """The draft's plan, made once for the page and for the charge; or the step that has to come first."""
    if (back := back_to_questions(request, release)) is not None:
        return back
    if not release.epsilon or not release.mechanism:
        messages.info(request, "Choose a mechanism first.")
        return redirect("compare", release_id=release.pk)
    try:
        return services.releases.plan_of(release=release)
    except (InvalidInput, services.release_inputs.Refusal) as error:
        messages.error(request, in_words(error))
        return redirect("compare", release_id=release.pk)


def _submit(request: HttpRequest, release: Release, plan: Plan, *, title: str) -> str | None:
    """Submit the plan that the page showed. Why it was refused; None where it was not."""
    try:
        sent = SubmitForm(request.POST).given
        if sent["plan"] != plan_digest(plan):
            raise services.release_inputs.Refusal(DRAFT_CHANGED)
        if sent["key"] is None:
            return "The form is out of date. Read it again and confirm again."
        services.releases.name_release(release=release, title=title)
        services.releases.submit_release(
            release=release,
            key=sent["key"],
            by=signed_in(request),
            reason=sent["reason"],
            plan=plan,
        )
    except (refusals.LedgerRefusal, services.release_inputs.Refusal, EngineError) as error:
        return in_words(error)
    return None


def _row(release: Release, plan: Plan) -> comparison.ComparedPlan | None:
    """The plan as the comparison shows it; None where it answers another kind of question."""
    rows = comparison.compared([plan], release.dataset.budget, guess=guessed_rows(release.options or {}))
    return rows[0] if rows else None


def _over_the_limit(release: Release, row: comparison.ComparedPlan, person: User) -> str:
    """Why the limit for one person keeps this one from a release that fits; empty where it does not."""
    budget = release.dataset.budget
    if budget is None or row.price is None:
        return ""
    refusal = person_limits.over_the_limit(release=release, budget=budget, price=row.price, person=person)
    return str(refusal or "")
