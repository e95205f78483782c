"""Compare: every mechanism's plan side by side, and what is chosen there."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from releases import services
from releases.display.error_messages import in_words
from releases.engine.domain.privacy import exact
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.engine.workload.questions import weight_of
from releases.forms.releases import CompareForm, CompareLinkForm, OptionsForm
from releases.ledger import reports
from releases.ledger.balances import first_epsilon
from releases.models import Release
from releases.planning import comparison, error_target, recommendation
from releases.planning.curves import bound_curves as drawn_curves
from releases.planning.epsilon_meaning import epsilon_meaning
from releases.planning.row_methods import options_for_rows
from releases.planning.usefulness import GUESSES, guessed_rows
from releases.presentation.releases.comparison_page import comparison_page
from releases.questions.base import Want
from releases.views.common.live_validation import checked, is_check
from releases.views.common.wizard import frame
from releases.views.public.methods import numbers_in_address
from releases.views.releases.drafts import back_to_questions, draft_or_result


def compare(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """Compare: every mechanism's plan side by side. Nothing is spent and no data are touched here."""
    release = draft_or_result(request, release_id)
    if isinstance(release, HttpResponse):
        return release
    if (back := back_to_questions(request, release)) is not None:
        return back
    _suggest(release)
    if _is_for_rows(request):
        release.options = options_for_rows(release.options or {})
    form = _form(request, release)
    options = OptionsForm(request.POST)
    typed, problems = (options.typed, options.problems) if request.method == "POST" else ({}, {})
    if request.method == "POST" and (answer := _answer(request, release, form, options)) is not None:
        return answer
    try:
        plans = services.releases.compare(release=release)
    except (InvalidInput, services.release_inputs.Refusal) as error:
        messages.error(request, in_words(error))
        return redirect("questions", release_id=release.pk)
    guess = guessed_rows(release.options or {})
    rows = comparison.compared(plans, release.dataset.budget, typed=typed, problems=problems, guess=guess)
    return _page(request, release, form, plans, rows, is_wrong=bool(form.errors or problems))


def _form(request: HttpRequest, release: Release) -> CompareForm:
    wanted, problem, _ = CompareLinkForm(request.GET).wanted_error
    initial = {
        "error": wanted if problem else "",
        "epsilon": release.epsilon,
        "delta": release.delta or "0",
        "beta": release.beta,
        "population": guessed_rows(release.options or {}),
    }
    return CompareForm(request.POST, initial=initial, beta=release.beta)


def _page(
    request: HttpRequest,
    release: Release,
    form: CompareForm,
    plans: list[Plan],
    rows: list[comparison.ComparedPlan],
    *,
    is_wrong: bool,
) -> HttpResponse:
    curves = _curves(request, release, rows)
    if curves and request.headers.get("HX-Request"):
        return render(request, "releases/_curves.html", curves)
    compared = _compared(request, release, plans, rows)
    page = compared["page"]
    if not page.no_error:
        form.ask_for_error_in(page.unit, is_weighed=page.has_importance)
    form.ask_how_many(plans[0].schema.counted)
    if weight_of(plans[0].workload) is not None:
        form.ask_what_weights_add_up_to()
    context = {
        "form": form,
        "shown": _numbers_shown(release),
        "ways": numbers_in_address(plans[0]),
        "opens_numbers": bool(form.errors.keys() - {"epsilon", "error"}) or any(row.wants_rows for row in rows),
        "says": _still_shown(release) if is_wrong else "",
        "fits": reports.room_of(release.dataset.budget),
        **compared,
        **curves,
        "meaning": epsilon_meaning(release.epsilon, delta=release.delta),
        **frame("compare", release.dataset, release),
    }
    return render(request, "releases/compare.html", context, status=400 if is_wrong else 200)


def _curves(request: HttpRequest, release: Release, rows: list[comparison.ComparedPlan]) -> dict[str, Any]:
    """Bounds at other epsilons, once they are asked for: they take many more plans than the comparison itself, so the
    page comes first and the curves after it."""
    if not CompareLinkForm(request.GET).given["curves"]:
        return {}
    chosen = exact(release.epsilon, field="epsilon")
    return {"curves": drawn_curves(rows, chosen=chosen), "worked_out": True}


def _compared(
    request: HttpRequest, release: Release, plans: list[Plan], rows: list[comparison.ComparedPlan]
) -> dict[str, Any]:
    """The mechanisms, and what an error that somebody wants would take."""
    link = CompareLinkForm(request.GET)
    wanted, problem, most = link.wanted_error
    if most is not None and rows:
        problem = comparison.why_no_largest_error(rows[0].plan)
    needed = () if most is None or problem else error_target.needed_for(rows, release.dataset.budget, error=most)
    others = comparison.other_mechanisms(plans)
    return {
        "page": comparison_page(
            rows,
            chosen=release.mechanism,
            others=others,
            needed=needed,
            want=link.given["want"],
            opens=bool(wanted),
        ),
        "wanted": wanted,
        "wanted_problem": problem,
        "problems": [{"id": each.id, "text": each.problem} for row in rows for each in row.options if each.problem],
    }


def _answer(request: HttpRequest, release: Release, form: CompareForm, options: OptionsForm) -> HttpResponse | None:
    """To what was sent; None where the page is shown again."""
    if is_check(request):
        return _checked_choice(request, release, form, options)
    return _choose(request, release, form, options.typed) if form.is_valid() and not options.problems else None


def _suggest(release: Release) -> None:
    """Until something is chosen, what a person would try first; shown, not stored."""
    if not release.epsilon:
        budget = release.dataset.budget
        release.epsilon, release.delta = first_epsilon(budget), comparison.first_delta(budget)


def _is_for_rows(request: HttpRequest) -> bool:
    return bool(CompareLinkForm(request.GET).given["want"] == Want.ROWS)


def _checked_choice(request: HttpRequest, release: Release, form: CompareForm, options: OptionsForm) -> HttpResponse:
    """What is wrong with what was typed so far. Nothing is planned for it: that takes longer than typing."""
    problems = options.problems
    is_same = form.is_valid() and not problems and _numbers_of(form.cleaned_data) == _numbers_shown(release)
    fields = [{"id": name.replace(".", "-"), "text": problems.get(name, "")} for name in options.sent]
    return checked(request, form, says="" if is_same else _still_shown(release), options=fields)


def _still_shown(release: Release) -> str:
    return f"The comparison below is still the one for epsilon {release.epsilon}."


def _choose(
    request: HttpRequest, release: Release, form: CompareForm, typed: dict[str, dict[str, str]]
) -> HttpResponse | None:
    """Store what the compare page was asked, and go on if a mechanism was chosen."""
    given, chosen = form.cleaned_data, form.cleaned_data["mechanism"]
    is_guessed_anew = form.guesses(guessed_rows(release.options or {}))
    if is_guessed_anew:
        typed = with_guess(typed, given["population"])
    if _is_for_rows(request):
        typed = options_for_rows(typed)
    try:
        services.releases.set_choice(
            release=release,
            epsilon=given["epsilon"],
            delta=given["delta"] or "0",
            beta=given["beta"],
            mechanism_name=chosen,
            options=typed.get(chosen),
            other_options=typed,
        )
        if given["error"] is not None:
            return _take_epsilon(request, release, form)
    except (InvalidInput, services.release_inputs.Refusal) as error:
        form.add_error(None, in_words(error))
        return None
    is_other = given["shown"] not in ("", _numbers_shown(release))
    if chosen and (is_other or is_guessed_anew):
        # Whoever chose has read a bound and a price for other numbers.
        messages.info(request, "You changed the numbers, so here is the comparison for them. Choose again.")
        return redirect(_address(request, release))
    return redirect("confirm", release_id=release.pk) if chosen else redirect(_address(request, release))


def _take_epsilon(request: HttpRequest, release: Release, form: CompareForm) -> HttpResponse | None:
    """Take the least epsilon with which the recommended method keeps an error; the comparison for it is read first."""
    plans, budget = services.releases.compare(release=release), release.dataset.budget
    typed = str(form["error"].value()).strip()
    rows = comparison.compared(plans, budget, guess=guessed_rows(release.options or {}))
    first = recommendation.recommended(rows, for_rows=_is_for_rows(request))
    if first is None:
        return None
    if why_not := comparison.why_no_largest_error(first.plan):
        form.add_error("error", f"error: {typed!r} cannot be used. {why_not}")
        return None
    (needed,) = error_target.needed_for([first], budget, error=form.cleaned_data["error"])
    if not needed.epsilon:
        form.add_error("error", f"error: {typed!r} cannot be kept. {needed.why}")
        return None
    services.releases.set_choice(release=release, epsilon=needed.epsilon, delta=release.delta, beta=release.beta)
    messages.info(request, f"{needed.mechanism.title}: an error of at most {typed} takes epsilon {needed.epsilon}.")
    return redirect(_address(request, release))


def _address(request: HttpRequest, release: Release) -> str:
    """The comparison, for what it was for before."""
    address, want = reverse("compare", args=[release.pk]), CompareLinkForm(request.GET).given["want"]
    return f"{address}?want={want}" if want in list(Want) else address


def _numbers_shown(release: Release) -> str:
    """What the bounds on the page are for."""
    return _numbers_of({"epsilon": release.epsilon, "delta": release.delta, "beta": release.beta})


def _numbers_of(given: dict[str, Any]) -> str:
    return f"{given['epsilon']} {given['delta'] or '0'} {given['beta']}"


def with_guess(typed: dict[str, dict[str, str]], guess: int | None) -> dict[str, dict[str, str]]:
    """The options with one guess at the rows for every mechanism that makes use of one."""
    said = "" if guess is None else str(guess)
    return {
        name: {option: said if option in GUESSES else value for option, value in given.items()}
        for name, given in typed.items()
    }
