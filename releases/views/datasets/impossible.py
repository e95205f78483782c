"""Combinations of bins that cannot occur: a list, and a form to add one."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.display.error_messages import in_words
from releases.engine.errors import InvalidInput
from releases.forms.impossible import ChosenColumnsForm, CombinationForm, ImpossibleButtonForm
from releases.permissions import get_dataset_for, signed_in
from releases.presentation.datasets.impossible_page import impossible_page


def impossible(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What is declared; of the columns chosen in the address, the bins to tick; then it is added, or one is removed."""
    dataset = get_dataset_for(request, dataset_id)
    universe = dataset.universe
    if universe is None:
        messages.info(request, "Declare the columns first.")
        return redirect("columns", dataset_id=dataset.pk)
    is_sent = request.method == "POST"
    if is_sent and (removed := ImpossibleButtonForm(request.POST).given["remove"]):
        services.datasets.remove_impossible(dataset=dataset, removed=removed, by=signed_in(request))
        messages.success(request, "The combination was removed.")
        return redirect("impossible", dataset_id=dataset.pk)
    chosen = ChosenColumnsForm(request.POST if is_sent else request.GET)
    names, status = chosen.names(universe), 200
    form = CombinationForm(request.POST if is_sent else None, universe=universe, names=names)
    if is_sent and form.is_valid():
        try:
            services.datasets.add_impossible(dataset=dataset, combination=form.combination, by=signed_in(request))
        except InvalidInput as error:
            form.add_error(None, in_words(error))
        else:
            messages.success(request, f"Declared impossible: {form.combination.in_words()}.")
            return redirect("impossible", dataset_id=dataset.pk)
    if is_sent:
        status = 400
    page = impossible_page(universe, names, is_sent=any(chosen.given["column"]))
    context = {
        "dataset": dataset,
        "page": page,
        "form": form if page.has_columns else None,
    }
    return render(request, "datasets/impossible.html", context, status=status)
