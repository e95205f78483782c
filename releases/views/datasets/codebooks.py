"""Codebooks: saved under a name, taken over from another dataset, or downloaded."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect

from releases import services
from releases.display.error_messages import in_words
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.forms.codebooks import CodebookLinkForm, codebook_of
from releases.forms.columns import ColumnsButtonForm, ColumnsLinkForm
from releases.models import Codebook, Dataset
from releases.permissions import get_dataset_for, signed_in
from releases.schema import file_codebook
from releases.schema.descriptions import Notes
from releases.schema.standard_codebooks import FORMATS, to_standard
from releases.schema.taken_columns import columns_there, merged_universe

#: Offered in a menu, out of so many that are looked at; of datasets the newest first.
MAX_OFFERED, _MAX_SEEN = 50, 500
#: Columns that a message names; of more, how many there are.
_MAX_NAMED = 10


@dataclass(frozen=True, kw_only=True)
class FilledIn:
    """What the fields of the columns hold before anything is typed.

    Attributes:
        universe: the columns as they are declared or, where they come from elsewhere, as they would be.
        notes: what is said of them.
        names: those that come from elsewhere.
    """

    universe: Universe | None
    notes: Notes
    names: frozenset[str] = frozenset()


def codebook_file(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What is declared of a dataset, to paste or send elsewhere; nothing of its rows."""
    dataset = get_dataset_for(request, dataset_id)
    wanted = CodebookLinkForm(request.GET).given["format"]
    if dataset.universe is None or wanted not in ("", *FORMATS):
        raise Http404
    written = codebook_of(dataset, dataset.universe, dataset.column_notes)
    if wanted:
        described = to_standard(dataset.universe, dataset.column_notes, written=wanted)
        written = json.dumps(described, indent=1, ensure_ascii=False)
    response = HttpResponse(written + "\n", content_type="application/json")
    response["Content-Disposition"] = 'attachment; filename="codebook.json"'
    return response


def codebook_choices(request: HttpRequest, dataset: Dataset) -> dict[str, Any]:
    """What the page offers: saved codebooks and other datasets that have a column of this table, with how many; and
    the person's own codebooks, to be deleted."""
    names, person = set(dataset.columns), signed_in(request)
    others = Dataset.objects.visible_to(person).exclude(pk=dataset.pk).exclude(declared=None)
    listed = others.order_by("-created_at").values_list("pk", "title", "declared")[:_MAX_SEEN]
    datasets = [_offered(pk, title, "", declared or (), names) for pk, title, declared in listed]
    saved = list(Codebook.objects.for_menu(person)[:_MAX_SEEN])
    codebooks = [
        _offered(each.pk, each.name, "" if each.owner_id == person.pk else str(each.owner), each.columns, names)
        for each in saved
    ]
    taken, notes = file_codebook.proposed(dataset)
    described, missing = len({*taken, *notes}), file_codebook.missing_codes(dataset)
    offered = {"saved_codebooks": _with_columns(codebooks), "declaring_datasets": _with_columns(datasets)}
    return {
        **offered,
        "offers_codebooks": any(offered.values()),
        "described_by_file": described,
        "missing_codes": missing,
        "describes_itself": bool(described or missing),
        "source": _source(dataset),
        "own_codebooks": [each for each in saved if each.owner_id == person.pk],
    }


def _source(dataset: Dataset) -> str:
    return "database" if dataset.is_in_database else "file"


def _with_columns(offered: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in offered if each["columns"]][:MAX_OFFERED]


def _offered(pk: uuid.UUID, title: str, by: str, columns: Sequence[Any], names: set[str]) -> dict[str, Any]:
    return {"pk": pk, "title": title, "by": by, "columns": len(names & {each["name"] for each in columns})}


def with_codebook_of(request: HttpRequest, dataset: Dataset, named: str) -> FilledIn:
    """The columns as the codebook or the dataset named in the address declares them, where this table has them; the
    others as they are. Says which are named there and not here, and the other way round."""
    declared = FilledIn(universe=dataset.universe, notes=dataset.column_notes)
    if named == ColumnsLinkForm.FROM_FILE:
        return _as_the_file_says(request, dataset, declared)
    title, universe, notes = _named(request, named)
    attributes = universe.attributes if universe is not None else ()
    taken = columns_there(attributes, dataset.columns)
    if not taken:
        messages.error(request, f"“{title}” declares no column that this table has.")
        return declared
    missing = _besides([each.name for each in attributes], taken)
    messages.info(request, _filled_in_text(title, len(taken), missing, _besides(dataset.columns, taken)))
    return FilledIn(
        universe=merged_universe(dataset, taken),
        notes=declared.notes | {name: each for name, each in notes.items() if name in taken},
        names=frozenset(taken),
    )


def _as_the_file_says(request: HttpRequest, dataset: Dataset, declared: FilledIn) -> FilledIn:
    """The columns as the file's own metadata describes them; the others as they are."""
    taken, notes = file_codebook.proposed(dataset)
    if not (taken or notes):
        raise Http404
    messages.info(
        request,
        f"What the {_source(dataset)} says of its columns is filled in. Declare it only if its labels and categories "
        "were not made from the rows. Nothing is stored until you declare.",
    )
    return FilledIn(
        universe=merged_universe(dataset, taken) if taken else declared.universe,
        notes=declared.notes | notes,
        names=frozenset({*taken, *notes}),
    )


def _besides(names: Sequence[str], taken: dict[str, Attribute]) -> list[str]:
    return [name for name in names if name not in taken]


def _filled_in_text(title: str, number: int, missing: Sequence[str], rest: Sequence[str]) -> str:
    """How many columns a codebook has filled in, which it has that the table does not, and the other way round."""
    one = number == 1
    text = (
        f"{number:,} column{' is' if one else 's are'} filled in as “{title}” declares {'it' if one else 'them'}. "
        "Nothing is stored until you declare."
    )
    if missing:
        text += f" It declares {_listed(missing)} too, which this table does not have."
    return f"{text} It says nothing of {_listed(rest)}." if rest else text


def _named(request: HttpRequest, named: str) -> tuple[str, Universe | None, Notes]:
    """The title, the columns and what is said of them, of the codebook or the dataset that the address names."""
    try:
        number = uuid.UUID(named)
    except ValueError:
        raise Http404 from None
    if (saved := Codebook.objects.visible_to(request.user).filter(pk=number).first()) is not None:
        return (saved.name, *services.codebooks.columns_of_codebook(saved))
    other = get_dataset_for(request, number)
    return other.title, other.universe, other.column_notes


def _listed(names: Sequence[str]) -> str:
    if len(names) > _MAX_NAMED:
        return f"{', '.join(names[:_MAX_NAMED])} and {len(names) - _MAX_NAMED:,} more columns"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def save_codebook(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> str:
    """Save what is declared under the typed name; what is wrong with that, or nothing."""
    if dataset.universe is None:
        return "Nothing is declared yet, so there is nothing to save."
    group = dataset.group if button.given["share"] else None
    try:
        saved = services.codebooks.save_codebook(
            name=button.given["name"],
            universe=dataset.universe,
            notes=dataset.column_notes,
            by=signed_in(request),
            group=group,
        )
    except InvalidInput as error:
        return in_words(error, place="Name of the codebook")
    whose = f"{group.name} can fill it in too" if group is not None else "Only you can see it"
    messages.success(request, f"What is declared is saved as the codebook “{saved.name}”. {whose}.")
    return ""


def delete_codebook(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> HttpResponse:
    """Delete a codebook of one's own."""
    try:
        named = uuid.UUID(button.given["delete_codebook"])
    except ValueError:
        raise Http404 from None
    codebook = get_object_or_404(Codebook, pk=named, owner=signed_in(request))
    services.codebooks.discard_codebook(codebook=codebook, by=signed_in(request))
    messages.success(request, f"The codebook “{codebook.name}” was deleted. What was declared with it stays.")
    return redirect("columns", dataset_id=dataset.pk)
