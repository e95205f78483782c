"""The page of one request: what is asked, what it would cost and leave, and what this reviewer can do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.contrib.auth.models import User
from django.urls import reverse

from releases import services
from releases.display.error_messages import in_words
from releases.engine.accounting.filters import Policy
from releases.engine.domain.attribute import CLAMP, DROP, Attribute
from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.base import Plan, PlanChanged, plan_from_json
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.forms.fields import POLICY_TITLES
from releases.forms.review import DecisionForm, ReleaseDecisionForm
from releases.ledger import reports
from releases.models import (
    POLICY_MEANING,
    SESSION,
    Budget,
    BudgetRequest,
    Organisation,
    ReleaseRequest,
    ReleaseState,
    RequestState,
)
from releases.models.stakes import what_separates
from releases.planning import comparison
from releases.planning.epsilon_meaning import EpsilonMeaning, epsilon_meaning
from releases.planning.usefulness import Prepared, prepared
from releases.presentation.review.said import Said, said_first, said_of
from releases.presentation.sessions.sentences import session_words
from releases.publication.receipt import percent, protection_text, rules_of
from releases.schema.bin_edges import range_in_words
from releases.services.recognition import COLUMNS, Match

#: Categories of a column that the page names.
_MAX_NAMED = 12


@dataclass(frozen=True, kw_only=True, slots=True)
class MatchShown:
    """A table that may be about the same people.

    Attributes:
        join, ask: what the buttons send; empty where they are not offered. `join_kind` the class of the first.
    """

    heading: str
    says: str
    table: str
    owner: str
    join: str
    join_kind: str
    ask: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnShown:
    """What a column can hold, as declared, in lines."""

    name: str
    holds: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Recognition:
    """What else may be about the same people, as far as this reviewer may know.

    Attributes:
        why_not_approve: why this reviewer cannot grant, whatever was recognised; empty where they can.
        not_compared: why the rows were not compared with those of other tables; empty where they were.
        is_recognised: there is a match by rows, so a decision tells its asker something.
        needs_reason: one of them has a budget, so whoever grants another says why.
        asked_lately: how often the person who asks has asked.
    """

    why_not_approve: str
    not_compared: str
    matches: tuple[MatchShown, ...]
    is_recognised: bool
    needs_reason: bool
    asked_lately: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewDecision:
    """What was decided, or what this reviewer can decide.

    Attributes:
        said: the decision; None while it waits.
        unsent: a note that came too late; empty where there is none.
        match_reason: why it was granted although rows were recognised, for whoever may know that; empty otherwise.
        first: of two reviewers, what the first has said; None before.
        why_not: why this person cannot decide; empty where they can.
        is_first_of_two: another approval has to follow theirs.
        approve: the button's words, empty where it is not offered; `approve_kind` its class.
    """

    said: Said | None = None
    unsent: str = ""
    match_reason: str = ""
    first: Said | None = None
    why_not: str = ""
    is_first_of_two: bool = False
    approve: str = ""
    approve_kind: str = ""
    recognition: Recognition | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRequestPage:
    """A request for a budget.

    Attributes:
        delta: empty where none is asked for.
        before: what was decided of the last request, where it was not granted; None where there is none.
        granted: so far; `budget_address` the budget's page, empty before anything is granted.
        schemas: of each table its title and its declared columns.
    """

    title: str
    asked_by: str
    epsilon: str
    delta: str
    reason: str
    before: Said | None
    protection: str
    policy: str
    policy_meaning: str
    tables: str
    granted: str
    budget_address: str
    asked_at: datetime
    schemas: tuple[tuple[str, tuple[ColumnShown, ...]], ...]
    meaning: EpsilonMeaning
    decision: ReviewDecision


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanAsked:
    """What the plan says that was asked for.

    Attributes:
        spares_delta: that nothing of the delta asked for is spent; empty where some is, or none was asked for.
        leaves, leaves_more: what it would leave, while the request waits; empty afterwards, and where it does not fit.
        refusal, why_it_waits: while it waits, why it cannot be charged, and why a reviewer has to look at it.
        asks: the questions, and what they are about.
        rows_counted: which rows a table of counts is about; empty where the rules of columns decide nothing.
        synthetic_rows: how many there will be; empty where none are made.
        runs: how long it takes, and with how much memory.
        beside: of a session, how close one release of the same questions would come.
    """

    protection: str
    cost: str
    spares_delta: str
    charge: str
    leaves: str
    leaves_more: str
    refusal: str
    why_it_waits: str
    sentence: str
    asks: str
    rows_counted: str
    synthetic_rows: str
    mechanism: str
    runs: str
    beside: Prepared | None
    confidence: str
    columns: tuple[ColumnShown, ...]
    rules: tuple[str, ...]
    meaning: EpsilonMeaning


@dataclass(frozen=True, kw_only=True, slots=True)
class ReleaseRequestPage:
    """A release that waits for a reviewer, or did.

    Attributes:
        wish: what is to be done with the dataset.
        plan: None where it cannot be shown any more, which `why_no_plan` says.
        balance: of the budget.
    """

    title: str
    asked_by: str
    wish: str
    dataset: str
    owner: str
    epsilon: str
    delta: str
    plan: PlanAsked | None
    why_no_plan: str
    reason: str
    protection: str
    balance: str
    budget_address: str
    asked_at: datetime
    matches: tuple[Match, ...]
    meaning: EpsilonMeaning
    decision: ReviewDecision


def budget_request_page(asked: BudgetRequest, form: DecisionForm, *, by: User) -> BudgetRequestPage:
    budget = asked.budget
    policy = Policy(budget.policy)
    tables = list(budget.datasets.select_related("owner"))
    standing = reports.standings([budget])[0] if budget.is_granted else None
    return BudgetRequestPage(
        title=budget.name,
        asked_by=str(asked.requested_by),
        epsilon=asked.epsilon,
        delta=_delta(asked.delta),
        reason=asked.reason or "none",
        before=_before(asked),
        protection=protection_text(budget),
        policy=POLICY_TITLES[policy],
        policy_meaning=POLICY_MEANING[policy],
        tables=", ".join(f"{each.title} ({each.owner})" for each in tables),
        granted=f"{budget.amounts} in all; {standing.in_words}" if standing else "nothing",
        budget_address=reverse("budget_detail", args=[budget.pk]) if standing else "",
        asked_at=asked.requested_at,
        schemas=tuple((each.title, declared_columns(each.universe)) for each in tables),
        meaning=_meaning(asked),
        decision=_decision(asked, form, by=by, approve="Grant"),
    )


def _before(asked: BudgetRequest) -> Said | None:
    """What this request answers: the last one was returned with a question, or denied."""
    last = asked.budget.requests.filter(requested_at__lt=asked.requested_at).order_by("-requested_at").first()
    return said_of(last) if last is not None and last.state in (RequestState.ASKED_BACK, RequestState.DENIED) else None


def release_request_page(asked: ReleaseRequest, form: ReleaseDecisionForm, *, by: User) -> ReleaseRequestPage:
    release = asked.release
    dataset, budget = release.dataset, release.dataset.budget
    assert budget is not None, "a plan was made, so the protection is declared"
    plan, why_no_plan = _plan(asked, budget)
    waits = asked.state == RequestState.WAITING
    return ReleaseRequestPage(
        title=release.title,
        asked_by=str(asked.requested_by),
        wish="open a live session on" if release.kind is SESSION else "release this from",
        dataset=dataset.title,
        owner=str(dataset.owner),
        epsilon=asked.epsilon,
        delta=_delta(asked.delta),
        plan=plan,
        why_no_plan=why_no_plan,
        reason=asked.reason or "none",
        protection=plan.protection if plan is not None else protection_text(budget),
        balance=reports.standings([budget])[0].in_words if budget.is_granted else "nothing granted yet",
        budget_address=reverse("budget_detail", args=[budget.pk]),
        asked_at=asked.requested_at,
        matches=tuple(services.recognition.recognised(budget, by=by)) if waits else (),
        meaning=plan.meaning if plan is not None else _meaning(asked),
        decision=_decision(asked, form, by=by, approve="Approve"),
    )


def _delta(delta: str) -> str:
    return "" if delta == "0" else delta


def declared_columns(universe: Universe | None) -> tuple[ColumnShown, ...]:
    attributes = universe.attributes if universe is not None else ()
    return tuple(ColumnShown(name=each.name, holds=tuple(_holds(each))) for each in attributes)


def _holds(attribute: Attribute) -> Iterator[str]:
    if attribute.dates is not None:
        rest = "; dates before and after are counted in the first and the last" if attribute.outside == CLAMP else ""
        yield f"dates {range_in_words(attribute.dates)}{rest}"
    elif attribute.is_numeric:
        bins = f"{attribute.ranges} bin{'' if attribute.ranges == 1 else 's'}"
        rest = "; values below and above are counted in the first and the last" if attribute.outside == CLAMP else ""
        yield f"{bins} from {attribute.edges[0]} to {attribute.edges[-1]}{rest}"
    else:
        more = ", …" if len(attribute.categories) > _MAX_NAMED else ""
        named = ", ".join(attribute.categories[:_MAX_NAMED])
        yield f"{len(attribute.categories)} categories: {named}{more}"
    if attribute.missing:
        yield f"missing codes: {', '.join(attribute.missing)}"
    if attribute.missing_as:
        what = "leave the row out" if attribute.missing_as == DROP else f"count as {attribute.missing_as}"
        yield f"missing values {what}"


def _meaning(asked: BudgetRequest | ReleaseRequest) -> EpsilonMeaning:
    """Of what can still be granted at most: of two reviewers, the second is bound by the first."""
    return epsilon_meaning(asked.first_epsilon or asked.epsilon, delta=asked.first_delta or asked.delta)


# What the plan says


def _plan(asked: ReleaseRequest, budget: Budget) -> tuple[PlanAsked | None, str]:
    """What was asked for, whatever became of its release since; or why it cannot be shown."""
    stored = asked.asked_plan
    if stored is None and asked.release.status is not ReleaseState.DRAFT:
        # Requests of old kept no plan of their own.
        stored = asked.release.plan
    if not stored:
        return None, "What was asked was not kept with this request."
    try:
        plan = plan_from_json(stored)
    except PlanChanged as error:
        return None, f"What was asked can no longer be shown: {in_words(error)}"
    return _plan_asked(asked, plan, budget), ""


def _plan_asked(asked: ReleaseRequest, plan: Plan, budget: Budget) -> PlanAsked:
    waits = asked.state == RequestState.WAITING
    row = comparison.compared([plan], budget)[0]
    said = session_words(asked.release, plan)
    spares_delta = _delta(asked.delta) and row.price is not None and not row.price.delta
    questions = said.get("questions") or comparison.questions_text(plan.workload)
    leaves = row.leaves if waits else None
    why_no_more = f". {leaves.why_no_more}" if leaves and leaves.why_no_more else ""
    return PlanAsked(
        protection=protection_text(budget, plan.schema),
        cost=row.cost,
        spares_delta=f"no delta: it spends nothing of the {asked.delta} asked for" if spares_delta else "",
        charge=row.charge,
        leaves=leaves.text if leaves else "",
        leaves_more=f"{leaves.more_text}{why_no_more}" if leaves else "",
        refusal=row.refusal if waits else "",
        why_it_waits=_why_it_waits(asked, plan) if waits else "",
        sentence=said.get("sentence") or row.sentence,
        asks=f"{questions}; {comparison.universe_text(plan.workload)}",
        rows_counted=row.rows_counted,
        synthetic_rows=row.synthetic_rows,
        mechanism=row.mechanism.title,
        runs=f"{row.seconds}, {row.memory}",
        beside=prepared(plan) if isinstance(plan, OnlinePlan) else None,
        confidence=percent(1 - plan.beta),
        columns=declared_columns(plan.schema.universe),
        rules=tuple(rules_of(plan.schema)),
        meaning=epsilon_meaning(asked.first_epsilon or asked.epsilon, delta=asked.delta, price=row.price),
    )


def _why_it_waits(asked: ReleaseRequest, plan: Plan) -> str:
    why = services.releases.why_it_waits(release=asked.release, plan=plan, by=asked.requested_by)
    if why is None:
        return "It waits because it was above what could pass without a review when it was asked for."
    return f"It waits because {why.in_words(str(asked.requested_by))}."


# What this reviewer can do


def _decision(
    asked: BudgetRequest | ReleaseRequest, form: DecisionForm | ReleaseDecisionForm, *, by: User, approve: str
) -> ReviewDecision:
    if asked.state != RequestState.WAITING:
        typed = form["note"].value() if form.is_bound else ""
        unsent = f"What you typed was not sent to the curator: “{typed}”" if typed else ""
        return ReviewDecision(said=said_of(asked), unsent=unsent, match_reason=_match_reason(asked, by))
    organisation = Organisation.current()
    first = said_first(asked) if asked.first_by else None
    if why_not := _why_not(asked, organisation, by):
        return ReviewDecision(first=first, why_not=why_not)
    matches = services.recognition.recognised(asked.budget, by=by) if isinstance(asked, BudgetRequest) else []
    recognition = _recognition(asked, matches, by) if isinstance(asked, BudgetRequest) else None
    return ReviewDecision(
        first=first,
        match_reason=_match_reason(asked, by),
        is_first_of_two=organisation.is_two_person and first is None,
        approve="" if recognition and recognition.why_not_approve else approve,
        approve_kind="secondary outline" if any(each.has_budget_of_same_rows for each in matches) else "",
        recognition=recognition,
    )


def _match_reason(asked: BudgetRequest | ReleaseRequest, person: User) -> str:
    if not isinstance(asked, BudgetRequest) or services.recognition.why_not_approve(person, asked.budget):
        return ""
    return asked.match_reason


def _why_not(asked: BudgetRequest | ReleaseRequest, organisation: Organisation, person: User) -> str:
    if not organisation.lets_decide(person):
        return f"Only members of {organisation.reviewers} decide requests."
    if organisation.is_two_person and asked.requested_by_id == person.pk:
        return "You asked for this. The two-person rule wants two others to approve it."
    if stake := what_separates(person, asked):
        return f"{stake.to_them}, so somebody else has to decide it."
    if organisation.is_two_person and asked.first_by_id == person.pk:
        return "You approved it. The two-person rule wants a second person."
    return ""


def _recognition(asked: BudgetRequest, matches: list[Match], person: User) -> Recognition:
    budget, why_not = asked.budget, services.recognition.why_not_approve(person, asked.budget)
    number = services.budgets.requests_lately(asked.requested_by)
    return Recognition(
        why_not_approve=f"{why_not}." if why_not else "",
        not_compared=_not_compared(budget),
        matches=tuple(
            _match(each, can_act=not why_not)
            for each in (*matches, *services.recognition.alike_by_columns(budget, besides=matches))
        ),
        is_recognised=bool(matches),
        needs_reason=any(each.budget.is_granted for each in matches) and not why_not,
        asked_lately=f"{asked.requested_by} has asked for {number} budget{'' if number == 1 else 's'} in the last "
        f"{services.budgets.REQUESTS_COUNTED_DAYS} days, of {settings.BUDGET_REQUESTS_PER_PERSON} at most.",
    )


def _not_compared(budget: Budget) -> str:
    if in_database := [each.title for each in budget.datasets.order_by("created_at") if each.is_in_database]:
        return (
            f"{', '.join(in_database)}: in a database, where rows come and go, so they are compared with those of no "
            f"other table. Ask whether a table with a budget of its own is about the same people."
        )
    if services.fingerprints.is_incomparable(budget):
        return (
            "These rows could not be compared with those of other tables: each attempt failed, or took more time or "
            "memory than a table may. The operator's log says where."
        )
    if services.fingerprints.is_compared(budget):
        return ""
    return (
        "These rows were not compared with those of other tables yet. A worker does that soon after an upload: look "
        "again in a minute."
    )


def _match(match: Match, *, can_act: bool) -> MatchShown:
    budget, table = match.budget, f"{match.dataset.title} ({match.dataset.owner})"
    granted = f"Granted is {budget.amounts} in all." if budget.is_granted else "Nothing is granted for it yet."
    is_apart = match.why_no_join and budget.is_granted
    no_join = f" {match.why_no_join}: deny the request, or return it with a question." if is_apart else ""
    return MatchShown(
        heading=match.heading,
        says=f"{table} {match.in_words} and spends from another budget. {granted} Tables about the same people must "
        f"share one budget.{no_join}",
        table=table,
        owner=str(match.dataset.owner),
        join=f"join:{budget.pk}" if can_act and not match.why_no_join else "",
        join_kind="secondary outline" if match.kind == COLUMNS else "",
        ask=f"consent:{match.dataset.pk}" if can_act else "",
    )
