"""Regions on a map: what is there of each column, and a form to upload boundaries."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from releases import services
from releases.engine.errors import InvalidInput
from releases.forms.boundaries import BoundariesForm, RemoveBoundariesForm
from releases.permissions import get_dataset_for, signed_in
from releases.presentation.datasets.region_maps_page import region_maps_page, said_of


def region_maps(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """The maps of a dataset's columns; then one is added, replaced or removed."""
    dataset = get_dataset_for(request, dataset_id)
    universe = dataset.universe
    if universe is None:
        messages.info(request, "Declare the columns first.")
        return redirect("columns", dataset_id=dataset.pk)
    is_sent = request.method == "POST"
    if is_sent and (removed := RemoveBoundariesForm(request.POST).given["remove"]):
        services.boundaries.remove_boundaries(dataset=dataset, column=removed, by=signed_in(request))
        messages.success(request, f"The map of {removed} was removed. Releases keep the one they were made with.")
        return redirect("region_maps", dataset_id=dataset.pk)
    page = region_maps_page(dataset, universe)
    form = BoundariesForm(columns=page.columns)
    if is_sent:
        form = BoundariesForm(request.POST, request.FILES, columns=page.columns)
    if is_sent and form.is_valid():
        column, given = form.cleaned_data["column"], form.cleaned_data["boundaries"]
        try:
            read = services.boundaries.declare_boundaries(
                dataset=dataset, column=column, given=given, by=signed_in(request)
            )
        except InvalidInput as error:
            form.refuse(error)
        else:
            messages.success(request, said_of(column, read, universe[column].size))
            return redirect("region_maps", dataset_id=dataset.pk)
    context = {"dataset": dataset, "page": page, "form": form}
    return render(request, "datasets/maps/region_maps.html", context, status=400 if form.errors else 200)
