"""Questions, Compare, Confirm, Result: the last steps of the wizard, and a release's own page."""

from __future__ import annotations

import hashlib
import json
import uuid
from dataclasses import replace
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST

from releases import error_first, files, learned, ledger, planning, services
from releases.beliefs import beliefs
from releases.curves import bound_curves as drawn_curves
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import Plan, mechanism, mechanisms
from releases.engine.privacy import exact
from releases.mistakes import in_words, separators
from releases.models import Budget, Release, ReleaseState
from releases.receipt import protects_text, rules_in_words, sensible, spent_text
from releases.release_forms import CompareForm, TitleForm, WorkloadForm
from releases.usefulness import GUESSES, guessed_rows, says_little_of_released
from releases.views.access import (
    get_dataset_for,
    get_own_release_for,
    get_release_for,
    signed_in,
    taken_back,
)
from releases.views.certificates import (
    address_of_certificate,
    certificate_facts,
    certification,
    plans_anew,
)
from releases.views.checks import checked, is_check, undone_if_check
from releases.views.citation import citation
from releases.views.importance import is_typed
from releases.views.questions import (
    STATISTIC_ACTIONS,
    Asked,
    asked_statistic,
    changed_workload,
    question_context,
    saved_questions,
)
from releases.views.results import result_context
from releases.views.sessions import address_of_plan, session_facts
from releases.views.ways import numbers_in_address
from releases.views.wizard import frame, workload_of

PAGE_LENGTH = 50
#: Earlier releases that are looked through for the same questions under the same declaration.
_MOST_ALIKE = 20


def release_list(request: HttpRequest) -> HttpResponse:
    listed = Release.objects.for_list(request.user).with_review()
    # The keys are sorted first, and only one page of the rows is read: they are wide.
    page = Paginator(listed.values_list("pk", flat=True), PAGE_LENGTH).get_page(request.GET.get("page"))
    releases = listed.filter(pk__in=list(page.object_list))
    return render(request, "releases/release_list.html", {"page": page, "releases": releases})


@require_POST
def new_release(request: HttpRequest, dataset_id: uuid.UUID) -> HttpResponse:
    """Begin a draft; with `like`, one that asks what an earlier release of the dataset asked."""
    dataset = get_dataset_for(request, dataset_id)
    if dataset.rows_deleted_at is not None:
        messages.info(request, services.NO_ROWS)
        return redirect("dataset_detail", dataset_id=dataset.pk)
    if dataset.schema is None:
        messages.info(request, "Declare the columns and the protection first.")
        return redirect("columns", dataset_id=dataset.pk)
    earlier = _earlier_release(request, request.POST.get("like", ""))
    if earlier is not None and earlier.is_session and earlier.dataset_id == dataset.pk:
        return redirect(address_of_plan(earlier))
    if address := plans_anew(dataset, earlier):
        return redirect(address)
    release = services.draft_release(dataset=dataset, by=signed_in(request))
    if earlier is not None and earlier.dataset_id == dataset.pk and earlier.workload:
        try:
            services.set_questions(release=release, workload=earlier.workload)
            services.set_choice(
                release=release,
                epsilon=earlier.epsilon,
                delta=earlier.delta,
                beta=earlier.beta,
                other_options=earlier.options,
            )
        except InvalidInput:
            messages.info(request, "The columns were declared anew since, so not everything could be taken over.")
    return redirect("questions", release_id=release.pk)


def _earlier_release(request: HttpRequest, like: str) -> Release | None:
    if not like:
        return None
    try:
        return get_own_release_for(request, uuid.UUID(like))
    except ValueError:
        raise Http404 from None


def questions(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Questions: counts built up one at a time or pasted, or one statistic."""
    release = _draft_or_result(request, release_id)
    if isinstance(release, HttpResponse):
        return release
    asked = Asked.read(request, release)
    if asked.is_check and request.headers.get("HX-Request"):
        return render(request, "releases/_statistic_check.html", asked.said)
    form = WorkloadForm(request.POST if "workload" in request.POST else None)
    problem = asked.problem
    if request.method == "POST" and not problem:
        try:
            with undone_if_check(request):
                step = _ask(request, release, form, asked)
            if is_check(request):
                return checked(request, form, says=_would_ask(release) if not form.errors else "")
            if step:
                return redirect(step, release_id=release.pk)
        except (InvalidInput, services.Refusal) as error:
            if form.is_bound:
                form.add_error("workload", in_words(error))
            else:
                problem = in_words(error)
    if is_check(request):
        return checked(request, form, problem=problem)
    context = {
        "form": form,
        "problem": problem,
        "said": asked.said,
        "saved": saved_questions(request, release),
        **frame("questions", release.dataset, release),
        **question_context(release, asked),
    }
    return render(
        request, "releases/questions.html", context, status=400 if problem or form.errors or asked.is_refused else 200
    )


def _would_ask(release: Release) -> str:
    """All that a draft would ask once what was checked is sent."""
    workload = workload_of(release)
    return f"Asked then: {planning.questions_text(workload)}." if workload is not None else ""


def _ask(request: HttpRequest, release: Release, form: WorkloadForm, asked: Asked) -> str:
    """Store what was asked. The step to go to; none where the page has something to say first."""
    if form.is_bound:
        if not form.is_valid():
            return ""
        workload = form.cleaned_data["workload"]
    elif asked.action == "name":
        services.name_release(release=release, title=request.POST.get("title", "").strip()[:200])
        return "questions"
    elif asked.action == "take":
        earlier = _earlier_release(request, request.POST.get("like", ""))
        workload = earlier.workload if earlier is not None else release.workload
    elif asked.action == "next":
        if not release.workload:
            raise services.Refusal("Add at least one question before you compare mechanisms.")
        if is_typed(request.POST):
            services.set_questions(release=release, workload=changed_workload(release, request.POST))
        return "compare"
    elif asked.statistic is None or asked.action not in STATISTIC_ACTIONS:
        workload = changed_workload(release, request.POST)
    elif asked.action == "ask" and asked.statistic.is_valid():
        workload = asked_statistic(asked.statistic)
    else:
        return ""
    services.set_questions(release=release, workload=workload)
    return "questions"


def compare(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Compare: every mechanism's plan side by side. Nothing is spent and no data are touched here."""
    release = _draft_or_result(request, release_id)
    if isinstance(release, HttpResponse):
        return release
    if (back := _back_to_questions(request, release)) is not None:
        return back
    if not release.epsilon:
        # Until something is chosen, what a person would try first; shown, not stored.
        release.epsilon, release.delta = "1", planning.first_delta(release.dataset.budget)
    guess = guessed_rows(release.options or {})
    initial = {"epsilon": release.epsilon, "delta": release.delta or "0", "beta": release.beta, "population": guess}
    form = CompareForm(_posted_choice(request) or None, initial=initial, beta=release.beta)
    typed: dict[str, dict[str, str]] = {}
    problems: dict[str, str] = {}
    if request.method == "POST":
        typed = _typed_options(request)
        problems = _option_problems(typed)
        if is_check(request):
            return _checked_choice(request, release, form, problems)
        if form.is_valid() and not problems and (chosen := _choose(request, release, form, typed)) is not None:
            return chosen
    try:
        plans = services.compare(release=release)
    except (InvalidInput, services.Refusal) as error:
        messages.error(request, in_words(error))
        return redirect("questions", release_id=release.pk)
    guess = guessed_rows(release.options or {})
    rows = planning.compared(plans, release.dataset.budget, typed=typed, problems=problems, guess=guess)
    epsilon = exact(release.epsilon, field="epsilon")
    curves: dict[str, Any] = {}
    if "curves" in request.GET:
        # Many more plans than the comparison itself, so the page comes first and the curves after it.
        curves = {"curves": drawn_curves(rows, chosen=epsilon), "worked_out": True}
        if request.headers.get("HX-Request"):
            return render(request, "releases/_curves.html", curves)
    best = planning.best_choices(rows)
    context = {
        "form": form,
        "rows": [replace(row, advice=best.get(row.mechanism.name, "")) for row in rows],
        "best": best,
        "says_little_at_all": planning.says_little_at_all(rows),
        "shown": _numbers_shown(release),
        "others": planning.other_mechanisms(plans),
        "ways": numbers_in_address(plans[0]),
        "units": list(dict.fromkeys(row.unit for row in rows)),
        "is_weighted": any(row.margins for row in rows),
        "problems": [{"id": each.id, "text": each.problem} for row in rows for each in row.options if each.problem],
        "says": _still_shown(release) if form.errors or problems else "",
        **curves,
        **beliefs(epsilon),
        **frame("compare", release.dataset, release),
        **_error_first(request, rows, release.dataset.budget),
    }
    return render(request, "releases/compare.html", context, status=400 if form.errors or problems else 200)


def _checked_choice(
    request: HttpRequest, release: Release, form: CompareForm, problems: dict[str, str]
) -> HttpResponse:
    """What is wrong with what was typed so far. Nothing is planned for it: that takes longer than typing."""
    is_same = form.is_valid() and not problems and _numbers_of(form.cleaned_data) == _numbers_shown(release)
    options = [
        {"id": name.replace(".", "-"), "text": problems.get(name, "")}
        for name in (f"{each.name}.{option.name}" for each in mechanisms().values() for option in each.options)
        if name in request.POST
    ]
    return checked(request, form, says="" if is_same else _still_shown(release), options=options)


def _still_shown(release: Release) -> str:
    return f"The comparison below is still the one for epsilon {release.epsilon}."


def _posted_choice(request: HttpRequest) -> QueryDict:
    """What the comparison's form was sent with. An epsilon worked out for an error takes the place of the typed one."""
    posted = request.POST.copy()
    if taken := posted.get("take", ""):
        posted["epsilon"] = taken
    return posted


def _choose(
    request: HttpRequest, release: Release, form: CompareForm, typed: dict[str, dict[str, str]]
) -> HttpResponse | None:
    """Store what the compare page was asked, and go on if a mechanism was chosen."""
    given, chosen = form.cleaned_data, request.POST.get("mechanism", "")
    is_guessed_anew = "population" in request.POST and given["population"] != guessed_rows(release.options or {})
    if is_guessed_anew:
        typed = with_guess(typed, given["population"])
    try:
        services.set_choice(
            release=release,
            epsilon=given["epsilon"],
            delta=given["delta"] or "0",
            beta=given["beta"],
            mechanism_name=chosen,
            options=typed.get(chosen),
            other_options=typed,
        )
    except (InvalidInput, services.Refusal) as error:
        form.add_error(None, in_words(error))
        return None
    is_other = request.POST.get("shown", _numbers_shown(release)) != _numbers_shown(release)
    if chosen and (is_other or is_guessed_anew):
        # Whoever chose has read a bound and a price for other numbers.
        messages.info(request, "You changed the numbers, so here is the comparison for them. Choose once more.")
        return redirect("compare", release_id=release.pk)
    return redirect("confirm" if chosen else "compare", release_id=release.pk)


def _numbers_shown(release: Release) -> str:
    """What the bounds on the page are for."""
    return _numbers_of({"epsilon": release.epsilon, "delta": release.delta, "beta": release.beta})


def _numbers_of(given: dict[str, Any]) -> str:
    return f"{given['epsilon']} {given['delta'] or '0'} {given['beta']}"


def _typed_options(request: HttpRequest) -> dict[str, dict[str, str]]:
    """The mechanisms' own fields in the form, named `<mechanism>.<option>`."""
    return {
        name: {option.name: request.POST.get(f"{name}.{option.name}", "").strip() for option in each.options}
        for name, each in mechanisms().items()
    }


def with_guess(typed: dict[str, dict[str, str]], guess: int | None) -> dict[str, dict[str, str]]:
    """The options with one guess at the rows for every mechanism that makes use of one."""
    said = "" if guess is None else str(guess)
    return {
        name: {option: said if option in GUESSES else value for option, value in given.items()}
        for name, given in typed.items()
    }


def _option_problems(typed: dict[str, dict[str, str]]) -> dict[str, str]:
    """What is wrong with the typed options, by the name of the field."""
    problems = {}
    for name, values in typed.items():
        for option in mechanism(name).options:
            try:
                option.read(values.get(option.name, ""))
            except InvalidInput as error:
                problems[f"{name}.{option.name}"] = in_words(error)
    return problems


def _error_first(request: HttpRequest, rows: list[planning.ComparedPlan], budget: Budget | None) -> dict[str, Any]:
    """How much epsilon an error of at most so much would take, for every mechanism, or why that cannot be said."""
    wanted = request.GET.get("error", "").strip()
    if not wanted:
        return {"wanted": ""}
    try:
        error = exact(wanted, field="error")
    except InvalidInput as problem:
        rule = "must be a number, such as 50"
        said = f"{problem.field}: {problem.value!r} {rule}{separators(wanted, rule)}"
        return {"wanted": wanted, "wanted_problem": said}
    if not 0 < error < 10**15:
        return {"wanted": wanted, "wanted_problem": f"error: {wanted!r} must be a number of rows above 0, such as 50"}
    return {"wanted": wanted, "needed": error_first.needed_for(rows, budget, error=float(error))}


def confirm(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Confirm: the exact charge, the accuracy, and that it cannot be undone."""
    release = _draft_or_result(request, release_id, is_confirmed=True)
    if isinstance(release, HttpResponse):
        return release
    if (back := _back_to_questions(request, release)) is not None:
        return back
    if not release.epsilon or not release.mechanism:
        messages.info(request, "Choose a mechanism first.")
        return redirect("compare", release_id=release.pk)
    try:
        plan = services.plan_of(release=release)
    except (InvalidInput, services.Refusal) as error:
        messages.error(request, in_words(error))
        return redirect("compare", release_id=release.pk)
    row = planning.compared([plan], release.dataset.budget, guess=guessed_rows(release.options or {}))[0]
    problem = barred = row.why_not or _over_the_limit(release, row, signed_in(request))
    form = TitleForm(request.POST or None, initial={"title": release.title})
    if request.method == "POST" and form.is_valid():
        try:
            if request.POST.get("plan") != _fingerprint(plan):
                raise services.Refusal("The draft was changed since this page was shown. Read it once more.")
            services.name_release(release=release, title=form.cleaned_data["title"])
            services.submit_release(
                release=release,
                key=uuid.UUID(request.POST.get("key", "")),
                by=signed_in(request),
                reason=request.POST.get("reason", ""),
            )
        except ledger.InsufficientBudget as error:
            context = {"error": error, **frame("confirm", release.dataset, release)}
            return render(request, "releases/refused.html", context, status=409)
        except (ledger.LedgerRefusal, services.Refusal, EngineError) as error:
            release.refresh_from_db()
            if release.status is not ReleaseState.DRAFT:
                # The first of two presses on the button came in between: this page is about what it submitted.
                return redirect("release_detail", release_id=release.pk)
            problem = in_words(error)
        except ValueError:
            problem = "The form is out of date. Read it once more and confirm again."
        else:
            return redirect("release_detail", release_id=release.pk)
    epsilon = exact(release.epsilon, field="epsilon")
    context = {
        "form": form,
        "plan": plan,
        "fingerprint": _fingerprint(plan),
        "row": row,
        "problem": problem,
        "can_be_confirmed": not barred,
        "key": uuid.uuid4(),
        **beliefs(epsilon),
        "rules": rules_in_words(plan.schema.universe),
        "answered_before": _answered_before(request, release, plan),
        "needs_review": not barred and services.needs_review(release=release, plan=plan),
        "reason": request.POST.get("reason", ""),
        **frame("confirm", release.dataset, release),
    }
    refused = 409 if request.method == "POST" and problem else 200
    page = "releases/confirm.html"
    if release.is_session:
        page = "releases/session_confirm.html"
        form.fields["title"].label = "Title of the session"
        context |= {**session_facts(plan, release.dataset), "address_of_plan": address_of_plan(release)}
    elif release.certifies is not None:
        page = "releases/certificate_confirm.html"
        form.fields["title"].label = "Title of the certificate"
        context |= {
            **certificate_facts(plan, release.certifies),
            "address_of_plan": address_of_certificate(release),
        }
    return render(request, page, context, status=400 if form.errors else refused)


def _answered_before(request: HttpRequest, release: Release, plan: Plan) -> Release | None:
    """The newest finished release that one may read and that has answered the very same questions."""
    alike = Release.objects.visible_to(request.user).filter(
        dataset=release.dataset_id, state=ReleaseState.PUBLISHED, workload=release.workload, is_session=False
    )
    schema = plan.schema.to_json()
    newest = alike.defer("plan").order_by("-published_at")[:_MOST_ALIKE]
    return next((each for each in newest if each.result and each.result["receipt"]["schema"] == schema), None)


def _over_the_limit(release: Release, row: planning.ComparedPlan, person: User) -> str:
    """Why the limit for one person keeps this one from a release that fits; empty where it does not."""
    budget = release.dataset.budget
    if budget is None or row.price is None:
        return ""
    refusal = ledger.over_the_limit(release=release, budget=budget, price=row.price, person=person)
    return str(refusal or "")


def _fingerprint(plan: Plan) -> str:
    """What the page that is confirmed was about: another tab may have changed the draft since."""
    return hashlib.sha256(json.dumps(plan.to_json(), sort_keys=True).encode()).hexdigest()


@login_not_required
def release_detail(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Result: progress while it runs, then answers, chart, receipt and downloads."""
    try:
        release = get_release_for(request, release_id)
    except Http404:
        if (gone := taken_back(release_id)) is None:
            raise
        return render(request, "releases/withdrawn.html", {"release": gone[0], "since": gone[1]}, status=410)
    if release.status is ReleaseState.DRAFT:
        to_confirm = release.is_session or release.certifies_id or release.is_approved_draft
        return redirect("confirm" if to_confirm else "questions", release_id=release.pk)
    if release.status is ReleaseState.OPEN:
        return redirect("session", release_id=release.pk)
    is_own = Release.objects.editable_by(request.user).filter(pk=release.pk).exists()
    context: dict[str, Any] = {
        "is_own": is_own,
        "time_left": _time_left(release) if is_own else "",
        **(frame("result", release.dataset, release) if is_own else {"release": release, "dataset": release.dataset}),
    }
    if release.status in (ReleaseState.PUBLISHED, ReleaseState.WITHDRAWN) and release.result is not None:
        context |= result_context(
            release.result,
            files.folder_of(release),
            question=request.GET.get("question", ""),
            page=request.GET.get("page", ""),
            find=request.GET.get("find", "").strip(),
            sort=request.GET.get("sort", ""),
            only=request.GET.get("only", "").strip(),
        )
        if release.status is ReleaseState.PUBLISHED:
            context["citation"] = citation(request, release)
            context["learned"] = learned.learned_by(release) if is_own else None
        context["protects"] = protects_text(release.result["receipt"])
        context["spent"] = sensible(spent_text(release.result["receipt"]))
        context["says_little"] = says_little_of_released(release.result["receipt"])
    context |= certification(request, release, is_own=is_own)
    return render(request, "releases/release_detail.html", context)


def _time_left(release: Release) -> str:
    """An estimate from the time so far, for the people who may watch a run."""
    if release.status is not ReleaseState.RUNNING or release.started_at is None or release.share_done < 0.05:
        return ""
    so_far = (timezone.now() - release.started_at).total_seconds()
    return planning.duration(so_far * (1 - release.share_done) / release.share_done)


@login_not_required
def status(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """The fragment that a running release's page asks for until it is done."""
    release = get_release_for(request, release_id)
    is_own = Release.objects.editable_by(request.user).filter(pk=release.pk).exists()
    context = {
        "release": release,
        "is_own": is_own,
        "time_left": _time_left(release) if is_own else "",
        "is_part": True,
    }
    response = render(request, "releases/_status.html", context)
    if release.status.is_final:
        response["HX-Refresh"] = "true"
    return response


@require_POST
def discard_draft(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    release = get_own_release_for(request, release_id)
    try:
        services.discard_draft(release=release, by=signed_in(request))
    except services.Refusal as error:
        messages.error(request, in_words(error))
        return redirect("release_detail", release_id=release.pk)
    messages.success(request, f"The draft {release.title} was discarded. Nothing was spent on it.")
    return redirect("dataset_detail", dataset_id=release.dataset_id)


@require_POST
def cancel(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    release = get_own_release_for(request, release_id)
    try:
        services.cancel_release(release=release, by=signed_in(request))
    except services.Refusal as error:
        messages.error(request, in_words(error))
    else:
        if release.status is ReleaseState.DRAFT:
            messages.success(request, "Taken back: it is a draft again, and nothing was charged.")
        else:
            messages.success(request, "Cancelled before any data were touched; the charge was given back.")
    return redirect("release_detail", release_id=release.pk)


def visibility(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Who will see what, before a release is made public; then that it is, or that it is private again."""
    release = get_own_release_for(request, release_id)
    if request.method != "POST":
        if release.status is not ReleaseState.PUBLISHED or release.is_public or release.result is None:
            return redirect("release_detail", release_id=release.pk)
        return render(request, "releases/make_public.html", _made_public(release))
    try:
        if request.POST.get("public") == "yes":
            services.make_public(release=release, by=signed_in(request))
            messages.success(request, "Public: everybody can read and download it, signed in or not.")
        elif request.POST.get("public") == "no":
            services.make_private(release=release, by=signed_in(request))
            messages.success(request, "Private again. Whoever downloaded it keeps it.")
    except services.Refusal as error:
        messages.error(request, in_words(error))
    return redirect("release_detail", release_id=release.pk)


def _made_public(release: Release) -> dict[str, str]:
    """What the page says that asks whether a release is to be public."""
    assert release.result is not None
    receipt = release.result["receipt"]
    answers, rows = receipt["answers"], receipt["synthetic_rows"]
    seen = [f"The title, with that of the dataset, “{release.dataset.title}”"]
    few = {0: "that nothing was found", 1: "its one answer with its error bound"}
    seen.append(few.get(answers, f"all {answers:,} answers with error bounds"))
    if rows:
        seen.append(f"{rows:,} synthetic rows")
    seen.append("the receipt, with the columns asked about and their categories and bins, the mechanism and its price")
    if release.certifies_id is not None:
        seen.append("which release it certifies, and what was asked there")
    return {
        "title": release.title,
        "who": "Everybody will be able to read and download it, signed in or not, and it stands in the catalogue.",
        "what": f"{'; '.join(seen)}.",
        "what_not": "Any row of the table, other releases of it, or what is left of its budget.",
        "privacy": "Nothing more is spent: what it tells was paid for when it was made, whoever reads it.",
        "back": reverse("release_detail", args=[release.pk]),
    }


@require_POST
def withdraw(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    release = get_own_release_for(request, release_id)
    try:
        services.withdraw_release(release=release, by=signed_in(request))
    except services.Refusal as error:
        messages.error(request, in_words(error))
    else:
        messages.success(request, "Withdrawn. The budget stays spent: what was learned cannot be unlearned.")
    return redirect("release_detail", release_id=release.pk)


def _draft_or_result(
    request: HttpRequest, release_id: uuid.UUID, *, is_confirmed: bool = False
) -> Release | HttpResponse:
    """A draft one may work on; a submitted release's steps lead to its page.

    A session's and a certificate's lead to their own plan, but for the confirmation, which all have.
    """
    release = get_own_release_for(request, release_id)
    if release.status is not ReleaseState.DRAFT:
        return redirect("release_detail", release_id=release.pk)
    if release.is_session and not is_confirmed:
        return redirect(address_of_plan(release))
    if release.certifies_id is not None and not is_confirmed:
        return redirect(address_of_certificate(release))
    return release


def _back_to_questions(request: HttpRequest, release: Release) -> HttpResponse | None:
    """To the questions, where there are none, or where the columns were declared anew and they no longer fit."""
    try:
        if workload_of(release) is not None:
            return None
        messages.info(request, "Say first what the release should answer.")
    except InvalidInput:
        messages.info(request, "The columns were declared anew, and the questions no longer fit them.")
    return redirect("questions", release_id=release.pk)
