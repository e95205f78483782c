"""Codebooks that were declared before: taken over by another dataset, or downloaded."""

from __future__ import annotations

import uuid

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse

from releases.dataset_forms import codebook_of
from releases.engine.universe import Universe
from releases.models import Dataset
from releases.views.access import get_dataset_for

#: Offered in a menu, the newest first, out of so many that are looked at.
MOST_OFFERED, _MOST_SEEN = 50, 500


def codebook_file(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What is declared of a dataset, to paste or send elsewhere; nothing of its rows."""
    dataset = get_dataset_for(request, dataset_id)
    if dataset.universe is None:
        raise Http404
    response = HttpResponse(codebook_of(dataset, dataset.universe) + "\n", content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="codebook.json"'
    return response


def saved_codebooks(request: HttpRequest, dataset: Dataset) -> list[dict[str, object]]:
    """Datasets that a person may see and that declare a column of the same name, with how many they do."""
    others = Dataset.objects.visible_to(request.user).exclude(pk=dataset.pk).exclude(declared=None)
    names = set(dataset.columns)
    found = [
        {"pk": pk, "title": title, "columns": len(shared)}
        for pk, title, declared in others.order_by("-created_at").values_list("pk", "title", "declared")[:_MOST_SEEN]
        if (shared := names & {each["name"] for each in declared or ()})
    ]
    return found[:MOST_OFFERED]


def with_codebook_of(request: HttpRequest, dataset: Dataset, universe: Universe | None) -> Universe | None:
    """The columns as the dataset named in the address declares them, where this table has them; the others as they
    are."""
    try:
        other = get_dataset_for(request, uuid.UUID(request.GET["codebook"]))
    except ValueError:
        raise Http404 from None
    declared = other.universe.attributes if other.universe is not None else ()
    taken = {each.name: each for each in declared if each.name in dataset.columns}
    if not taken:
        messages.error(request, f"“{other.title}” declares no column that this table has.")
        return universe
    number = len(taken)
    messages.info(
        request,
        f"{number:,} column{' is' if number == 1 else 's are'} filled in as “{other.title}” declares "
        f"{'it' if number == 1 else 'them'}. Nothing is stored until you declare.",
    )
    kept = [each for each in (universe.attributes if universe is not None else ()) if each.name not in taken]
    place = {name: position for position, name in enumerate(dataset.columns)}
    return Universe(attributes=tuple(sorted([*kept, *taken.values()], key=lambda each: place.get(each.name, 0))))
