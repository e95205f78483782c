"""Live sessions: opened by a worker under one charge, asked one question at a time (closed in ``session_closing``).

An answer is in the database, and its number outside of it, before anybody sees it. The state of a session is a function
of its transcript (``session_state.py``); only the noisy threshold is stored beside it, and it is never shown.
"""

from __future__ import annotations

import hashlib
import json
import logging
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import Sum
from django.utils import timezone

from releases.engine.domain.privacy import privacy_budget
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.engine.mechanisms.live.noise import PARTS, NoiseRules
from releases.engine.mechanisms.live.ways import own_options, plan_of_way
from releases.engine.mechanisms.pmw.online import OnlinePlan, one_count
from releases.engine.mechanisms.pmw.session import AnswerKind, AnswerPrice, Exchange, SessionOver
from releases.engine.mechanisms.pmw.session import SessionUnderWay as LiveSession
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Count, Marginal, Workload, read_count
from releases.engine.workload.questions import universe_asked
from releases.ledger import audit_log, high_water_marks, ledger, stale_ledger
from releases.models import (
    SESSION,
    Audience,
    AuditAction,
    Dataset,
    Release,
    ReleaseState,
    Session,
    SessionAnswer,
    WorkloadVersion,
)
from releases.notifications import messages
from releases.services import attempts, reading, session_state, stored_tables
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import Refusal, declared_schema, read_beta
from releases.services.releases import draft_release, set_choice, set_questions
from releases.worker.failures import log_failure

if TYPE_CHECKING:
    from django.contrib.auth.models import User

logger = logging.getLogger(__name__)

#: Said to whoever asked in a session and may do so no more.
NARROWED = (
    "The curator has narrowed who may ask here, and you may no more. What was answered up to your last question stays "
    "readable to you."
)
#: Said of an open session, and to whoever asks something new in it, while its budget is frozen.
FROZEN = "A reviewer has frozen the budget, so no new questions are answered until it is unfrozen."
#: Said where the table is not there before it is opened for a question.
AWAY = "The table cannot be read now. Nothing was answered and nothing is used up."
#: Said, whatever the cause, once rows may have been read for a question that has no answer.
UNANSWERED = (
    "A question could not be answered, so this session is closed. What it answered before is kept. The charge stays: "
    "all that a session can cost is charged when it is opened. The reason is not shown, as it could depend on the rows."
)
#: Said where no update is left, and what is public proves no further answer.
UNPROVED = "All paid updates are used; a further answer would come without a proved bound, so none is given."
#: Questions that a session is planned for where nobody says how many.
DEFAULT_QUESTIONS = 1_000


class Unanswered(Refusal):
    """Rows may have been read for a question that has no answer: this one, or one before it."""

    def __init__(self) -> None:
        super().__init__(UNANSWERED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """An answer, and what is left.

    Attributes:
        exchange: as published.
        sequence: the number of the stored answer; of a question asked before, that of the closest.
        updates_left, questions_left: after it; `questions_left` is None where their number has no limit.
    """

    exchange: Exchange
    sequence: int
    updates_left: int
    questions_left: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionBalance:
    """Where a session stands. A function of the plan and the transcript, so it is public.

    Attributes:
        updates, questions: how many there are in all; `questions` is None where their number has no limit.
        updates_left, questions_left: of them.
        share_left: of what a session can spend whose answers each have a price; None of others.
        over: why it answers no new question; empty while it does.
    """

    updates: int
    questions: int | None
    updates_left: int
    questions_left: int | None
    share_left: Fraction | None
    over: str


@planned_atomically()
def draft_session(
    *,
    dataset: Dataset,
    by: User,
    title: str,
    epsilon: str,
    delta: str = "0",
    beta: str = "0.05",
    options: Mapping[str, Any] | None = None,
    columns: Collection[str] = (),
    way: str = "",
    listed: Mapping[str, Any] | None = None,
    version: WorkloadVersion | None = None,
) -> Release:
    """A draft of a session, ready to be confirmed and submitted like any release.

    Args:
        columns: that can be asked about; none given, all that are declared, or those of the list.
        way: in which it answers, by the name of the mechanism; empty for the one with the closest bound.
        listed: questions that are answered when it is opened, in the workload format.
        version: the saved workload's version that they were taken from.

    Raises:
        InvalidInput: a value breaks its rule.
    """
    release = draft_release(dataset=dataset, by=by, title=title or "Live session", kind=SESSION)
    change_session(
        release=release,
        epsilon=epsilon,
        delta=delta,
        beta=beta,
        options=options,
        columns=columns,
        way=way,
        listed=listed,
        version=version,
    )
    return release


@planned_atomically()
def change_session(
    *,
    release: Release,
    epsilon: str,
    delta: str = "0",
    beta: str = "0.05",
    options: Mapping[str, Any] | None = None,
    columns: Collection[str] = (),
    way: str = "",
    listed: Mapping[str, Any] | None = None,
    version: WorkloadVersion | None = None,
) -> None:
    """Set what a draft of a session may spend, its options, the columns that can be asked about, and how it answers.

    Args:
        listed, version: as in `draft_session`.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: it is no draft any more.
    """
    # What the bound speaks of is the number of questions; without a list the workload merely names the columns.
    schema = declared_schema(release.dataset)
    asked = list_of_session(schema.universe, listed, columns)
    named = asked or one_count(schema.universe.project(columns_of_session(schema.universe, columns)))
    set_questions(release=release, workload=named.to_json(), version=version)
    given = {"questions": DEFAULT_QUESTIONS} | {name: value for name, value in (options or {}).items() if value}
    plan = plan_of_way(
        way,
        replace(schema, universe=named.universe),
        budget=privacy_budget(epsilon=epsilon, delta=delta or "0"),
        beta=read_beta(beta),
        options=given,
        listed=asked,
    )
    own = own_options(plan.mechanism, given)
    set_choice(release=release, epsilon=epsilon, delta=delta, beta=beta, mechanism_name=plan.mechanism, options=own)


def list_of_session(
    universe: Universe, listed: Mapping[str, Any] | None, columns: Collection[str] = ()
) -> Workload | None:
    """The questions that are answered at the start, over the columns that can be asked about; None where none are.

    Args:
        columns: that can be asked about; one that the list does not look at gets a table of its own in it.

    Raises:
        InvalidInput: they break a rule of the workload format, or are no counts; or a column is not declared.
    """
    if listed is None:
        return None
    read = read_question(dict(listed), universe)
    if not isinstance(read, Workload):
        raise InvalidInput("workload", read.kind, "must be tables and counts")
    others = [name for name in columns_of_session(universe, columns) if name in columns and name not in read.columns]
    whole = replace(read, families=(*read.families, *(Marginal(attributes=(name,)) for name in others)))
    return replace(whole, universe=universe_asked(whole))


def all_tables(names: Sequence[str], *, columns: int) -> dict[str, Any]:
    """The tables of every so many columns or fewer, in the workload format."""
    orders = range(1, min(columns, len(names)) + 1)
    return {"version": 1, "queries": [{"marginals": order, "columns": list(names)} for order in orders]}


def column_sets(names: Collection[str], *, columns: int) -> Iterator[tuple[str, ...]]:
    """Every so many of the columns, or fewer."""
    return chain.from_iterable(combinations(names, each) for each in range(1, columns + 1))


def columns_of_session(universe: Universe, columns: Collection[str]) -> tuple[str, ...]:
    """The columns that can be asked about, in declared order: those named, or all of one population where none is.

    Raises:
        InvalidInput: one of them is not declared.
    """
    return tuple(sorted(set(columns), key=universe.axis)) or universe.populations[0].names


def open_session(*, release: Release, token: uuid.UUID, live: LiveSession) -> bool:
    """Open a charged session: its secret and its state are stored by one compare-and-set, as a result would be."""
    with transaction.atomic():
        opened = Release.objects.filter(pk=release.pk, state=ReleaseState.RUNNING, run_token=token).update(
            state=ReleaseState.OPEN, lease_until=None, step="", share_done=1.0
        )
        if opened != 1:
            return False
        attempts.end(token)
        session = Session.objects.create(
            release=release,
            total=live.total,
            total_half_width=live.total_half_width,
            noisy_threshold=live.noisy_threshold,
        )
        session_state.store_bought(session, live, plan_of_session(session))
        release.refresh_from_db()
        audit_log.record(AuditAction.OPEN, actor=None, on=release, detail=audit_log.BY_A_WORKER)
        messages.release_ended(release)
        high_water_marks.note_opened(release.pk)
    return True


def price_of(*, session: Session, query: Mapping[str, Any], within: int, by: User) -> AnswerPrice | None:
    """What an answer within so many rows takes of a session whose answers each have a price; None of others, of what
    was answered as closely before, and of what was bought at the start. From public facts and earlier answers alone.

    Raises:
        InvalidInput: the question breaks a rule of the format; or no answer within so few rows is left.
        SessionOver: every answer that has a price was asked for.
        Refusal: it is not for them to ask in.
    """
    plan = plan_of_session(session)
    asked = read_count(dict(query), plan.schema.universe)
    if not session.lets_ask(by):
        raise Refusal(NARROWED)
    if not isinstance(plan.rules, NoiseRules) or standing(session, plan).over:
        return None
    key = key_of(asked, plan.schema.universe)
    if session.answers.filter(key=key, half_width__lte=within).exists():
        return None
    price = session_state.replay(session, plan).price(asked, within)
    return price if price.parts else None


@planned_atomically()
def ask_session(*, session: Session, query: Mapping[str, Any], by: User, within: int | None = None) -> Answered:
    """Answer one counting question, given as the workload format's predicate.

    That the table is opened for it is on record before it is. Whether that fails can depend on rows, and on which rows
    are asked about; so after one failure the session asks nothing of the table any more, and says the same of every
    question. What fails before costs nothing.

    Args:
        within: the error that the asker can accept, in rows; None for the session's own.

    Raises:
        InvalidInput: the question breaks a rule of the format; or no answer within so few rows is left.
        SessionOver: no further answer would have a proved bound.
        Refusal: the session is closed; or it is not for them to ask in; or its budget is frozen, and the question was
            not asked before; or the table is away; or the database is behind what is remembered outside it.
        Unanswered: rows may have been read for a question without an answer; see `session_closing.end_unanswered`.
        LedgerRefusal: its budget promises another protection than the session was planned with.
    """
    from releases.engine.noise.randomness import OperatingSystemRandomness

    # One question at a time: the row is locked until the answer is stored.
    locked = Session.objects.select_for_update().select_related("release__dataset").get(pk=session.pk)
    release = locked.release
    is_cut_off = _is_cut_off(locked)
    if release.status is not ReleaseState.OPEN and not is_cut_off:
        raise Refusal(f"The session is {release.status.label}; no more questions can be asked.")
    if not locked.lets_ask(by):
        raise Refusal(NARROWED)
    if is_cut_off:
        raise Unanswered
    plan = plan_of_session(locked)
    assert release.dataset.budget is not None, "it was charged"
    ledger.check_protection(release.dataset.budget, unit=plan.schema.unit, neighbours=plan.schema.neighbours)
    asked = read_count(dict(query), plan.schema.universe)
    is_new = not locked.answers.filter(key=key_of(asked, plan.schema.universe)).exists()
    if is_new and _is_frozen(release):
        raise Refusal(FROZEN)
    if why := stale_ledger.refusal(release.dataset.budget, and_release=release.pk):
        raise Refusal(why)
    live = session_state.take(locked, plan)
    if is_new and not _is_settled(locked, live):
        raise SessionOver(UNPROVED)

    def truth(question: Count) -> int:
        try:
            table = stored_tables.checked(release.dataset, plan.schema, again=True)
        except Exception as error:  # noqa: BLE001  an address, or the text of a file system
            log_failure(logger, f"a question of session {locked.pk}", error)
            raise Refusal(AWAY) from None
        high_water_marks.note_asked(locked.pk, len(live.exchanges) + 1)
        try:
            counted = reading.count(question, plan.schema, table.location)
            table.refuse_if_changed()
            return counted
        except Exception as error:  # noqa: BLE001  whatever a database raises; its text can hold rows
            log_failure(logger, f"a question of session {locked.pk}", error)
            raise Unanswered from None

    exchange = live.ask(asked, truth, rng=OperatingSystemRandomness(), within=within)
    if exchange.kind is not AnswerKind.REPEATED:
        SessionAnswer.objects.create(
            session=locked,
            sequence=len(live.exchanges),
            query=exchange.query.to_json(plan.schema.universe)["count"],
            key=key_of(exchange.query, plan.schema.universe),
            kind=exchange.kind.value,
            estimate=exchange.estimate,
            half_width=exchange.half_width,
            sign=exchange.sign,
            parts=exchange.parts,
            asked_by=by,
        )
        Session.objects.filter(pk=locked.pk).update(noisy_threshold=live.noisy_threshold)
        _note_if_used_up(locked, live)
        sequence = len(live.exchanges)
        session_state.keep(locked, live)
        # On disc before the commit, and so before anybody sees it.
        high_water_marks.note_answer(locked.pk, sequence)
    else:
        asked_before = locked.answers.filter(key=key_of(exchange.query, plan.schema.universe))
        sequence = asked_before.order_by("half_width", "sequence")[0].sequence
        session_state.keep(locked, live)
    return Answered(
        exchange=exchange, sequence=sequence, updates_left=live.updates_left, questions_left=live.questions_left
    )


def _is_settled(session: Session, live: LiveSession) -> bool:
    """As the engine has it, which takes the rows for those that there were when it was opened."""
    return live.rules.are_settled(updates_left=live.updates_left, cells=live.universe.size, rows=session.most_rows)


def _note_if_used_up(session: Session, live: LiveSession) -> None:
    """With the answer that leaves none to come: lists say so from then on, and the curator is told once."""
    if _is_settled(session, live) and not live.is_used_up:
        return
    if Session.objects.filter(pk=session.pk, used_up_at=None).update(used_up_at=timezone.now()):
        messages.session_used_up(session, answers=len(live.exchanges))


def standing(session: Session, plan: OnlinePlan) -> SessionBalance:
    """What is left of a session, without replaying it."""
    rules = plan.rules
    used = session.answers.filter(kind__in=[each.value for each in AnswerKind if each.is_paid]).count()
    # What follows from answers bought at the start is no question with a price.
    asked = used if isinstance(rules, NoiseRules) else session.answers.count()
    left = rules.updates - used
    is_settled = rules.are_settled(updates_left=left, cells=plan.schema.universe.size, rows=session.most_rows)
    share = None
    if isinstance(rules, NoiseRules):
        spent = session.answers.aggregate(parts=Sum("parts"))["parts"] or 0
        share = 1 - Fraction(spent, PARTS)
    over = ""
    if session.release.status is not ReleaseState.OPEN and _is_cut_off(session):
        over = UNANSWERED
    elif session.release.status is ReleaseState.CLOSING:
        over = "It is being closed: a worker is publishing what it has answered."
    elif session.release.status is not ReleaseState.OPEN:
        over = "It was closed."
    elif rules.is_endless:
        over = FROZEN if _is_frozen(session.release) else ""
    elif rules.questions is not None and asked >= rules.questions:
        over = "All the questions that its bound speaks of were asked."
    elif share == 0:
        over = "Its answers have taken all that it may spend."
    elif not is_settled:
        over = UNPROVED
    elif _is_frozen(session.release):
        over = FROZEN
    return SessionBalance(
        updates=rules.updates,
        questions=rules.questions,
        updates_left=left,
        questions_left=None if rules.questions is None else rules.questions - asked,
        share_left=share,
        over=over,
    )


@transaction.atomic
def let_ask(*, session: Session, audience: Audience, by: User | None = None) -> None:
    """Say who may ask.

    Raises:
        Refusal: it is closed; who could ask until then keeps reading what it answered.
    """
    before = Session.objects.select_for_update().get(pk=session.pk).audience
    changed = Session.objects.filter(pk=session.pk, release__state=ReleaseState.OPEN).update(audience=audience)
    if changed != 1:
        raise Refusal("The session is closed. Everybody who could ask in it can still read what it answered.")
    is_narrower = before == Audience.EVERYBODY and audience is not Audience.EVERYBODY
    action = AuditAction.UNSHARE if is_narrower else AuditAction.SHARE
    audit_log.record(action, actor=by, on=session, detail=f"with {audience.label}", facts={"audience": audience.value})


def _is_cut_off(session: Session) -> bool:
    """Of a session that is locked, or not open: no question of it is under way."""
    try:
        return high_water_marks.story(session.pk).is_cut_off
    except high_water_marks.Unreadable:
        # The database does not match what is recorded outside it, which is refused in its own words.
        return False


def _is_frozen(release: Release) -> bool:
    return release.dataset.budget is not None and release.dataset.budget.is_frozen


def plan_of_session(session: Session) -> OnlinePlan:
    """As it was charged, with what is known of its answers since it was opened."""
    plan = plan_from_json(session.release.plan or {})
    assert isinstance(plan, OnlinePlan)
    return session_state.with_bought(session, plan)


def key_of(query: Count, universe: Universe) -> str:
    """The same for the same set of rows asked about in other words."""
    words = query.simplified(universe).to_json(universe)["count"]
    return hashlib.sha256(json.dumps(words, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
