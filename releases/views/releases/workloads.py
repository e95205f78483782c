"""Workloads: saved from a draft, read, edited, shared, and asked of a dataset."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.db.models import Count
from django.forms import Form
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from releases import services
from releases.display.error_messages import in_words
from releases.display.paging import PaginatorByKey, chosen_page
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.columns import AttributeKind
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.forms.fields import sent_with
from releases.forms.sharing import SharingForm
from releases.forms.workloads import EditForm, NextVersionForm, SaveForm, UseWorkloadForm
from releases.models import Dataset, Release, ReleaseState, SavedWorkload, WorkloadVersion
from releases.permissions import get_dataset_for, get_own_release_for, get_workload_for, groups_to_choose, signed_in
from releases.planning import comparison
from releases.schema.bin_edges import codes_in_words, missing_in_words, range_in_words
from releases.views.common.wizard import not_ready, workload_of
from releases.views.public.catalogue import in_short

PAGE_LENGTH = 50
#: Datasets, workloads and questions that a page lists; of more, how many there are.
MAX_OFFERED = 200
#: Categories or edges of a column that a page names.
_MAX_NAMED = 6
#: Entries of all menus of a page together; of more, names are typed.
MAX_CHOICES = 5_000


def workload_list(request: HttpRequest) -> HttpResponse:
    page = chosen_page(Paginator(SavedWorkload.objects.for_list(request.user), PAGE_LENGTH), request.GET)
    numbers = _numbers_of_releases(request, page.object_list)
    rows = [{"workload": each, "releases": numbers.get(each.pk, 0)} for each in page.object_list]
    dataset = _dataset(request, _link(request))
    context = {
        "page": page,
        "rows": rows,
        "dataset": dataset,
        "before": "← Before",
        "after": "After →",
    }
    return render(request, "workloads/workload_list.html", context)


def _numbers_of_releases(request: HttpRequest, workloads: Iterable[SavedWorkload]) -> dict[uuid.UUID, int]:
    """How many submitted releases of each a person may read; one query for all of them."""
    readable = Release.objects.visible_to(request.user).exclude(state=ReleaseState.DRAFT)
    of_these = readable.filter(workload_version__workload__in=[each.pk for each in workloads])
    counted = of_these.values("workload_version__workload").annotate(number=Count("pk")).order_by()
    return {each["workload_version__workload"]: each["number"] for each in counted}


def workload_detail(request: HttpRequest, workload_id: uuid.UUID) -> HttpResponse:
    """What it asks, the columns it needs, its versions, and its releases with their errors."""
    workload = get_workload_for(request, workload_id)
    versions = list(workload.versions.select_related("made_by").defer("questions", "columns").order_by("-number"))
    version = _version(workload, _link(request))
    page = PaginatorByKey(Release.objects.for_workload(workload, request.user), PAGE_LENGTH)
    shown = chosen_page(page, request.GET)
    question = version.question
    # Of one statistic, its title says it all.
    families = question.families if question.is_counts else ()
    context = {
        "workload": workload,
        "version": version,
        "versions": [(each, each.number == version.number) for each in versions],
        "is_newest": version.number == versions[0].number,
        "is_owner": workload.owner_id == request.user.pk,
        "asked": comparison.questions_text(question),
        "titles": [each.title(question.universe) for each in families[:MAX_OFFERED]],
        "more": max(0, len(families) - MAX_OFFERED),
        "columns": [(each.name, column_text(each)) for each in version.needed.attributes],
        "page": shown,
        "releases": _listed(list(shown)),
        "datasets": _datasets(request),
    }
    return render(request, "workloads/workload_detail.html", context)


def _link(request: HttpRequest) -> dict[str, Any]:
    """The version and the dataset that the address or the form names, if any."""
    form = UseWorkloadForm(request.POST if request.method == "POST" else request.GET)
    if not form.is_valid():
        raise Http404
    return form.cleaned_data


def _version(workload: SavedWorkload, link: dict[str, Any]) -> WorkloadVersion:
    """The version that is named, else the newest."""
    if link["version"] is None:
        return workload.latest
    found = workload.versions.filter(number=link["version"]).first()
    if found is None:
        raise Http404
    return found


def _listed(releases: list[Release]) -> list[dict[str, Any]]:
    """Releases beside the others of their workload, the newest first. Of one that is published, its error, and the
    published one before it to compare with."""
    published = [each for each in releases if each.status is ReleaseState.PUBLISHED]
    before = dict(pairwise(published))
    return [
        {"release": each, "bound": in_short(each) if each in published else None, "before": before.get(each)}
        for each in releases
    ]


_KINDS = {
    AttributeKind.CATEGORICAL: "categories",
    AttributeKind.INTEGER: "whole numbers",
    AttributeKind.NUMBER: "numbers",
    AttributeKind.DATE: "dates",
    AttributeKind.DATETIME: "dates and times",
}


def column_text(attribute: Attribute) -> str:
    """What a column is declared to hold, in a few words."""
    kind = _KINDS[attribute.kind]
    missing = "".join(f"; {said}" for said in (codes_in_words(attribute), missing_in_words(attribute)) if said)
    if attribute.dates is not None:
        return f"{kind} {range_in_words(attribute.dates)} in {attribute.ordered.size:,} bins{missing}"
    if attribute.is_numeric:
        return f"{kind} from {attribute.edges[0]:f} to {attribute.edges[-1]:f} in {attribute.ranges:,} bins{missing}"
    named = ", ".join(attribute.categories[:_MAX_NAMED])
    more = f" and {attribute.size - _MAX_NAMED:,} more" if attribute.size > _MAX_NAMED else ""
    return f"{kind}: {named}{more}{missing}"


def save_workload(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Save what a draft or a release asks: as a new workload, or as the next version of one."""
    release = get_own_release_for(request, release_id)
    if why_not := services.workloads.why_not_saved(release):
        messages.info(request, why_not)
        return redirect("release_detail", release_id=release.pk)
    person = signed_in(request)
    groups, own = groups_to_choose(person, None), SavedWorkload.objects.for_list(person)
    initial = {"workload": release.workload_version.workload_id} if release.workload_version else {}
    following = NextVersionForm(sent_with(request.POST, "workload"), workloads=own, initial=initial)
    form = SaveForm(request.POST if request.method == "POST" and not following.is_bound else None, groups=groups)
    if (saved := _saved(request, release, form, following)) is not None:
        return redirect("workload", workload_id=saved)
    context = {
        "release": release,
        "form": form,
        "following": following if own.exists() else None,
        "asked": _asked_text(release),
    }
    return render(
        request, "workloads/save_workload.html", context, status=400 if form.errors or following.errors else 200
    )


def _saved(request: HttpRequest, release: Release, form: SaveForm, following: NextVersionForm) -> uuid.UUID | None:
    """The workload in which the questions were saved; None where nothing was sent, or something is wrong with it."""
    person = signed_in(request)
    try:
        if following.is_bound and following.is_valid():
            version = services.workloads.save_version(
                workload=following.cleaned_data["workload"], release=release, by=person
            )
            messages.success(request, f"Saved: version {version.number} asks what this draft asks.")
            return version.workload_id
        if form.is_bound and form.is_valid():
            workload = services.workloads.save_workload(release=release, by=person, **form.cleaned_data)
            messages.success(request, "Saved. It can be asked of any dataset that has the columns it needs.")
            return workload.pk
    except (InvalidInput, services.release_inputs.Refusal) as error:
        _add_error(form, error)
    return None


def _asked_text(release: Release) -> str:
    try:
        question = workload_of(release)
    except InvalidInput:
        return ""
    return comparison.questions_text(question) if question is not None else ""


def _add_error(form: Form, error: Exception) -> None:
    """Say beside the field, by its label, what is wrong with it; else of the form as a whole."""
    name = error.field if isinstance(error, InvalidInput) else ""
    field = form.fields.get(name)
    form.add_error(name if field is not None else None, in_words(error, place=str(field.label) if field else ""))


def edit_workload(request: HttpRequest, workload_id: uuid.UUID) -> HttpResponse:
    """Another name or description; or other questions, which make the next version."""
    workload = get_workload_for(request, workload_id)
    latest = workload.latest
    form = EditForm(request.POST or None, initial=EditForm.initial_of(latest))
    if request.method == "POST" and form.is_valid():
        typed = form.cleaned_data
        try:
            version = services.workloads.edit_workload(
                workload=workload,
                by=signed_in(request),
                since=typed["since"],
                name=typed["name"],
                description=typed["description"],
                questions=typed["workload"],
            )
        except (InvalidInput, services.release_inputs.Refusal) as error:
            _add_error(form, error)
        else:
            is_new = version.number != latest.number
            messages.success(request, f"Saved as version {version.number}." if is_new else "Saved.")
            return redirect("workload", workload_id=workload.pk)
    context = {"workload": workload, "version": latest, "form": form}
    return render(request, "workloads/edit_workload.html", context, status=400 if form.errors else 200)


def share_workload(request: HttpRequest, workload_id: uuid.UUID) -> HttpResponse:
    """Who uses and edits it beside its owner: shown to all of them, chosen by the owner."""
    workload = get_workload_for(request, workload_id)
    person = signed_in(request)
    groups = groups_to_choose(person, workload.group_id)
    form = SharingForm(request.POST or None, groups=groups, initial={"group": workload.group_id})
    if request.method == "POST" and form.is_valid():
        group = form.cleaned_data["group"]
        try:
            services.workloads.share_workload(workload=workload, group=group, by=person)
        except InvalidInput as error:
            _add_error(form, error)
        else:
            messages.success(request, f"{group} can use and edit it with you." if group else "Only you can use it.")
            return redirect("workload", workload_id=workload.pk)
    context = {
        "workload": workload,
        "form": form,
        "is_owner": person.pk == workload.owner_id,
        "groups": [(each, each.user_set.filter(is_active=True).order_by("username")) for each in groups],
    }
    return render(request, "workloads/share_workload.html", context, status=400 if form.errors else 200)


@require_POST
def discard_workload(request: HttpRequest, workload_id: uuid.UUID) -> HttpResponse:
    workload = get_workload_for(request, workload_id)
    try:
        services.workloads.discard_workload(workload=workload, by=signed_in(request))
    except (InvalidInput, services.release_inputs.Refusal) as error:
        messages.error(request, in_words(error))
        return redirect("workload", workload_id=workload.pk)
    messages.success(request, f"The workload {workload.name} was deleted. Drafts keep their questions.")
    return redirect("workload_list")


def use_workload(request: HttpRequest, workload_id: uuid.UUID) -> HttpResponse:
    """Which of a dataset's columns fit what a workload needs, and why the others do not; then a draft that asks it."""
    workload = get_workload_for(request, workload_id)
    link = _link(request)
    dataset = _dataset(request, link)
    if dataset is None:
        return redirect("workload", workload_id=workload.pk)
    if (elsewhere := not_ready(request, dataset)) is not None:
        return elsewhere
    assert dataset.universe is not None
    version, problem = _version(workload, link), ""
    columns = services.workloads.suggested_columns(version, dataset.universe)
    if request.method == "POST":
        columns = UseWorkloadForm(request.POST).columns(version.needed.names)
    if request.method == "POST" and link["action"] == UseWorkloadForm.USE:
        drafted = _drafted(request, version, dataset, columns)
        if isinstance(drafted, Release):
            return redirect("questions", release_id=drafted.pk)
        problem = drafted
    fits = services.workloads.column_fits(version, dataset.universe, columns)
    context = {
        "workload": workload,
        "version": version,
        "dataset": dataset,
        "names": dataset.universe.names,
        "is_chosen": len(fits) * len(dataset.universe.names) <= MAX_CHOICES,
        "rows": [_fit_row(each, dataset.universe) for each in fits],
        "do_not_fit": sum(bool(each.reason) for each in fits),
        "problem": problem,
    }
    return render(request, "workloads/use_workload.html", context, status=400 if problem else 200)


def _drafted(
    request: HttpRequest, version: WorkloadVersion, dataset: Dataset, columns: dict[str, str]
) -> Release | str:
    """The draft that asks the workload; or why there is none."""
    try:
        return services.workloads.use_workload(version=version, dataset=dataset, by=signed_in(request), columns=columns)
    except InvalidInput as error:
        return in_words(error, place=error.field.replace("columns.", "Column ", 1))
    except services.release_inputs.Refusal as error:
        return in_words(error)


def _dataset(request: HttpRequest, link: dict[str, Any]) -> Dataset | None:
    return get_dataset_for(request, link["dataset"]) if link["dataset"] is not None else None


def _datasets(request: HttpRequest) -> list[tuple[uuid.UUID, str]]:
    """Those that a workload can be asked of, newest first."""
    usable = Dataset.objects.visible_to(request.user).filter(rows_deleted_at=None, budget__isnull=False)
    found = usable.exclude(declared=None).order_by("-created_at")
    return list(found.values_list("pk", "title")[:MAX_OFFERED])


def _fit_row(fit: services.workloads.ColumnFit, universe: Universe) -> dict[str, Any]:
    needed, column = fit.needed, universe[fit.column] if fit.column in universe.names else None
    return {
        "fit": fit,
        "field": UseWorkloadForm.COLUMN + needed.name,
        "needs": column_text(needed),
        "has": column_text(column) if column is not None else "",
    }
