"""Next year's table: take what another one declares, and say what differs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.datasets import TakeOverForm, TakeOverLinkForm
from releases.models import Dataset, Release, SavedWorkload
from releases.models.datasets import DatasetQuerySet
from releases.permissions import get_dataset_for, signed_in
from releases.presentation.datasets.take_over_page import take_over_page
from releases.schema.taken_columns import columns_to_take, similar_columns

#: Tables in the menu, and workloads that are named.
MAX_OFFERED = 200


def take_over(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """The tables to choose from; of the chosen one, what can be taken and what differs; then it is taken."""
    dataset = get_dataset_for(request, dataset_id)
    offered = Dataset.objects.to_take_over(request.user, dataset)
    named = TakeOverLinkForm(request.POST if request.method == "POST" else request.GET).given["source"]
    source = get_object_or_404(offered, pk=named) if named is not None else None
    context: dict[str, Any] = {
        "dataset": dataset,
        "offered": _menu(dataset, offered, named),
        "source": source,
        "why_not": services.taking_over.why_not_taken_over(dataset),
    }
    if source is None:
        return render(request, "datasets/take_over.html", context, status=400 if request.method == "POST" else 200)
    is_asked = source.budget is not None and source.budget_id != dataset.budget_id
    similar = similar_columns(dataset, source)
    columns = columns_to_take(dataset, source, similar.pairs)
    page = take_over_page(dataset, source, columns, similar, _workloads(request, source))
    form = TakeOverForm(request.POST or None, is_asked=is_asked, pairs=page.pairs, dated=page.dated)
    if request.method == "POST" and form.is_valid():
        # Those that nothing is taken for any more were confirmed before.
        pairs = {there: here for there, here in similar.pairs.items() if here not in page.pairs or here in form.chosen}
        if _is_taken(request, dataset, source, form, pairs):
            return redirect(f"{reverse('take_over', args=[dataset.pk])}?source={source.pk}")
    context |= {"form": form, "page": page}
    return render(request, "datasets/take_over.html", context, status=400 if form.errors else 200)


def _menu(dataset: Dataset, offered: DatasetQuerySet, named: uuid.UUID | None) -> list[dict[str, Any]]:
    """The tables to choose from: first those that declare most columns of this one, of these the newest."""
    names, listed = set(dataset.columns), []
    for pk, title, declared in offered.values_list("pk", "title", "declared")[:MAX_OFFERED]:
        there = len(names & {each["name"] for each in declared or ()})
        listed.append({"pk": pk, "title": title, "columns": there, "is_chosen": pk == named})
    return sorted(listed, key=lambda each: each["columns"], reverse=True)


def _is_taken(
    request: HttpRequest, dataset: Dataset, source: Dataset, form: TakeOverForm, pairs: Mapping[str, str]
) -> bool:
    """Take it, and say what became of the protection. False where it was refused, which the form then says."""
    try:
        problem = services.taking_over.take_over(
            dataset=dataset,
            source=source,
            is_same_people=form.is_same_people,
            by=signed_in(request),
            pairs=pairs,
            dates=form.dates,
        )
    except InvalidInput as error:
        form.add_error(None, in_words(error))
        return False
    messages.success(request, f"Taken from {source.title}. What still differs is listed here.")
    if problem is not None:
        messages.error(request, f"The protection was not taken. {in_words(problem)}")
    return True


def _workloads(request: HttpRequest, source: Dataset) -> list[SavedWorkload]:
    """Those that the other table was asked with and that the person may use."""
    asked = Release.objects.filter(dataset=source, workload_version__isnull=False)
    found = SavedWorkload.objects.visible_to(request.user).filter(pk__in=asked.values("workload_version__workload"))
    return list(found.only("name").order_by("name")[:MAX_OFFERED])
