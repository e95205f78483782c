"""The page of a live session: what it answers, what is left of it, and everything asked so far."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_DOWN, ROUND_UP, Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Any

from django.contrib.auth.models import User
from django.core.paginator import Page, Paginator
from django.http import QueryDict
from django.urls import reverse

from releases import services
from releases.engine.domain.attribute import number, plain
from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.live.noise import PARTS, NoiseRules
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.mechanisms.pmw.session import UpdateRules
from releases.engine.workload.queries import read_count
from releases.forms.fields import MAX_TICKED_COLUMNS
from releases.forms.predicates import ColumnField, ConditionsForm
from releases.models import Audience, Release, ReleaseState, Session, SessionAnswer
from releases.planning import comparison
from releases.presentation.sessions.past_answers import AnswerShown, answer_shown
from releases.presentation.sessions.sentences import bought_text, session_sentence
from releases.presentation.sessions.session_list import session_chip
from releases.publication.receipt import rows_text, rules_of
from releases.services.session_questions import FreeAnswer, Offer
from releases.services.sessions import NARROWED, SessionBalance

PAGE_LENGTH = 25
#: Few enough columns and bins to show all of them opened, ready to click.
_MAX_OPEN_COLUMNS, _MAX_OPEN_BINS = 9, 12

_CLOSE_IT = (
    "Close it below: what it answered becomes a release with its error bounds, a receipt and synthetic rows, and "
    "closing spends nothing."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class OfferShown:
    """What an answer would take of the session, of which `left` is left; `query` and `within` ask for it."""

    title: str
    margin: str
    takes: str
    left: str
    query: str
    within: str


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownShown:
    """The answer of a finished release.

    Attributes:
        query: the question as text, to ask the session all the same, whose answer is within `own_margin`.
        within: the error that was asked for; empty where none was.
    """

    title: str
    estimate: str
    margin: str
    lower: str
    upper: str
    confidence: str
    release: str
    address: str
    query: str
    within: str
    own_margin: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveSession:
    """The part that a question changes.

    Attributes:
        problem: what is wrong with the question; empty where nothing is.
        answer: the one that is shown; `question` what it answers, as it was asked.
        known: what a finished release answers, in its place.
        offer: what an answer would take that was asked for with an error of its own.
        over: why it answers no new questions; empty while it does. `kept_as` is the address of its release, if the
            person may read that, and `then` says what becomes of the answers.
        why_not_ask: why this person may not ask; empty where they may, or where nobody can.
        updates, questions: how many are left; `updates` is empty where there are none.
        share: what is left of a session whose answers each have a price; empty of others.
        rows_margin: empty where the number of rows is public.
        may_run_out: that there are more rows than it was planned for; empty where there are not.
        history: one page of `rows`.
    """

    problem: str
    answer: AnswerShown | None
    question: dict[str, Any]
    known: KnownShown | None
    offer: OfferShown | None
    over: str
    kept_as: str
    then: str
    why_not_ask: str
    updates: str
    questions: str
    share: str
    cost: str
    table_rows: str
    rows_margin: str
    may_run_out: str
    is_own: bool
    history: Page[SessionAnswer]
    rows: tuple[AnswerShown, ...]
    csv_address: str
    json_address: str


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionPage:
    """A session for those who may read it.

    Attributes:
        chip: whether it answers; `chip_kind` the chip's class.
        dataset_address: for its own people; empty for others.
        bought: what was answered when it was opened, and `tables` these by name; empty where nothing was.
        can_be_asked: something new, by this person.
        fields: a condition on each column, to click, and whether it is shown opened; empty where there are too many.
        has_prices: an answer can be asked for with an error of its own; `within` is the one that was typed, and
            `usual` what an answer is within and takes where none is.
        example: a question as text; `opens_text` where one was sent so, which `is_text_wrong` if it is.
        left_out: which rows are not counted; `not_known` that nobody knows how many, where there can be some.
        may_change: rows come and go while it is open.
        audiences: who may ask, with labels, and whether each is chosen; empty where the person cannot say so.
        is_used_up: it can be closed, and there is a reason to.
    """

    title: str
    chip: str
    chip_kind: str
    dataset: str
    dataset_address: str
    opened_at: datetime
    sentence: str
    columns: str
    bought: str
    tables: tuple[str, ...]
    can_be_asked: bool
    has_prices: bool
    within: str
    usual: str
    fields: tuple[tuple[ColumnField, bool], ...]
    example: str
    opens_text: bool
    is_text_wrong: bool
    live: LiveSession
    left_out: tuple[str, ...]
    may_change: bool
    not_known: str
    audiences: tuple[tuple[str, str, bool], ...]
    audience_address: str
    close_address: str
    is_used_up: bool


def live_session(
    session: Session,
    plan: OnlinePlan,
    *,
    person: User,
    page: str | None,
    answer: int | None = None,
    again: bool = False,
    problem: str = "",
    known: FreeAnswer | None = None,
    offer: Offer | None = None,
) -> LiveSession:
    """
    Args:
        page: of what was asked so far.
        answer: the number of the one to show; `again` where it was asked before.
        problem: what is wrong with the question. An answer before it would be taken for one to this question, so none
            is shown then.
        known: what a finished release answers to the question, in place of the session.
    """
    release, universe, rules = session.release, plan.schema.universe, plan.rules
    is_own = Release.objects.editable_by(person).filter(pk=release.pk).exists()
    told, standing = session.told(person), services.sessions.standing(session, plan)
    number = None if problem or known is not None or offer is not None else answer
    shown = told.filter(sequence=number).first() if number is not None else None
    history = Paginator(told.select_related("asked_by").order_by("-sequence"), PAGE_LENGTH).get_page(page)
    is_published = release.status is ReleaseState.PUBLISHED
    can_read_release = is_published and Release.objects.visible_to(person).filter(pk=release.pk).exists()
    has_updates = isinstance(rules, UpdateRules)
    is_larger = has_updates and session.total > plan.options["population"] and rules.updates < (rules.questions or 0)
    return LiveSession(
        problem=problem,
        answer=answer_shown(shown, session, universe, again=again) if shown is not None else None,
        question=shown.query if shown is not None else {},
        known=_known_shown(known, plan) if known is not None else None,
        offer=_offer_shown(offer, standing, plan) if offer is not None else None,
        over=standing.over,
        kept_as=reverse("release_detail", args=[release.pk]) if can_read_release else "",
        then=_then(session, is_own=is_own, is_below=bool(history) and not can_read_release),
        why_not_ask="" if standing.over or session.lets_ask(person) else NARROWED,
        updates=f"{standing.updates_left:,} of {standing.updates:,}" if has_updates else "",
        questions=_questions_left(plan, standing),
        share="" if standing.share_left is None else _share_text(standing.share_left, ROUND_DOWN),
        cost=comparison.compared([plan], None)[0].cost,
        table_rows=f"{session.total:,}",
        rows_margin=rows_text(session.total_half_width, universe.counted) if session.total_half_width else "",
        may_run_out=_may_run_out(plan) if is_larger and not standing.over else "",
        is_own=is_own,
        history=history,
        rows=tuple(answer_shown(each, session, universe, names_people=is_own) for each in history),
        csv_address=reverse("transcript_csv", args=[session.pk]),
        json_address=reverse("transcript_json", args=[session.pk]),
    )


def _questions_left(plan: OnlinePlan, standing: SessionBalance) -> str:
    if standing.questions is None:
        return "no limit"
    left = f"{standing.questions_left:,} of {standing.questions:,}"
    return f"{left} with a price; no limit to others" if plan.answers_at_start else left


def _share_text(share: Fraction, rounding: str) -> str:
    """A share in percent, to a thousandth."""
    exact = Decimal(share.numerator * 100) / Decimal(share.denominator)
    return f"{exact.quantize(Decimal('0.001'), rounding=rounding).normalize():f}%"


def _offer_shown(offer: Offer, standing: SessionBalance, plan: OnlinePlan) -> OfferShown:
    return OfferShown(
        title=read_count(dict(offer.query), plan.schema.universe).title(plan.schema.universe),
        margin=rows_text(offer.price.half_width, plan.schema.counted),
        takes=_share_text(Fraction(offer.price.parts, PARTS), ROUND_UP),
        left=_share_text(standing.share_left or Fraction(0), ROUND_DOWN),
        query=json.dumps(offer.query, ensure_ascii=False),
        within=str(offer.within),
    )


def _known_shown(known: FreeAnswer, plan: OnlinePlan) -> KnownShown:
    found = known.answer
    own = known.within or plan.half_width_of(read_count(dict(known.query), plan.schema.universe))
    return KnownShown(
        title=read_count(dict(known.query), plan.schema.universe).title(plan.schema.universe),
        estimate=f"{round(found.estimate):,}",
        margin=rows_text(ceil(found.half_width), plan.schema.counted),
        lower=f"{floor(found.lower):,}",
        upper=f"{ceil(found.upper):,}",
        confidence=found.confidence,
        release=found.release.title,
        address=reverse("release_detail", args=[found.release.pk]),
        query=json.dumps(known.query, ensure_ascii=False),
        within="" if known.within is None else str(known.within),
        own_margin=rows_text(own, plan.schema.counted),
    )


def _then(session: Session, *, is_own: bool, is_below: bool) -> str:
    """What becomes of the answers of a session that answers no new questions."""
    state, sentences = session.release.status, []
    if is_below:
        stays = " and stays readable for everybody who could ask" if state is ReleaseState.PUBLISHED else ""
        sentences.append(f"Everything it has answered is below{stays}.")
    if is_own and session.used_up_at and state is ReleaseState.OPEN:
        sentences.append(_CLOSE_IT)
    return " ".join(sentences)


def _may_run_out(plan: OnlinePlan) -> str:
    return (
        f"The session was planned for about {plan.options['population']:,} rows and there are more, so its updates may "
        "run out before all questions are asked."
    )


def session_page(
    session: Session,
    plan: OnlinePlan,
    live: LiveSession,
    *,
    typed: ConditionsForm | None,
    is_text: bool,
    within: str,
) -> SessionPage:
    """
    Args:
        within: what was typed as the error that can be accepted.
        live: the part that a question changes, made before.
        typed: the question that was sent; without one, the fields hold the question whose answer is shown.
        is_text: it was sent as text.
    """
    release, universe = session.release, plan.schema.universe
    chip_kind, chip = session_chip(session)
    fields = typed or ConditionsForm(_fields_of(live.question), universe=universe)
    opens_all = len(universe.names) <= _MAX_OPEN_COLUMNS and max(universe.shape) <= _MAX_OPEN_BINS
    is_clickable = len(universe.names) <= MAX_TICKED_COLUMNS
    can_change = live.is_own and release.status is ReleaseState.OPEN
    return SessionPage(
        title=release.title,
        chip=chip,
        chip_kind=chip_kind,
        dataset=release.dataset.title,
        dataset_address=reverse("dataset_detail", args=[release.dataset_id]) if live.is_own else "",
        opened_at=session.opened_at,
        sentence=session_sentence(plan),
        columns=", ".join(universe.names),
        bought=bought_text(plan),
        tables=tuple(each.title(universe) for each in plan.counts_asked.families) if plan.answers_at_start else (),
        can_be_asked=not live.over and not live.why_not_ask,
        has_prices=isinstance(plan.rules, NoiseRules),
        within=within,
        usual=_usual(plan),
        fields=tuple((each, opens_all or each.is_set) for each in fields.column_fields) if is_clickable else (),
        example=_example(universe),
        opens_text=is_text or not is_clickable,
        is_text_wrong=is_text and bool(live.problem),
        live=live,
        left_out=tuple(rules_of(plan.schema)),
        may_change=release.dataset.is_in_database,
        not_known=f"How many {universe.counted.many} are left out is not known." if plan.schema.rows_may_vanish else "",
        audiences=_audiences(session) if can_change else (),
        audience_address=reverse("session_audience", args=[session.pk]),
        close_address=reverse("session_close", args=[session.pk]),
        is_used_up=session.used_up_at is not None,
    )


def _usual(plan: OnlinePlan) -> str:
    rules = plan.rules
    if not isinstance(rules, NoiseRules):
        return ""
    takes = _share_text(Fraction(rules.usual_parts, PARTS), ROUND_UP)
    unless = ", or nothing where the answers bought at the start say it" if plan.answers_at_start else ""
    return f"{rows_text(rules.paid_half_width, plan.schema.counted)}, which takes {takes} of the session{unless}"


def _audiences(session: Session) -> tuple[tuple[str, str, bool], ...]:
    labels = {
        Audience.GROUP: "The dataset's people: its owner and their group",
        Audience.EVERYBODY: "Everybody who signs in",
    }
    return tuple((each.value, label, session.audience == each) for each, label in labels.items())


def _fields_of(question: dict[str, Any]) -> QueryDict:
    """The fields of the page that would ask a question again."""
    fields = QueryDict(mutable=True)
    for name, condition in question.items():
        if isinstance(condition, dict):
            fields.update({f"{end}.{name}": _end(value, name) for end, value in condition.items()})
        else:
            fields.setlist(f"in.{name}", [str(each) for each in condition])
    return fields


def _end(value: object, name: str) -> str:
    """An end of a range as it is typed: a number, or the name of a bin of dates."""
    return value if isinstance(value, str) else plain(number(value, field=name))


def _example(universe: Universe) -> str:
    """A question in the format, about the columns that there are."""
    asked: dict[str, Any] = {}
    for attribute in universe.attributes[:2]:
        described = attribute.to_json()
        if attribute.is_numeric:
            asked[attribute.name] = {"from": described["edges"][0], "to": described["edges"][1]}
        else:
            asked[attribute.name] = [attribute.labels[0]]
    return json.dumps(asked, ensure_ascii=False)
