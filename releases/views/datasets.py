"""Data and Protection: the first steps of the wizard."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import learned, planning, services, spending
from releases.codebook import doubts
from releases.dataset_forms import (
    CodebookForm,
    ColumnFormSet,
    PopulationForm,
    ProtectionForm,
    RenameForm,
    UploadForm,
    codebook_of,
    column_initials,
    schema_from_codebook,
)
from releases.edges import bins_in_words, ends_in_words
from releases.engine.errors import InvalidInput
from releases.engine.ingest import UnreadableTable
from releases.engine.privacy import NeighbouringRelation
from releases.engine.universe import Schema, Universe
from releases.forms import MOST_FORM_COLUMNS
from releases.mistakes import in_words
from releases.models import Dataset, Organisation, ReleaseState
from releases.views.access import get_dataset_for, get_own_release_for, signed_in
from releases.views.checks import checked, is_check, undone_if_check
from releases.views.codebooks import saved_codebooks, with_codebook_of
from releases.views.wizard import budget_text, frame, protection_text

PAGE_LENGTH = 50


def dataset_list(request: HttpRequest) -> HttpResponse:
    page = Paginator(Dataset.objects.for_list(request.user), PAGE_LENGTH).get_page(request.GET.get("page"))
    context = {"page": page, "rows": with_standings(page.object_list)}
    return render(request, "releases/dataset_list.html", context)


def with_standings(datasets: Iterable[Dataset]) -> list[dict[str, Any]]:
    """Each dataset with what is granted, spent and left of its budget, and which of the others spend from the same;
    one query for all of them."""
    datasets = list(datasets)
    titles: dict[uuid.UUID | None, list[tuple[uuid.UUID, str]]] = {}
    for each in datasets:
        titles.setdefault(each.budget_id, []).append((each.pk, each.title))
    budgets = {each.budget.pk: each.budget for each in datasets if each.budget is not None}
    standing = {row.budget.pk: row for row in spending.standings(budgets.values())} if budgets else {}
    return [
        {
            "dataset": each,
            "standing": standing.get(each.budget_id) if each.budget_id else None,
            "sharing": [title for pk, title in titles[each.budget_id] if pk != each.pk and each.budget_id],
        }
        for each in datasets
    ]


def upload(request: HttpRequest) -> HttpResponse:
    """Data, first half: the table itself."""
    form = UploadForm(request.POST, request.FILES) if request.method == "POST" else UploadForm()
    if request.method == "POST" and form.is_valid():
        person = signed_in(request)
        source = Path(form.cleaned_data["table"].temporary_file_path())
        try:
            dataset = services.ingest_dataset(owner=person, title=form.cleaned_data["title"], source=source)
        except UnreadableTable as error:
            form.add_error("table", f"{form.cleaned_data['table'].name}: {in_words(error)}")
        except InvalidInput as error:
            form.add_error("title", in_words(error))
        else:
            if dataset.budget is not None:
                same = Dataset.objects.visible_to(person).filter(digest=dataset.digest).exclude(pk=dataset.pk)
                named = " and ".join(f"“{title}”" for title in same.values_list("title", flat=True)[:3])
                messages.info(
                    request,
                    f"This content was uploaded before, as {named}, so it shares the budget it had then: what has been "
                    "learned from the same rows adds up, whoever asks.",
                )
            return redirect("columns", dataset_id=dataset.pk)
    context = {"form": form, "cap": f"{Organisation.current().upload_cap_bytes / 2**20:,.0f} MB", **frame("data")}
    return render(request, "releases/upload.html", context, status=400 if form.errors else 200)


def dataset_detail(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    dataset = get_dataset_for(request, dataset_id)
    budget = dataset.budget
    releases = dataset.releases.select_related("dataset", "submitted_by").defer("plan", "result")
    return render(
        request,
        "releases/dataset_detail.html",
        {
            "dataset": dataset,
            "cells": planning.cells_text(dataset.universe.size) if dataset.universe else "",
            "protection": protection_text(budget) if budget else "",
            "budget": budget_text(budget) if budget else "",
            "releases": releases.with_review().order_by("-created_at")[:PAGE_LENGTH],
            "has_more": releases.count() > PAGE_LENGTH,
            "requests": budget.requests.order_by("-requested_at") if budget else [],
            "sharing": Dataset.objects.visible_to(request.user).filter(budget=budget).exclude(pk=dataset.pk)[:5]
            if budget
            else [],
        },
    )


def rename_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    dataset = get_dataset_for(request, dataset_id)
    form = RenameForm(request.POST or None, initial={"title": dataset.title})
    if request.method == "POST" and form.is_valid():
        services.rename_dataset(dataset=dataset, title=form.cleaned_data["title"], by=signed_in(request))
        return redirect("dataset_detail", dataset_id=dataset.pk)
    context = {"dataset": dataset, "form": form}
    return render(request, "releases/dataset_rename.html", context, status=400 if form.errors else 200)


def delete_dataset(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What would be deleted, or why it cannot be; then the deletion: of everything, or of the rows alone."""
    dataset = get_dataset_for(request, dataset_id)
    chosen, status = request.POST.get("delete", ""), 200
    try:
        if chosen == "everything":
            services.discard_dataset(dataset=dataset, by=signed_in(request))
            messages.success(request, f"{dataset.title} was deleted. Nothing had been spent on it.")
            return redirect("dataset_list")
        if chosen == "rows":
            services.delete_rows(dataset=dataset, by=signed_in(request))
            messages.success(request, "The rows were deleted. What was released stays, and so does the ledger.")
            return redirect("dataset_detail", dataset_id=dataset.pk)
    except services.Kept as error:
        messages.error(request, in_words(error))
        status = 409
    context = {
        "dataset": dataset,
        "drafts": dataset.releases.filter(state=ReleaseState.DRAFT).count(),
        "kept": dataset.releases.exclude(state=ReleaseState.DRAFT).count(),
        "why_not": services.why_not_discarded(dataset),
        "why_rows_stay": services.why_rows_stay(dataset),
    }
    return render(request, "releases/dataset_delete.html", context, status=status)


def columns(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Data, second half: what the columns can hold, typed in or pasted; never looked up in the rows.

    `check` in the form asks only what is wrong and how large the universe would be; nothing is stored then. With
    `learned` in the address, the fields of one column hold what a published release learned of it, and with
    `codebook` those of several what another dataset declares, to be confirmed.
    """
    dataset = get_dataset_for(request, dataset_id)
    offered, taken = _with_learned(request, dataset)
    if request.method == "GET" and request.GET.get("codebook"):
        offered = with_codebook_of(request, dataset, offered)
    pasted = request.method == "POST" and "codebook" in request.POST
    typed = request.method == "POST" and not pasted
    codebook = CodebookForm(request.POST if pasted else None, initial={"codebook": codebook_of(dataset, offered)})
    initials = None if typed else column_initials(dataset, offered)
    formset = ColumnFormSet(request.POST if typed else None, initial=initials)
    universe = dataset.universe
    seldom_meant: list[str] = []
    if pasted and codebook.is_valid() and _is_meant(request, codebook.readings):
        if _declare_codebook(dataset, codebook, request):
            return redirect("protection", dataset_id=dataset.pk)
        codebook.readings = []
    if typed:
        universe = _typed_universe(dataset, formset)
        seldom_meant = [*_readings(formset), *doubts(universe)] if universe is not None else []
        is_meant = "check" not in request.POST and _is_meant(request, seldom_meant)
        if universe is not None and is_meant and _declare(dataset, formset, universe, request):
            return redirect("protection", dataset_id=dataset.pk)
    context = {
        "codebook": codebook,
        "formset": formset,
        "rows": _rows(formset, dataset),
        "learned": taken,
        "problems": _problems(formset) if typed else [],
        "universe": universe,
        "doubts": seldom_meant,
        "bins": [
            {"name": each.name, "are": bins_in_words(each), "ends": ends_in_words(each)}
            for each in (universe.attributes if universe is not None else ())
            if each.is_numeric
        ],
        "releases_made": dataset.releases.exclude(state=ReleaseState.DRAFT).count(),
        "cells": planning.cells_text(universe.size) if universe is not None else "",
        "too_many": len(dataset.columns) > MOST_FORM_COLUMNS,
        "pasted": pasted,
        **frame("data", dataset),
    }
    if request.headers.get("HX-Request"):
        return render(request, "releases/_column_check.html", context)
    # As declared, and nothing filled in from elsewhere: what was typed before a reload may come back.
    context["is_fresh"] = request.method == "GET" and offered == dataset.universe
    context["saved_codebooks"] = saved_codebooks(request, dataset)
    is_wrong = bool(context["problems"] or codebook.errors)
    return render(request, "releases/columns.html", context, status=400 if is_wrong else 200)


def _is_meant(request: HttpRequest, asked: list[str]) -> bool:
    """Whether what is asked about was asked before, and the form sent again all the same."""
    return request.POST.getlist("doubts") == asked


def _readings(formset: Any) -> list[str]:
    return [each for form in formset for each in form.cleaned_data.get("readings", [])]


def _with_learned(request: HttpRequest, dataset: Dataset) -> tuple[Universe | None, learned.Learned | None]:
    """The columns as they are declared or, where the address names a release that learned of one, as they would be."""
    named = request.GET.get("learned", "")
    if request.method == "POST" or not named:
        return dataset.universe, None
    try:
        release = get_own_release_for(request, uuid.UUID(named))
    except ValueError:
        raise Http404 from None
    said = learned.learned_by(release) if release.status is ReleaseState.PUBLISHED else None
    if said is None or not said.is_something or release.dataset_id != dataset.pk:
        raise Http404
    try:
        return learned.with_learned(dataset.universe, said, release), said
    except InvalidInput as error:
        messages.error(request, in_words(error))
        return dataset.universe, None


def _rows(formset: Any, dataset: Dataset) -> list[dict[str, Any]]:
    """Each column's fields, what of its declaration can be learned, and by which releases it was."""
    universe, found = dataset.universe, learned.origins(dataset, dataset.universe)
    declared = {each.name: each for each in universe.attributes} if universe is not None else {}
    id_column = dataset.budget.privacy_unit.id_column if dataset.budget is not None else None
    rows = []
    for form in formset:
        name = form["name"].value()
        what = "range" if name in declared and declared[name].is_numeric else "categories"
        rows.append(
            {
                "form": form,
                "learnable": what if universe is not None and name != id_column else "",
                "origins": [each for each in found if each.column == name],
            }
        )
    return rows


def _declare_codebook(dataset: Dataset, form: CodebookForm, request: HttpRequest) -> bool:
    try:
        # Both halves or neither.
        with transaction.atomic():
            schema, says_protection = schema_from_codebook(form.cleaned_data["codebook"])
            services.declare_universe(
                dataset=dataset,
                columns=[attribute.to_json() for attribute in schema.universe.attributes],
                by=signed_in(request),
            )
            if says_protection:
                services.declare_protection(
                    dataset=dataset, unit=schema.unit, neighbours=schema.neighbours, by=signed_in(request)
                )
    except InvalidInput as error:
        form.add_error("codebook", in_words(error))
        dataset.refresh_from_db()
        dataset.__dict__.pop("universe", None)
        return False
    number = len(schema.universe.attributes)
    messages.success(request, f"{number:,} column{'' if number == 1 else 's'} declared.")
    return True


def _typed_universe(dataset: Dataset, formset: Any) -> Universe | None:
    """The universe that the typed columns span; None, with the reason in the formset, if they span none."""
    if not formset.is_valid():
        return None
    declared = [form.cleaned_data["attribute"].to_json() for form in formset if "attribute" in form.cleaned_data]
    try:
        if not declared:
            raise InvalidInput("columns", "none", "are declared; choose a type for at least one column")
        return Schema.from_json({"version": 1, "columns": declared}).universe
    except InvalidInput as error:
        formset._non_form_errors.append(in_words(error))
        return None


def _declare(dataset: Dataset, formset: Any, universe: Universe, request: HttpRequest) -> bool:
    columns = [each.to_json() for each in universe.attributes]
    try:
        services.declare_universe(dataset=dataset, columns=columns, by=signed_in(request))
    except InvalidInput as error:
        formset._non_form_errors.append(in_words(error))
        return False
    return True


def _problems(formset: Any) -> list[dict[str, str]]:
    """What is wrong with the typed columns, each with the field to go to."""
    found = [{"column": "", "field": "", "message": message} for message in formset.non_form_errors()]
    for form in formset:
        for name, errors in form.errors.items():
            field = form[name].id_for_label if name in form.fields else ""
            found += [{"column": form["name"].value(), "field": field, "message": message} for message in errors]
    return found


def protection(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Whom epsilon protects, and against which neighbours."""
    dataset = get_dataset_for(request, dataset_id)
    if dataset.universe is None:
        messages.info(request, "Declare the columns first.")
        return redirect("columns", dataset_id=dataset.pk)
    budget = dataset.budget
    initial: dict[str, Any] = {}
    if budget is not None:
        unit = budget.privacy_unit
        initial = {
            "kind": unit.kind,
            "id_column": unit.id_column,
            "max_rows": unit.max_rows,
            "neighbours": budget.neighbours,
        }
    joins = request.method == "POST" and "other" in request.POST
    others = _other_populations(request, dataset)
    population = PopulationForm(request.POST if joins else None, others=others)
    if joins and population.is_valid() and _join(dataset, population, request):
        return redirect("budget", dataset_id=dataset.pk)
    typed = request.POST if request.method == "POST" and not joins else None
    form = ProtectionForm(typed, columns=dataset.columns, initial=initial)
    if typed is not None and form.is_valid():
        try:
            with undone_if_check(request):
                services.declare_protection(
                    dataset=dataset,
                    unit=form.cleaned_data["unit"],
                    neighbours=NeighbouringRelation(form.cleaned_data["neighbours"]),
                    by=signed_in(request),
                )
        except InvalidInput as error:
            form.add_error("id_column" if error.field == "unit.id" else None, in_words(error))
        if not form.errors and not is_check(request):
            return redirect("budget", dataset_id=dataset.pk)
    if is_check(request):
        return checked(request, form)
    is_fixed = budget is not None and (budget.is_granted or budget.requests.exists())
    context = {
        "form": form,
        "population": population if others.exists() else None,
        "alike": others.filter(columns=dataset.columns).order_by("created_at")[:5],
        "is_fixed": is_fixed,
        "fixed": protection_text(budget) if is_fixed and budget else "",
        "is_shared": budget is not None and budget.datasets.count() > 1,
        "shared_with": Dataset.objects.visible_to(request.user).filter(budget=budget).exclude(pk=dataset.pk)
        if budget is not None
        else [],
        **frame("protection", dataset),
    }
    is_wrong = bool(form.errors or population.errors)
    return render(request, "releases/protection.html", context, status=400 if is_wrong else 200)


def _other_populations(request: HttpRequest, dataset: Dataset) -> QuerySet[Dataset]:
    """Tables one may work on whose population this one could belong to."""
    others = Dataset.objects.visible_to(request.user).filter(budget__isnull=False).exclude(pk=dataset.pk)
    return others.exclude(budget=dataset.budget) if dataset.budget else others


def _join(dataset: Dataset, form: PopulationForm, request: HttpRequest) -> bool:
    try:
        services.join_population(dataset=dataset, other=form.cleaned_data["other"], by=signed_in(request))
    except InvalidInput as error:
        form.add_error("other", in_words(error))
        return False
    messages.success(request, "Both tables now spend from one budget, and protect the same unit.")
    return True
