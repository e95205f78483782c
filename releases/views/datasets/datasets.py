"""Data and Protection: the first steps of the wizard. A table is sent in `upload.py`, its columns are `columns.py`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.display.error_messages import in_words
from releases.display.paging import chosen_page
from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.errors import InvalidInput
from releases.forms.datasets import DeleteForm, RenameForm
from releases.forms.fields import sent_with
from releases.forms.protection import PopulationForm, ProtectionForm
from releases.forms.sharing import SharingForm
from releases.ledger import reports
from releases.models import Budget, Dataset, ReleaseState, Upload
from releases.permissions import get_dataset_for, groups_to_choose, signed_in
from releases.planning import comparison
from releases.presentation.datasets.dataset_page import more_like_the_latest
from releases.presentation.releases.release_rows import release_rows
from releases.publication.receipt import protection_text
from releases.views.common.live_validation import checked, is_check, undone_if_check
from releases.views.common.wizard import budget_text, frame

PAGE_LENGTH = 50


def dataset_list(request: HttpRequest) -> HttpResponse:
    page = chosen_page(Paginator(Dataset.objects.for_list(request.user), PAGE_LENGTH), request.GET)
    uploads = Upload.objects.for_list(request.user)
    context = {"page": page, "rows": with_standings(page.object_list), "uploads": uploads}
    return render(request, "datasets/dataset_list.html", context)


def with_standings(datasets: Iterable[Dataset]) -> list[dict[str, Any]]:
    """Each dataset with what is spent and left of its budget, how many more releases like its newest fit, and which of
    the others spend from the same; a few queries for all of them."""
    datasets = list(datasets)
    sharing: dict[uuid.UUID, list[Dataset]] = {}
    budgets = {each.budget.pk: each.budget for each in datasets if each.budget is not None}
    for each in datasets:
        if each.budget_id is not None:
            sharing.setdefault(each.budget_id, []).append(each)
    standing = {row.budget.pk: row for row in reports.standings(budgets.values())} if budgets else {}
    more = more_like_the_latest(datasets) if budgets else {}

    def row_of(dataset: Dataset) -> dict[str, Any]:
        if dataset.budget_id is None:
            return {"dataset": dataset, "standing": None, "sharing": [], "more_like": ""}
        others = [each.title for each in sharing[dataset.budget_id] if each.pk != dataset.pk]
        return {
            "dataset": dataset,
            "standing": standing.get(dataset.budget_id),
            "sharing": others,
            "more_like": more.get(dataset.pk, ""),
        }

    return [row_of(each) for each in datasets]


def dataset_detail(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    dataset = get_dataset_for(request, dataset_id)
    budget = dataset.budget
    releases = dataset.releases.select_related("dataset", "submitted_by")
    return render(
        request,
        "datasets/dataset_detail.html",
        {
            "dataset": dataset,
            "is_owner": dataset.owner == request.user,
            "kept": dataset.kept_columns.filter(person=signed_in(request)).only("kept_at").first(),
            "cells": comparison.cells_text(dataset.universe.largest_population.size) if dataset.universe else "",
            "protection": protection_text(budget, dataset.schema) if budget else "",
            "budget": budget_text(budget) if budget and not budget.is_granted else "",
            "row": reports.standings([budget])[0] if budget and budget.is_granted else None,
            "more_like": more_like_the_latest([dataset]).get(dataset.pk, ""),
            "releases": release_rows(releases.with_review().order_by("-created_at")[:PAGE_LENGTH]),
            "has_more": releases.count() > PAGE_LENGTH,
            "requests": budget.requests.of_tables(budget.datasets.visible_to(request.user)).order_by("-requested_at")
            if budget
            else [],
            "sharing": Dataset.objects.visible_to(request.user).filter(budget=budget).exclude(pk=dataset.pk)[:5]
            if budget
            else [],
        },
    )


def rename_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    dataset = get_dataset_for(request, dataset_id)
    form = RenameForm(request.POST or None, initial={"title": dataset.title})
    if request.method == "POST" and form.is_valid():
        services.datasets.rename_dataset(dataset=dataset, title=form.cleaned_data["title"], by=signed_in(request))
        return redirect("dataset_detail", dataset_id=dataset.pk)
    context = {"dataset": dataset, "form": form}
    return render(request, "datasets/dataset_rename.html", context, status=400 if form.errors else 200)


def share_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Who works on it beside its owner: shown to all of them, chosen by the owner."""
    dataset = get_dataset_for(request, dataset_id)
    person = signed_in(request)
    groups = groups_to_choose(person, dataset.group_id)
    form = SharingForm(request.POST or None, groups=groups, initial={"group": dataset.group_id})
    if request.method == "POST" and form.is_valid():
        group = form.cleaned_data["group"]
        try:
            services.datasets.share_dataset(dataset=dataset, group=group, by=person)
        except InvalidInput as error:
            form.add_error("group", in_words(error))
        else:
            messages.success(request, f"{group} works on it with you." if group else "Only you can work on it.")
            return redirect("dataset_detail", dataset_id=dataset.pk)
    context = {
        "dataset": dataset,
        "form": form,
        "is_owner": person.pk == dataset.owner_id,
        "groups": [(each, each.user_set.filter(is_active=True).order_by("username")) for each in groups],
    }
    return render(request, "datasets/dataset_sharing.html", context, status=400 if form.errors else 200)


def delete_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What would be deleted, or why it cannot be; then the deletion: of everything, or of the rows alone."""
    dataset = get_dataset_for(request, dataset_id)
    button, status = DeleteForm(request.POST), 200
    chosen = button.given["delete"]
    try:
        if chosen == button.EVERYTHING:
            services.datasets.discard_dataset(dataset=dataset, by=signed_in(request))
            messages.success(request, f"{dataset.title} was deleted. Nothing had been spent on it.")
            return redirect("dataset_list")
        if chosen == button.ROWS:
            services.datasets.delete_rows(dataset=dataset, by=signed_in(request))
            messages.success(request, "The rows were deleted. What was released stays, and so does the ledger.")
            return redirect("dataset_detail", dataset_id=dataset.pk)
    except services.datasets.Kept as error:
        messages.error(request, in_words(error))
        status = 409
    context = {
        "dataset": dataset,
        "drafts": dataset.releases.filter(state=ReleaseState.DRAFT).count(),
        "kept": dataset.releases.exclude(state=ReleaseState.DRAFT).count(),
        "why_not": (why_not := services.datasets.why_not_discarded(dataset)),
        "why_rows_stay": (why_rows_stay := services.datasets.why_rows_stay(dataset)),
        "stays_whole": bool(why_not and why_rows_stay),
    }
    return render(request, "datasets/dataset_delete.html", context, status=status)


def protection(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Whom epsilon protects, and against which neighbours."""
    dataset = get_dataset_for(request, dataset_id)
    if dataset.universe is None:
        messages.info(request, "Declare the columns first.")
        return redirect("columns", dataset_id=dataset.pk)
    others = _other_populations(request, dataset)
    population = PopulationForm(sent_with(request.POST, "other"), others=others)
    is_typed = request.method == "POST" and not population.is_bound
    promised = _promised(dataset.budget)
    form = ProtectionForm(request.POST if is_typed else None, columns=dataset.columns, initial=promised)
    if _is_protected(request, dataset, population, form):
        return redirect("budget", dataset_id=dataset.pk)
    if is_check(request):
        return checked(request, form)
    context = {
        "form": form,
        "population": population if others.exists() else None,
        "alike": others.filter(columns=dataset.columns).order_by("created_at")[:5],
        **_fixed(request, dataset),
        **frame("protection", dataset),
    }
    is_wrong = bool(form.errors or population.errors)
    return render(request, "datasets/protection.html", context, status=400 if is_wrong else 200)


def _is_protected(request: HttpRequest, dataset: Dataset, population: PopulationForm, form: ProtectionForm) -> bool:
    """Store what one of the two forms declares. False where none was sent, or something is wrong."""
    if population.is_bound and population.is_valid() and _join(dataset, population, request):
        return True
    return form.is_bound and form.is_valid() and _promise(request, dataset, form)


def _promised(budget: Budget | None) -> dict[str, Any]:
    """What a budget promises, as the form's fields hold it."""
    if budget is None:
        return {}
    unit = budget.privacy_unit
    return {
        "kind": unit.kind,
        "id_column": unit.id_column,
        "max_rows": unit.max_rows,
        "neighbours": budget.neighbours,
    }


def _promise(request: HttpRequest, dataset: Dataset, form: ProtectionForm) -> bool:
    """Store what was declared. False where it was only checked, or something is wrong, which the form then says."""
    try:
        with undone_if_check(request):
            services.datasets.declare_protection(
                dataset=dataset,
                unit=form.cleaned_data["unit"],
                neighbours=NeighbouringRelation(form.cleaned_data["neighbours"]),
                by=signed_in(request),
            )
    except InvalidInput as error:
        form.add_error("id_column" if error.field == "unit.id" else None, in_words(error))
    return not form.errors and not is_check(request)


def _fixed(request: HttpRequest, dataset: Dataset) -> dict[str, Any]:
    """Why the protection can no longer be changed, and which tables share it: as found under its lock, where something
    was refused."""
    budget, why_fixed = dataset.budget, services.datasets.why_protection_is_fixed(dataset)
    return {
        "why_fixed": why_fixed,
        "fixed": protection_text(budget, dataset.schema) if why_fixed and budget else "",
        "shared_with": Dataset.objects.visible_to(request.user).filter(budget=budget).exclude(pk=dataset.pk)
        if budget is not None
        else [],
    }


def _other_populations(request: HttpRequest, dataset: Dataset) -> QuerySet[Dataset]:
    """Tables one may work on whose population this one could belong to."""
    others = Dataset.objects.visible_to(request.user).filter(budget__isnull=False).exclude(pk=dataset.pk)
    return others.exclude(budget=dataset.budget) if dataset.budget else others


def _join(dataset: Dataset, form: PopulationForm, request: HttpRequest) -> bool:
    try:
        services.datasets.join_population(dataset=dataset, other=form.cleaned_data["other"], by=signed_in(request))
    except InvalidInput as error:
        form.add_error("other", in_words(error))
        return False
    messages.success(request, "Both tables now spend from one budget, and protect the same unit.")
    return True
