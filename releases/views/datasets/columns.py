"""Data, second half: what the columns of a table can hold, typed in or pasted."""

from __future__ import annotations

import re
import uuid
from collections.abc import Sequence
from typing import Any

from django.contrib import messages
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.formats import date_format
from django.utils.timezone import localtime

from releases import services
from releases.display.error_messages import in_words
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.forms.bulk_columns import LevelsForm, PastedColumnsForm, Problem, Row, SeveralColumnsForm, typed_rows
from releases.forms.codebooks import CodebookForm, codebook_of, schema_from_codebook
from releases.forms.columns import (
    ColumnFormSet,
    ColumnsButtonForm,
    ColumnsLinkForm,
    DescriptionForm,
    column_initials,
    typed_fields,
)
from releases.forms.fields import MAX_FORM_COLUMNS
from releases.models import Dataset, KeptColumns, ReleaseState
from releases.permissions import get_dataset_for, get_own_release_for, signed_in
from releases.planning import universe_size
from releases.presentation.datasets.columns_page import (
    MAX_OPEN,
    column_rows,
    declared_universe,
    filled_in_text,
    left_out_in_words,
    problems_in,
    problems_of,
)
from releases.presentation.datasets.formula_help import FORMULA_HELP
from releases.schema import learned
from releases.schema.codebook_csv import doubts, doubts_of_file
from releases.schema.descriptions import DESCRIPTION, LONGEST, Notes
from releases.views.common.wizard import frame
from releases.views.datasets.codebooks import (
    FilledIn,
    codebook_choices,
    delete_codebook,
    save_codebook,
    with_codebook_of,
)


def columns(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What the columns can hold, typed in or pasted; never looked up in the rows.

    `check` in the form asks only what is wrong and how large the universe would be; nothing is stored then. `keep`
    stores what is typed as it is, and declares nothing. With `learned` in the address, the fields of one column hold
    what a published release learned of it, and with `codebook` those of several what a saved codebook or another
    dataset declares, to be confirmed.
    """
    dataset = get_dataset_for(request, dataset_id)
    if request.method != "POST":
        return _as_stored(request, dataset)
    button = ColumnsButtonForm(request.POST)
    if button.given["keep"]:
        return _keep(request, dataset, button)
    if button.given["forget"]:
        services.codebooks.forget_columns(dataset=dataset, by=signed_in(request))
        messages.info(request, "What you had typed was discarded. This is what is declared.")
        return redirect("columns", dataset_id=dataset.pk)
    if button.given["delete_codebook"]:
        return delete_codebook(request, dataset, button)
    if button.given["save_codebook"]:
        if problem := save_codebook(request, dataset, button):
            return _as_stored(request, dataset, save_problem=problem)
        return redirect("columns", dataset_id=dataset.pk)
    if button.given["several"]:
        return _several(request, dataset, button)
    if button.given["fill_in"]:
        return _block(request, dataset, button)
    if button.given["levels"]:
        return _levels(request, dataset, button)
    return _pasted(request, dataset, button) if button.is_pasted else _typed(request, dataset, button)


def _keep(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> HttpResponse:
    """Store what is typed, or pasted, as it is: there is no rule that it could break."""
    if button.is_pasted:
        said: dict[str, Any] = {"codebook": button.given["codebook"]}
    else:
        fields = typed_fields(ColumnFormSet(request.POST, request.FILES), dataset.columns)
        said = {"typed": {DESCRIPTION: button.given[DESCRIPTION], "columns": fields}}
    kept = services.codebooks.keep_columns(dataset=dataset, by=signed_in(request), **said)
    at = date_format(localtime(kept.kept_at), "j F Y, H:i e")
    messages.success(
        request,
        f"Draft saved {at}. Only you can see it, on the page of the columns in any browser. Nothing is declared yet.",
    )
    return redirect("dataset_detail", dataset_id=dataset.pk)


def _as_stored(request: HttpRequest, dataset: Dataset, *, save_problem: str = "") -> HttpResponse:
    """The page before anything is typed: as declared, as it was kept, or as it comes from elsewhere."""
    filled, taken = _filled_in(request, dataset)
    kept = KeptColumns.objects.filter(dataset=dataset, person=signed_in(request)).first()
    initials, about = column_initials(dataset, filled.universe, filled.notes), dataset.description
    if kept is not None and kept.typed is not None:
        typed, about = kept.typed["columns"], kept.typed[DESCRIPTION]
        *initials, empty = [
            each if each.get("name") in filled.names else {**each, **typed.get(each.get("name"), {})}
            for each in initials
        ]
        there = {each.get("name") for each in [*initials, empty]}
        initials += [{"name": name, **each} for name, each in typed.items() if each.get("made") and name not in there]
        initials.append(empty)
    pasted = kept.codebook if kept is not None and not filled.names else ""
    written = pasted or codebook_of(dataset, filled.universe, filled.notes)
    return _page(
        request,
        dataset,
        codebook=CodebookForm(initial={"codebook": written}),
        formset=ColumnFormSet(initial=initials),
        about=DescriptionForm(initial={DESCRIPTION: about}),
        universe=filled.universe,
        kept=kept,
        pasted=bool(pasted),
        learned=taken,
        # As declared or kept, and nothing from elsewhere: what was typed before a reload may come back.
        is_fresh=request.method == "GET" and not filled.names,
        save_problem=save_problem,
        is_wrong=bool(save_problem),
    )


def _pasted(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> HttpResponse:
    """Declare what a pasted codebook says, or say what is wrong with it."""
    codebook = CodebookForm(request.POST)
    if codebook.is_valid():
        codebook.readings += _doubts_of_codebook(codebook, dataset)
    if codebook.is_valid() and button.given["doubts"] == codebook.readings:
        if _declare_codebook(dataset, codebook, request):
            return redirect("protection", dataset_id=dataset.pk)
        codebook.readings = []
    return _page(
        request,
        dataset,
        codebook=codebook,
        formset=ColumnFormSet(initial=column_initials(dataset, dataset.universe, dataset.column_notes)),
        about=DescriptionForm(initial={DESCRIPTION: dataset.description}),
        universe=dataset.universe,
        pasted=True,
        is_wrong=bool(codebook.errors),
    )


def _doubts_of_codebook(form: CodebookForm, dataset: Dataset) -> list[str]:
    """What in it goes against the country that the file comes from; nothing of a codebook that is wrong."""
    try:
        schema, _, _ = schema_from_codebook(form.cleaned_data["codebook"])
    except InvalidInput:
        return []
    return doubts_of_file(schema.universe.attributes, dataset.read_as)


def _typed(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> HttpResponse:
    """Declare what is typed, or say what is wrong with it, or what is seldom meant."""
    formset, about = ColumnFormSet(request.POST, request.FILES), DescriptionForm(request.POST)
    universe = _typed_universe(formset, dataset)
    seldom_meant: list[str] = []
    if universe is not None and about.is_valid():
        seldom_meant = [*_readings(formset), *doubts(universe), *doubts_of_file(universe.attributes, dataset.read_as)]
        is_meant = not button.given["check"] and button.given["doubts"] == seldom_meant
        if is_meant and _declare(dataset, formset, about, universe, button, request):
            return redirect("protection", dataset_id=dataset.pk)
    problems = problems_of(formset, about)
    return _page(
        request,
        dataset,
        codebook=CodebookForm(initial={"codebook": codebook_of(dataset, dataset.universe, dataset.column_notes)}),
        formset=formset,
        about=about,
        universe=universe,
        problems=problems,
        doubts=seldom_meant,
        several=SeveralColumnsForm(request.POST).as_typed(),
        pasting=PastedColumnsForm(request.POST),
        is_wrong=bool(problems),
    )


def _several(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> HttpResponse:
    """Fill in what was chosen for the ticked columns; nothing is stored."""
    several = SeveralColumnsForm(request.POST)
    rows, names = several.filled(typed_rows(ColumnFormSet(request.POST, request.FILES)))
    problems = problems_in(several)
    shown = several if problems else SeveralColumnsForm(initial={"ticked": names})
    pasting = PastedColumnsForm(request.POST)
    return _filled_page(request, dataset, button, rows, names, problems, several=shown, pasting=pasting)


def _block(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> HttpResponse:
    """Fill in what a pasted block says of columns; nothing is stored."""
    pasting = PastedColumnsForm(request.POST)
    rows, names, problems = pasting.filled(typed_rows(ColumnFormSet(request.POST, request.FILES)))
    several = SeveralColumnsForm(request.POST).as_typed()
    shown = pasting if problems else PastedColumnsForm()
    return _filled_page(request, dataset, button, rows, names, problems, several=several, pasting=shown)


def _levels(request: HttpRequest, dataset: Dataset, button: ColumnsButtonForm) -> HttpResponse:
    """Fill in a column for each level of an uploaded lookup table; nothing is stored."""
    levels = LevelsForm(request.POST, request.FILES)
    rows, names, problems = levels.filled(typed_rows(ColumnFormSet(request.POST, request.FILES)))
    several, pasting = SeveralColumnsForm(request.POST).as_typed(), PastedColumnsForm(request.POST)
    return _filled_page(
        request, dataset, button, rows, names, problems, several=several, pasting=pasting, opens_levels=bool(problems)
    )


def _filled_page(
    request: HttpRequest,
    dataset: Dataset,
    button: ColumnsButtonForm,
    rows: list[Row],
    names: list[str],
    problems: list[Problem],
    **shown: Any,
) -> HttpResponse:
    """The page with the fields of some columns filled in, and the others as they were typed."""
    return _page(
        request,
        dataset,
        codebook=CodebookForm(initial={"codebook": codebook_of(dataset, dataset.universe, dataset.column_notes)}),
        formset=ColumnFormSet(initial=rows),
        about=DescriptionForm(initial={DESCRIPTION: button.given[DESCRIPTION]}),
        universe=dataset.universe,
        filled_in=filled_in_text(names),
        problems=problems,
        is_wrong=bool(problems),
        **shown,
    )


def _page(
    request: HttpRequest,
    dataset: Dataset,
    *,
    formset: Any,
    universe: Universe | None,
    several: SeveralColumnsForm | None = None,
    is_wrong: bool = False,
    **shown: Any,
) -> HttpResponse:
    context = {
        "formset": formset,
        "rows": column_rows(formset, dataset, ticked=several.names if several is not None else ()),
        "is_long": len(formset) > MAX_OPEN,
        "several": several or SeveralColumnsForm(),
        "pasting": PastedColumnsForm(),
        "levels": LevelsForm(),
        "formula_help": FORMULA_HELP,
        "declared": declared_universe(universe, _fits(universe)) if universe is not None else None,
        "releases_made": dataset.releases.exclude(state=ReleaseState.DRAFT).count(),
        "too_many": len(dataset.columns) > MAX_FORM_COLUMNS,
        **shown,
        **frame("data", dataset),
    }
    if request.headers.get("HX-Request"):
        return render(request, "datasets/_column_check.html", context)
    context |= codebook_choices(request, dataset)
    save_problem, is_pasted = bool(shown.get("save_problem")), bool(shown.get("pasted"))
    context |= {
        "opens_codebook": is_pasted or save_problem or context["too_many"],
        "may_save_codebook": save_problem or bool(dataset.declared),
        "shares_codebook": not save_problem or bool(ColumnsButtonForm(request.POST).given["share"]),
    }
    others = dataset.kept_columns.exclude(person=signed_in(request).pk).select_related("person")
    context["kept_by_others"] = others.defer("typed", "codebook", "declared").order_by("-kept_at")
    return render(request, "datasets/columns.html", context, status=400 if is_wrong else 200)


def _fits(universe: Universe) -> Sequence[universe_size.MechanismSize]:
    """What the size means for each mechanism; nothing of one that cannot be declared anyway."""
    if universe.size >= services.datasets.MAX_CELLS_SAID:
        return ()
    return universe_size.fits(universe)


def _readings(formset: Any) -> list[str]:
    return [each for form in formset for each in form.cleaned_data.get("readings", [])]


def _filled_in(request: HttpRequest, dataset: Dataset) -> tuple[FilledIn, learned.Learned | None]:
    """The columns as they are declared or, where the address names a codebook or a release that learned of one, as they
    would be."""
    declared = FilledIn(universe=dataset.universe, notes=dataset.column_notes)
    if request.method == "POST":
        return declared, None
    link = ColumnsLinkForm(request.GET).given
    if link["codebook"]:
        return with_codebook_of(request, dataset, link["codebook"]), None
    named = link["learned"]
    if not named:
        return declared, None
    try:
        release = get_own_release_for(request, uuid.UUID(named))
    except ValueError:
        raise Http404 from None
    said = learned.learned_by(release) if release.status is ReleaseState.PUBLISHED else None
    if said is None or not said.is_something or release.dataset_id != dataset.pk:
        raise Http404
    try:
        universe = learned.with_learned(dataset.universe, said, release)
    except InvalidInput as error:
        messages.error(request, in_words(error))
        return declared, None
    return FilledIn(universe=universe, notes=declared.notes, names=frozenset({said.column})), said


def _declare_codebook(dataset: Dataset, form: CodebookForm, request: HttpRequest) -> bool:
    try:
        schema, says_protection, said = schema_from_codebook(form.cleaned_data["codebook"])
        # All of it or nothing.
        with transaction.atomic():
            says_impossible = "impossible" in form.cleaned_data["codebook"]
            services.datasets.declare_schema_columns(
                dataset=dataset, schema=schema, says_impossible=says_impossible, by=signed_in(request)
            )
            _describe(dataset, said.notes, said.description, request)
            if says_protection:
                services.datasets.declare_protection(
                    dataset=dataset, unit=schema.unit, neighbours=schema.neighbours, by=signed_in(request)
                )
    except InvalidInput as error:
        form.add_error("codebook", in_words(error))
        _as_it_is(dataset)
        return False
    number = len(schema.universe.attributes)
    declared = f"{number:,} column{'' if number == 1 else 's'} declared. {left_out_in_words(schema.universe)}"
    messages.success(request, declared.strip())
    return True


def _describe(dataset: Dataset, notes: Notes, description: str | None, request: HttpRequest) -> None:
    """Describe what was declared, and forget what was kept to be declared; within a transaction."""
    person = signed_in(request)
    services.codebooks.describe_dataset(dataset=dataset, notes=notes, description=description, by=person)
    services.codebooks.forget_columns(dataset=dataset, by=person)


def _as_it_is(dataset: Dataset) -> None:
    """Read again what a transaction that came to nothing has left as it was."""
    dataset.refresh_from_db()
    dataset.__dict__.pop("universe", None)


def _typed_universe(formset: Any, dataset: Dataset) -> Universe | None:
    """The universe that the typed columns span; None, with the reason in the formset, if they span none."""
    if not formset.is_valid():
        return None
    typed = [form for form in formset if "attribute" in form.cleaned_data]
    declared = [form.cleaned_data["attribute"].to_json() | _formula_of(form, dataset) for form in typed]
    try:
        if not declared:
            raise InvalidInput("columns", "none", "are declared; choose a type for at least one column")
        return Schema.from_json({"version": 1, "columns": declared}).universe
    except InvalidInput as error:
        if (found := _OF_A_FORMULA.match(error.field)) is None:
            formset._non_form_errors.append(in_words(error))
        else:
            form = typed[int(found[1])]
            form.add_error("formula", in_words(InvalidInput("formula", error.value, error.rule)))
        return None


#: Where a schema says that something is wrong with a formula.
_OF_A_FORMULA = re.compile(r"columns\[([0-9]+)\].*[.](?:formula|reads)$", re.DOTALL)


def _formula_of(form: Any, dataset: Dataset) -> dict[str, Any]:
    """Of a column that is made from others, the formula; columns that it reads and that are not declared are read as
    they were before."""
    if not form.is_made:
        return {}
    before = (each.get("reads", []) for each in dataset.declared or [] if each["name"] == form.cleaned_data["name"])
    reads = [each for each in next(before, []) if each["name"] in dataset.columns]
    return {"formula": form.cleaned_data["formula"], "reads": reads}


def _declare(
    dataset: Dataset,
    formset: Any,
    about: DescriptionForm,
    universe: Universe,
    button: ColumnsButtonForm,
    request: HttpRequest,
) -> bool:
    notes = {
        form.cleaned_data["name"]: {field: form.cleaned_data[field] for field in LONGEST}
        for form in formset
        if form["name"].data in dataset.columns or (form.is_made and "attribute" in form.cleaned_data)
    }
    description = about.cleaned_data[DESCRIPTION] if button.is_described else None
    try:
        with transaction.atomic():
            services.datasets.declare_universe(
                dataset=dataset, columns=[each.to_json() for each in universe.attributes], by=signed_in(request)
            )
            _describe(dataset, notes, description, request)
    except InvalidInput as error:
        formset._non_form_errors.append(in_words(error))
        _as_it_is(dataset)
        return False
    return True
