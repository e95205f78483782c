"""Checking the columns: how many rows read as declared, planned here from a guessed number of rows, and confirmed like
any release."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.learning import ColumnCheckForm
from releases.models import Release
from releases.permissions import get_dataset_for, signed_in
from releases.planning.column_checks import planned_check
from releases.publication.column_checks import MOST_CHECKS, checks_had
from releases.publication.receipt import protection_text
from releases.views.common.live_validation import status_of
from releases.views.common.wizard import budget_text
from releases.views.datasets.learning import first_step, price_facts


def check_columns(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What a check costs. All of it is in the address; a POST keeps it as a draft. The table is not opened here."""
    dataset = get_dataset_for(request, dataset_id)
    if (step := first_step(request, dataset, "they can be checked")) is not None:
        return step
    assert dataset.budget is not None
    assert dataset.schema is not None
    if checks_had(dataset.budget) >= MOST_CHECKS:
        messages.info(request, services.releases.TOO_MANY_CHECKS)
        return redirect("dataset_detail", dataset_id=dataset.pk)
    form = ColumnCheckForm(request.POST if request.method == "POST" else request.GET or None)
    context = {
        "dataset": dataset,
        "form": form,
        "protection": protection_text(dataset.budget),
        "budget": budget_text(dataset.budget),
    }
    if form.is_valid():
        try:
            plan = planned_check(dataset.schema, dataset.budget, rows=form.cleaned_data["rows"])
            if request.method == "POST" and not plan.infeasible:
                draft = services.column_checks.draft_check(dataset=dataset, plan=plan, by=signed_in(request))
                return redirect("confirm", release_id=draft.pk)
            context |= price_facts(plan, dataset)
        except (InvalidInput, services.release_inputs.Refusal) as error:
            form.add_error("rows", in_words(error))
    return render(request, "datasets/check.html", context, status=status_of(request, is_wrong=bool(form.errors)))


def address_of_check(draft: Release) -> str:
    """Where a draft of a check is planned again."""
    return reverse("check_columns", args=[draft.dataset_id])
