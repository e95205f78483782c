"""Several questions at once: planned on one page, checked and released on the next, read together on the last."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from releases import services
from releases.display.error_messages import in_words
from releases.display.paging import chosen_page
from releases.engine.accounting import accountant
from releases.engine.domain.privacy import decimal_text, exact, privacy_budget
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.engine.workload.queries import Workload
from releases.forms.collections import TITLE, CollectionForm, GlanceForm, PartFormSet, ShareForm, SubmitCollectionForm
from releases.forms.releases import OptionsForm
from releases.ledger import person_limits
from releases.ledger.balances import first_epsilon
from releases.models import Collection, Dataset, Release, ReleaseState, ShareRule
from releases.permissions import get_collection_for, get_dataset_for, get_own_collection_for, signed_in
from releases.planning import comparison, recommendation
from releases.planning.epsilon_meaning import epsilon_meaning
from releases.planning.error_ratio import PlanPart, shares_for_ratio
from releases.planning.row_methods import options_for_rows
from releases.planning.shared_noise import (
    SharedInputs,
    is_shared,
    measured_together,
    narrowest,
    options_for_tables,
    widths_alone,
)
from releases.planning.usefulness import guessed_rows
from releases.presentation.releases.collection_check import PartPlanned, collection_check
from releases.presentation.releases.collection_page import collection_page, has_report
from releases.presentation.releases.column_check import column_check
from releases.presentation.results.glance import chosen_pairs, glance, one_way_tables
from releases.publication.column_checks import MOST_CHECKS, checks_had
from releases.publication.files import folder_of
from releases.publication.joined_report import body_of
from releases.publication.readme import name_of
from releases.publication.report import HTML
from releases.questions.base import calling
from releases.questions.together import (
    PartAsked,
    assumed,
    at_a_glance,
    read_weight,
    statistics_apart,
    statistics_together,
    why_no_associations,
)
from releases.services.collections import BETA
from releases.services.releases import DRAFT_CHANGED, plan_digest
from releases.views.common.wizard import budget_facts, not_ready
from releases.views.releases.compare import with_guess
from releases.views.releases.kinds import pages_of
from releases.views.results.downloads import record_download

_OF_ALL = "how sure a reader of all of them can become of a fact about one unit."
#: Lines that show before more are asked for.
_LINES_SHOWN = 3
#: What planning a part reads besides it.
_READ = ("release__dataset__budget", "release__dataset__owner", "release__stored_questions")
#: Charts of columns on one page.
_COLUMNS_A_PAGE = 24


def new_collection(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """What is wanted, line by line. Nothing is spent and no data are touched here."""
    dataset = get_dataset_for(request, dataset_id)
    if (elsewhere := not_ready(request, dataset)) is not None:
        return elsewhere
    is_sent = request.method == "POST"
    every_column = GlanceForm(request.POST if is_sent else None)
    is_of_lines = is_sent and not every_column.is_bound
    universe = dataset.universe
    assert universe is not None
    first = {"epsilon": first_epsilon(dataset.budget)}
    form = CollectionForm(request.POST if is_of_lines else None, universe=universe, initial=first)
    lines = PartFormSet(request.POST if is_of_lines else None, form_kwargs={"universe": universe})
    sent: GlanceForm | CollectionForm = every_column if every_column.is_bound else form
    if is_sent and all([sent.is_valid(), every_column.is_bound or lines.is_valid()]):
        try:
            asked = [line.asked for line in lines.forms if line.asked]
            if every_column.is_bound:
                assert dataset.budget is not None
                assert dataset.universe is not None
                may_check = checks_had(dataset.budget) < MOST_CHECKS
                asked = at_a_glance(dataset.universe, may_check=may_check)
            collection = _draft(dataset, sent.cleaned_data, asked, by=signed_in(request))
        except (InvalidInput, services.release_inputs.Refusal) as error:
            sent.add_error(None, in_words(error))
        else:
            _choose_methods(collection)
            return redirect("confirm_collection", collection_id=collection.pk)
    context = {
        "dataset": dataset,
        "counts": calling("{many}", universe),
        "one": calling("{one}", universe),
        "glance": every_column,
        "no_associations": why_no_associations(universe),
        "form": form,
        "lines": lines,
        "first_lines": lines.forms[:_LINES_SHOWN],
        "more_lines": lines.forms[_LINES_SHOWN:],
        "lines_shown": _LINES_SHOWN,
        "has_weights": any(line.weights for line in lines.forms),
        "opens_more": any(line.errors or line.asked for line in lines.forms[_LINES_SHOWN:]),
        "together": [
            (kind.title, calling(kind.says, universe), assumed(kind, universe))
            for kind in statistics_together().values()
        ],
        "apart": ", ".join(f"“{kind.title}”" for kind in statistics_apart()),
        **budget_facts(dataset.budget, dataset.schema),
    }
    return render(request, "collections/new_collection.html", context, status=400 if is_sent else 200)


def _draft(dataset: Dataset, given: Mapping[str, Any], asked: Sequence[PartAsked], *, by: User) -> Collection:
    options = OptionsForm(QueryDict()).typed
    if given["population"] is not None:
        options = with_guess(options, given["population"])
    delta = comparison.first_delta(dataset.budget)
    budget = privacy_budget(epsilon=given["epsilon"], delta=delta)
    schema = services.release_inputs.declared_schema(dataset)
    return services.collections.draft_collection(
        dataset=dataset,
        by=by,
        title=given["title"].strip() or TITLE,
        epsilon=given["epsilon"],
        delta=delta,
        parts=measured_together(asked, schema, budget=budget, beta=exact(BETA, field="beta")),
        options=options,
    )


def _choose_methods(collection: Collection) -> None:
    """Give each draft the method that its comparison recommends; none where no method can answer it, or where its
    questions no longer fit the columns. The page that checks says why."""
    for part in collection.parts.select_related("release__dataset__budget", "release__stored_questions"):
        release = part.release
        if release.status is not ReleaseState.DRAFT:
            continue
        are_tables = is_shared(release.workload) and not part.is_for_rows
        if part.is_for_rows:
            release.options = options_for_rows(release.options or {})
        elif are_tables:
            release.options = options_for_tables(release.options or {})
        try:
            plans = services.releases.compare(release=release)
        except (InvalidInput, services.release_inputs.Refusal):
            continue
        rows = comparison.compared(plans, release.dataset.budget, guess=guessed_rows(release.options))
        first = recommendation.recommended(rows, for_rows=part.is_for_rows)
        name = first.mechanism.name if first is not None else ""
        if are_tables:
            name = _for_each_table(release, [row.plan for row in rows if row.can_be_chosen]) or name
        services.releases.set_choice(
            release=release,
            epsilon=release.epsilon,
            delta=release.delta,
            beta=release.beta,
            mechanism_name=name,
            options=release.options.get(name),
        )


def _for_each_table(release: Release, plans: Sequence[Plan]) -> str:
    """The method that is best for every table of a part; empty where none is proved."""
    schema, workload, budget, beta = services.release_inputs.inputs_of(release)
    assert isinstance(workload, Workload)
    inputs = SharedInputs(schema=schema, workload=workload, budget=budget, beta=beta)
    found = narrowest(plans, widths_alone(inputs))
    return "" if found is None else found.mechanism


def confirm_collection(request: HttpRequest, collection_id: uuid.UUID) -> HttpResponse:
    """Check and release: every part with its bound and its share, and the one button that spends."""
    collection = get_own_collection_for(request, collection_id)
    sent = SubmitCollectionForm(request.POST).given
    problem, form = "", None
    if request.method == "POST" and sent["action"] == "share":
        form = ShareForm(request.POST, **_shares(collection))
        if form.is_valid() and not (problem := _share_out(collection, form)):
            return redirect("confirm_collection", collection_id=collection.pk)
    elif request.method == "POST":
        problem = _release(request, collection)
        if not problem:
            return redirect("collection", collection_id=collection.pk)
    form = form or ShareForm(None, **_shares(collection))
    if not form.names:
        return redirect("collection", collection_id=collection.pk)
    planned = _planned(request, collection)
    page = collection_check(
        collection, planned, form=form, barred=_barred(planned, signed_in(request)), problem=problem
    )
    context = {
        "page": page,
        "form": form,
        "collection": collection,
        "dataset": collection.dataset,
        "meaning": epsilon_meaning(page.epsilon, delta=_delta(planned), lead=_OF_ALL),
        **budget_facts(collection.dataset.budget, collection.dataset.schema),
    }
    refused = 409 if request.method == "POST" and page.problem else 200
    return render(request, "collections/confirm_collection.html", context, status=400 if form.errors else refused)


def _shares(collection: Collection) -> dict[str, Any]:
    """What the drafts share, and by which weights."""
    drafts = collection.parts.filter(release__state=ReleaseState.DRAFT)
    weights = list(drafts.values_list("release", "weight"))
    return {"epsilon": collection.epsilon, "share_rule": collection.share_rule, "weights": weights}


def _share_out(collection: Collection, form: ShareForm) -> str:
    """Share the budget out as it was typed, and choose methods for it. Why that was refused; empty where it was not."""
    given = {"epsilon": form.cleaned_data["epsilon"], "weights": form.weights}
    try:
        if form.cleaned_data["share_rule"] == ShareRule.ERROR:
            _share_by_error(collection, **given)
        else:
            services.collections.share_out(collection=collection, **given)
            _choose_methods(collection)
    except InvalidInput as error:
        form.add_error(error.field if error.field in form.fields else "epsilon", in_words(error))
        return in_words(error)
    except services.release_inputs.Refusal as error:
        return in_words(error)
    return ""


def _share_by_error(collection: Collection, *, epsilon: str, weights: Mapping[uuid.UUID, str]) -> None:
    """Share epsilon so that the bounds of the drafts have the ratio of their weights. Another share may make another
    method the best, and its bound another share: after the second turn the methods stay."""
    methods: list[str] = []
    for _ in range(2):
        parts = [part for part in collection.parts.select_related(*_READ) if part.release.status is ReleaseState.DRAFT]
        if methods == (methods := [part.release.mechanism for part in parts]):
            return
        planned = [_part_of_ratio(part.release, weights[part.release_id]) for part in parts]
        total = services.collections.left_for_drafts(collection, epsilon=epsilon)
        found = shares_for_ratio(planned, epsilon=total) if parts else []
        shares = {part.release_id: share for part, share in zip(parts, found, strict=True)}
        services.collections.share_out(
            collection=collection, epsilon=epsilon, weights=weights, share_rule=ShareRule.ERROR, shares=shares
        )
        _choose_methods(collection)


def _part_of_ratio(release: Release, weight: str) -> PlanPart:
    if not release.mechanism:
        rule = "has no method yet, so its error is not known; share epsilon first"
        raise InvalidInput("share_rule", release.title, rule)
    plan = services.releases.plan_of(release=release)
    return PlanPart(title=release.title, plan=plan, weight=read_weight(weight), guess=guessed_rows(release.options))


def _planned(request: HttpRequest, collection: Collection) -> list[PartPlanned]:
    """Each part with its plan, from public facts alone. Nothing is chosen for it here."""
    person, planned, unseen = signed_in(request), [], Fraction(0)
    for part in collection.parts.select_related(*_READ):
        each = _part_planned(request, part.release, person, beside=unseen)
        planned.append(each)
        if each.is_ready and each.row is not None and each.row.price is not None:
            unseen += _as_epsilon(each.row.price)
    return planned


def _part_planned(request: HttpRequest, release: Release, person: User, *, beside: Fraction) -> PartPlanned:
    if release.status is not ReleaseState.DRAFT:
        return PartPlanned(release=release)
    try:
        plan = services.releases.plan_of(release=release)
    except (InvalidInput, services.release_inputs.Refusal) as error:
        return PartPlanned(release=release, problem=in_words(error))
    rows = comparison.compared([plan], release.dataset.budget, guess=guessed_rows(release.options))
    if not rows:
        return PartPlanned(release=release, problem="What was chosen answers another kind of question.")
    row = rows[0]
    waits = None
    if not row.why_not:
        waits = services.releases.why_it_waits(release=release, plan=plan, by=person, beside=beside)
    facts = pages_of(release).facts(request, release, plan)
    return PartPlanned(
        release=release,
        plan=plan,
        row=row,
        check=column_check(release, plan.schema.universe),
        waits=waits,
        rules=facts.get("rules", ()),
        answered_before=facts.get("answered_before"),
    )


def _as_epsilon(price: accountant.Price) -> Fraction:
    own = price.pure_epsilon if price.pure_epsilon is not None else price.epsilon
    return person_limits.NO_EPSILON if own is None else Fraction(own, 10**accountant.EPSILON_PLACES)


def _barred(planned: list[PartPlanned], person: User) -> str:
    """Why the drafts cannot be charged one after the other; empty where they can."""
    drafts = [
        (part.release, part.plan)
        for part in planned
        if part.is_draft and part.plan is not None and part.row is not None
    ]
    if any(part.why_barred for part in planned if part.is_draft):
        # Each says why by itself.
        return ""
    return services.collections.why_not_together(planned=drafts, by=person)


def _delta(planned: list[PartPlanned]) -> str:
    """The delta of the parts that are charged with one, added up."""
    own = [
        Fraction(part.row.price.delta, 10**accountant.DELTA_PLACES)
        for part in planned
        if part.row is not None and part.row.price is not None and part.row.price.pure_epsilon is None
    ]
    return decimal_text(sum(own, Fraction(0)), places=accountant.DELTA_PLACES) if own else ""


def _release(request: HttpRequest, collection: Collection) -> str:
    """Submit what the page showed. Why it was refused, wholly or in part; empty where it was not."""
    sent, person = SubmitCollectionForm(request.POST).given, signed_in(request)
    planned = _planned(request, collection)
    drafts = [part for part in planned if part.is_draft]
    if not drafts:
        return ""
    if sent["key"] is None:
        return "The form is out of date. Read it again and release again."
    shown = set(sent["plans"])
    ready = [(part.release, part.plan) for part in drafts if part.is_ready and part.plan is not None]
    if any(part.why_barred for part in drafts):
        return "At least one of them cannot be released. Nothing was charged."
    if not ready or not {plan_digest(plan) for _, plan in ready} <= shown:
        return DRAFT_CHANGED
    if apart := [
        part for part in drafts if part.plan is not None and not part.is_ready and plan_digest(part.plan) in shown
    ]:
        return f"{apart[0].release.title}: {apart[0].why_apart} Nothing was charged."
    try:
        done = services.collections.submit_collection(planned=ready, key=sent["key"], by=person)
    except (services.release_inputs.Refusal, EngineError) as error:
        return "" if not collection.parts.filter(release__state=ReleaseState.DRAFT).exists() else in_words(error)
    if done.error is None:
        return ""
    names = {each: ", ".join(release.title for release in each) for each in (done.submitted, done.left)}
    submitted = f"Submitted: {names[done.submitted]}. " if done.submitted else ""
    return f"{submitted}Still drafts: {names[done.left]}. {in_words(done.error)}"


@login_not_required
def collection(request: HttpRequest, collection_id: uuid.UUID) -> HttpResponse:
    """Read together: one line for each part that the reader may see."""
    found = get_collection_for(request, collection_id)
    own = Release.objects.editable_by(request.user).filter(part__collection=found)
    releases = _visible_parts(request, found)
    page = collection_page(found, releases, is_own=own.exists())
    results = dict(
        Release.objects.filter(pk__in=[each.pk for each in releases]).values_list("pk", "stored_result__content")
    )
    tables = one_way_tables((each, results[each.pk]) for each in releases if each.status is ReleaseState.PUBLISHED)
    pairs = chosen_pairs(results[each.pk] for each in releases if each.status is ReleaseState.PUBLISHED)
    columns = chosen_page(Paginator(tables, _COLUMNS_A_PAGE), request.GET)
    fragment = bool(request.headers.get("HX-Request"))
    template = "collections/_parts.html" if fragment else "collections/collection.html"
    context = {
        "page": page,
        "collection": found,
        "columns": columns,
        "glances": [shown for each in columns if (shown := glance(each))],
        "associations": pairs,
        # While releases are computed, what they find is put into the same page.
        "has_charts": bool(pairs or page.address),
    }
    return render(request, template, context)


@login_not_required
def collection_report(request: HttpRequest, collection_id: uuid.UUID) -> HttpResponse:
    """One report of the parts that are published and that the reader may see."""
    found = get_collection_for(request, collection_id)
    releases = list(filter(has_report, _visible_parts(request, found)))
    if not releases:
        raise Http404
    page = collection_page(found, releases, is_own=False)
    bodies = [body_of(folder_of(each)) for each in releases]
    for each in releases:
        record_download(request, each, f"{HTML} of a collection")
    parts = [
        {"title": part.title, "says": part.says, "body": body} for part, body in zip(page.parts, bodies, strict=True)
    ]
    response = render(request, "collections/report.html", {"page": page, "parts": parts})
    response["Content-Disposition"] = f'attachment; filename="{name_of(found.title, str(found.pk))}-{HTML}"'
    return response


def _visible_parts(request: HttpRequest, found: Collection) -> list[Release]:
    """The parts that the reader may see, in their order."""
    return list(Release.objects.for_collection(request.user).filter(part__collection=found).order_by("part__place"))
