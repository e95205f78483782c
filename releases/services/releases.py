"""Releases: put together as a draft, compared by plans, submitted with a charge, published or withdrawn."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from releases.engine.accounting import accountant
from releases.engine.domain.privacy import decimal_text, exact, privacy_budget
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import Plan, mechanism, mechanisms
from releases.engine.mechanisms.pmw.online import OnlinePlan
from releases.engine.workload.parsing import read_question
from releases.engine.workload.questions import Question
from releases.ledger import audit_log, high_water_marks, ledger, person_limits, refusals, stale_ledger
from releases.models import (
    CERTIFICATE,
    CHECK,
    PLAIN,
    SESSION,
    AuditAction,
    Dataset,
    LedgerEntry,
    Organisation,
    Release,
    ReleaseKind,
    ReleaseRequest,
    ReleaseState,
    RequestState,
    WorkloadVersion,
)
from releases.notifications import budget_alerts, messages
from releases.publication.column_checks import MOST_CHECKS, checks_had, misread_columns
from releases.services import connections
from releases.services.datasets import read_title
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import (
    NO_ROWS,
    Refusal,
    declared_schema,
    inputs_of,
    options_of,
    read_beta,
    refuse_taken_number,
)
from releases.worker import leases

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: Said to whoever confirms something else than the draft is by now.
DRAFT_CHANGED = "The draft was changed since this page was shown. Read it again."
TOO_MANY_CHECKS = f"The columns were checked {MOST_CHECKS} times for this budget, which is as often as may be."
STATES_ARE_CHECKED = "is true in a check of the columns, and in nothing else"
#: What a draft is planned from, beside what its dataset declares.
_PLANNED_FROM = ("workload", "mechanism", "epsilon", "delta", "beta", "options", "certifies_id", "kind")


def draft_release(
    *, dataset: Dataset, by: User, title: str = "", kind: ReleaseKind = PLAIN, certifies: Release | None = None
) -> Release:
    """Begin a release. Nothing is spent and no data are touched until it is submitted.

    Raises:
        Refusal: the rows were deleted, so it could never be.
    """
    if dataset.rows_deleted_at is not None:
        raise Refusal(NO_ROWS)
    number = dataset.releases.count() + 1
    return Release.objects.create(
        dataset=dataset,
        submitted_by=by,
        title=_read_title(title) if title.strip() else f"Release {number}",
        kind=kind,
        certifies=certifies,
    )


@transaction.atomic
def discard_draft(*, release: Release, by: User) -> None:
    """Forget a draft. One that a reviewer has seen is kept, as cancelled: what was said about it stays readable.

    Raises:
        Refusal: it is no draft.
    """
    draft = Release.objects.filter(pk=release.pk, state=ReleaseState.DRAFT)
    # Locked, so that nobody submits it meanwhile.
    if draft.select_for_update().first() is None:
        raise Refusal("The release was submitted, so it can no longer be discarded.")
    audit_log.record(AuditAction.DISCARD, actor=by, on=release)
    if release.reviews.exists():
        draft.update(state=ReleaseState.CANCELLED)
    else:
        draft.delete()


@planned_atomically()
def load_plan(
    *,
    release: Release,
    by: User,
    workload: Mapping[str, Any] | None,
    epsilon: str,
    delta: str,
    beta: str,
    mechanism_name: str,
    options: Mapping[str, Any],
) -> None:
    """Fill a draft with what a file says: all of it, or nothing. What is empty stays as it is.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: the release is no draft.
    """
    if workload is not None:
        set_questions(release=release, workload=workload)
    if epsilon:
        set_choice(
            release=release,
            epsilon=epsilon,
            delta=delta or "0",
            beta=beta,
            mechanism_name=mechanism_name,
            options=options,
        )
    audit_log.record(AuditAction.LOAD_PLAN, actor=by, on=release)


def name_release(*, release: Release, title: str) -> None:
    """Say what a draft is called wherever it is listed.

    Raises:
        InvalidInput: the title breaks its rule.
        Refusal: the release is no draft.
    """
    named = _read_title(title)
    _update_draft(release, title=named)
    release.title = named


def set_questions(
    *,
    release: Release,
    workload: Mapping[str, Any] | None,
    version: WorkloadVersion | None = None,
) -> Question | None:
    """Set what a draft asks; None to start again.

    Args:
        version: the saved workload's version that it was taken from; else a draft whose questions change has none.

    Raises:
        InvalidInput: a rule of the workload format is broken.
        Refusal: the release is no draft.
    """
    if release.kind is CERTIFICATE:
        raise Refusal("A certificate asks for the error of one release; certify another on that release's page.")
    if workload is None:
        _change_draft(release, workload=None, workload_version=None)
        return None
    read = read_question(dict(workload), declared_schema(release.dataset).universe)
    if not read.is_offered:
        # Typed by hand it could name any file, and would certify nothing that was published.
        raise InvalidInput("workload", read.kind, "is asked by certifying a release on its own page")
    if read.universe.is_of_states is not (release.kind is CHECK):
        raise InvalidInput("workload.states", str(read.universe.is_of_states).lower(), STATES_ARE_CHECKED)
    asked = read.to_json()
    if version is None and asked == release.workload:
        version = release.workload_version
    _change_draft(release, workload=asked, workload_version=version)
    return read


def set_choice(
    *,
    release: Release,
    epsilon: str,
    delta: str = "0",
    beta: str = "0.05",
    mechanism_name: str = "",
    options: Mapping[str, Any] | None = None,
    other_options: Mapping[str, Mapping[str, Any]] | None = None,
    title: str = "",
) -> None:
    """Set a draft's budget, confidence and mechanism.

    Args:
        options: of the chosen mechanism.
        other_options: by name, of mechanisms compared but not chosen; a draft remembers what was typed for each.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: the release is no draft.
    """
    privacy_budget(epsilon=epsilon, delta=delta or "0")
    read_beta(beta)
    kept = dict(release.options or {})
    for name, given in (other_options or {}).items():
        kept[name] = _read_options(name, given)
    if mechanism_name:
        kept[mechanism_name] = _read_options(mechanism_name, options or {})
    _change_draft(
        release,
        epsilon=epsilon.strip(),
        delta=(delta or "0").strip(),
        beta=beta.strip(),
        mechanism=mechanism_name,
        options=kept,
        title=_read_title(title) if title.strip() else release.title,
    )


def compare(*, release: Release) -> list[Plan]:
    """Every mechanism's plan for a draft's questions: public inputs only, nothing spent.

    Raises:
        Refusal: the draft has no questions or budget yet.
    """
    schema, workload, budget, beta = inputs_of(release)
    return [
        each.plan(
            schema,
            workload,
            budget=budget,
            beta=beta,
            options=options_of(release, each.name),
        )
        for each in mechanisms().values()
        if each.is_offered
    ]


def plan_of(*, release: Release) -> Plan:
    """The plan of a draft's chosen mechanism.

    Raises:
        Refusal: nothing is chosen yet.
    """
    schema, workload, budget, beta = inputs_of(release)
    if not release.mechanism:
        raise Refusal("Choose a mechanism first.")
    return mechanism(release.mechanism).plan(
        schema, workload, budget=budget, beta=beta, options=options_of(release, release.mechanism)
    )


def submit_release(
    *, release: Release, key: uuid.UUID, by: User, send: bool = True, reason: str = "", plan: Plan | None = None
) -> LedgerEntry | None:
    """Charge a draft and queue it: charge, release row and the message to a worker are one transaction.

    Where the organisation wants it reviewed first, it waits for a reviewer instead, nothing is charged, and None is
    returned; the approval charges and queues it. Submitting twice with the same key is one submission.

    Args:
        send: False where the caller executes the release itself and no worker need hear of it.
        reason: for reviewers: one decides by it, or all read afterwards what it was for.
        plan: of the draft as `release` holds it, where the caller has made it; it is charged as it is.

    Raises:
        Refusal: it is no draft, or its plan cannot be run, or the draft was changed since the plan was made.
        LedgerRefusal: the budget does not allow it; nothing is charged.
    """
    if (before := _submitted_before(release, key)) is not None:
        return before if isinstance(before, LedgerEntry) else None
    if plan is None:
        # Before the transaction, for it can take long, and others wait for the lock.
        release.refresh_from_db()
        plan = plan_of(release=release)
    if not reason.strip() and (misread := misread_columns(release, plan.schema.universe)):
        raise Refusal(
            f"By the check of the columns, {misread} Correct the columns, or say with the reason why it is right. "
            "Nothing was charged."
        )
    unchanged = seen_unchanged(release, plan)
    return _submit(release, plan, unchanged=unchanged, key=key, by=by, send=send, reason=reason)


def seen_unchanged(release: Release, plan: Plan) -> connections.Unchanged:
    """What a charge of a plan wants; see `connections.seen_unchanged`.

    Raises:
        Refusal: its table is in a database, which is away or lists it otherwise now.
    """
    try:
        return connections.seen_unchanged(release.dataset, plan.schema)
    except connections.Unavailable as error:
        raise Refusal(f"{error} Nothing was charged.") from None


def _submitted_before(release: Release, key: uuid.UUID) -> LedgerEntry | ReleaseRequest | None:
    """What a submission with this key has made."""
    made = {"key": key, "release": release}
    return LedgerEntry.objects.filter(**made).first() or ReleaseRequest.objects.filter(**made).first()


@transaction.atomic
def _submit(
    release: Release,
    plan: Plan,
    *,
    unchanged: connections.Unchanged,
    key: uuid.UUID,
    by: User,
    send: bool,
    reason: str,
) -> LedgerEntry | None:
    # Of two submissions at once the second sees here what the first has made.
    if (before := _submitted_before(release, key)) is not None:
        return before if isinstance(before, LedgerEntry) else None
    _refuse_if_changed(release)
    if plan.infeasible:
        raise Refusal(plan.infeasible)
    if release.kind is SESSION and not isinstance(plan, OnlinePlan):
        # A worker could not open it, and the charge would stay.
        raise Refusal(f"{mechanism(plan.mechanism).title} answers no questions one at a time; plan the session again.")
    try:
        # Undone, and looked at by a reviewer instead, where two submissions at once come to too much together.
        with transaction.atomic():
            if needs_review(release=release, plan=plan, by=by):
                raise refusals.Unseen
            entry = charge_and_queue(
                release=release,
                plan=plan,
                unchanged=unchanged,
                key=key,
                by=by,
                since=ReleaseState.DRAFT,
                most_unseen=None if _is_approved(release, plan) else _threshold(),
                reason=reason,
            )
    except refusals.Unseen:
        _send_to_review(release, plan, key=key, by=by, reason=reason)
        return None
    if send:
        enqueue(release.pk)
    return entry


def needs_review(*, release: Release, plan: Plan, by: User) -> bool:
    """Whether a reviewer must see a plan before it is charged: with what this person released of the budget without a
    review, it comes to more than the organisation lets pass, or it has no epsilon to compare; and it is not the very
    plan that was approved already. The ledger decides it a second time under its lock."""
    return why_it_waits(release=release, plan=plan, by=by) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class WhyItWaits:
    """Why a reviewer has to see a release: what one person has released of its budget without a review, as epsilon.

    Attributes:
        before: without the release.
        with_it: with it; None where it has no epsilon to add up.
        most: what may pass.
    """

    before: str
    with_it: str | None
    most: str

    def in_words(self, who: str) -> str:
        if self.with_it is None:
            return (
                f"what {who} would have released of this budget without a review has no epsilon to hold against the "
                f"{self.most} that may pass"
            )
        already = f" ({self.before} before it)" if self.before != "0" else ""
        return (
            f"with it {who} would have released epsilon {self.with_it}{already} of this budget that no reviewer saw; "
            f"up to {self.most} may pass"
        )


def why_it_waits(*, release: Release, plan: Plan, by: User, beside: Fraction = Fraction(0)) -> WhyItWaits | None:
    """The numbers by which `needs_review` decides; None where no reviewer has to see it.

    Args:
        beside: the epsilon of what else this person is about to submit without a review.
    """
    threshold, budget = _threshold(), release.dataset.budget
    if threshold is None or budget is None or _is_approved(release, plan):
        return None
    price = accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)
    with_it = person_limits.unseen_with(release=release, budget=budget, price=price, person=by) + beside
    if with_it <= threshold:
        return None
    return WhyItWaits(
        before=decimal_text(person_limits.unseen_before(release=release, budget=budget, person=by) + beside),
        with_it=None if with_it >= person_limits.NO_EPSILON else decimal_text(with_it),
        most=decimal_text(threshold),
    )


def _threshold() -> Fraction | None:
    text = Organisation.current().review_above
    return exact(text, field="review_above") if text else None


def _is_approved(release: Release, plan: Plan) -> bool:
    """Whether a reviewer approved this very plan."""
    return release.reviews.filter(state=RequestState.APPROVED, approved_plan=plan_digest(plan)).exists()


def plan_digest(plan: Plan) -> str:
    """What tells one plan from every other."""
    return person_limits.plan_digest(plan.to_json())


def _send_to_review(release: Release, plan: Plan, *, key: uuid.UUID, by: User, reason: str) -> None:
    _move(release, ReleaseState.DRAFT, state=ReleaseState.REVIEW, plan=plan.to_json(), submitted_by=by)
    # Seen under the budget's lock: from here on the release keeps its protection from being changed.
    ledger.lock_for(release=release, unit=plan.schema.unit, neighbours=plan.schema.neighbours)
    _refuse_without_rows(release)
    request = ReleaseRequest.objects.create(
        release=release,
        key=key,
        asked_plan=plan.to_json(),
        epsilon=release.epsilon,
        delta=release.delta,
        reason=reason.strip(),
        requested_by=by,
    )
    detail = f"a review of epsilon {release.epsilon}; {reason}"
    audit_log.record(AuditAction.REQUEST, actor=by, on=release, detail=detail.rstrip("; "))
    release.refresh_from_db()
    messages.request_made(request)


def charge_and_queue(
    *,
    release: Release,
    plan: Plan,
    unchanged: connections.Unchanged,
    key: uuid.UUID,
    by: User,
    since: ReleaseState,
    most_unseen: Fraction | None = None,
    reason: str = "",
) -> LedgerEntry:
    """Charge a plan and queue its release. Called inside a transaction.

    Args:
        unchanged: of its dataset.
        since: the state it must still be in.
        most_unseen: as `ledger.charge` takes it.
        reason: given with a submission that no reviewer was asked about, so that no request holds it.

    Raises:
        Refusal: it is in another.
        LedgerRefusal: the budget does not allow it; nothing is charged.
    """
    assert unchanged.dataset_id == release.dataset_id
    _move(
        release,
        since,
        state=ReleaseState.QUEUED,
        plan=plan.to_json(),
        submitted_by=by,
        submitted_at=timezone.now(),
        lease_until=leases.next_hint(),
        step="Waiting for a worker",
    )
    entry = ledger.charge(
        release=release,
        unit=plan.schema.unit,
        neighbours=plan.schema.neighbours,
        events=plan.events,
        delta=plan.delta,
        key=key,
        actor=by,
        most_unseen=most_unseen,
    )
    _refuse_without_rows(release)
    if release.kind is CERTIFICATE:
        refuse_taken_number(release, plan)
    if release.kind is CHECK and checks_had(entry.budget) > MOST_CHECKS:
        raise Refusal(TOO_MANY_CHECKS)
    budget_alerts.raise_alerts(entry.budget)
    detail = f"epsilon {release.epsilon}{audit_log.BEFORE_A_REASON}{reason.strip()}"
    audit_log.record(AuditAction.SUBMIT, actor=by, on=release, detail=detail.removesuffix(audit_log.BEFORE_A_REASON))
    release.refresh_from_db()
    return entry


def _refuse_if_changed(release: Release) -> None:
    """Locks the draft, so that it stays what was planned until it is charged."""
    stored = Release.objects.select_for_update(of=("self",)).select_related("dataset").get(pk=release.pk)
    is_same = all(getattr(stored, name) == getattr(release, name) for name in _PLANNED_FROM)
    declared, before = ((each.dataset.declared, each.dataset.impossible) for each in (stored, release))
    if not is_same or declared != before:
        raise Refusal(DRAFT_CHANGED)


def _refuse_without_rows(release: Release) -> None:
    """Locks the dataset, so that its rows are not deleted between this and the charge."""
    dataset = Dataset.objects.select_for_update().get(pk=release.dataset_id)
    if dataset.rows_deleted_at is not None:
        raise Refusal(NO_ROWS)


def _move(release: Release, since: ReleaseState, **values: Any) -> None:
    if Release.objects.filter(pk=release.pk, state=since).change(**values) != 1:
        raise Refusal(f"The release is {Release.objects.get(pk=release.pk).state}; only a draft can be submitted.")


@transaction.atomic
def cancel_release(*, release: Release, by: User) -> None:
    """Cancel a release of which nothing was read, and that no worker holds, and give its charge back.

    One that waits for a reviewer has no charge; it becomes a draft again.

    Raises:
        Refusal: a worker has it, or the data may have been touched, or the database is behind what is remembered
            outside it, so the charge stays; or there is no charge.
    """
    waiting = release.reviews.filter(state=RequestState.WAITING)
    asked = waiting.first()
    if asked is not None and waiting.update(state=RequestState.TAKEN_BACK):
        messages.request_taken_back(asked)
        _move(release, ReleaseState.REVIEW, state=ReleaseState.DRAFT, plan=None)
        audit_log.record(AuditAction.TAKE_BACK, actor=by, on=release)
        release.refresh_from_db()
        return
    waiting_unread = Release.objects.filter(pk=release.pk, state=ReleaseState.QUEUED).that_read_nothing()
    moved = waiting_unread.update(state=ReleaseState.CANCELLED, step="")
    if moved != 1:
        release.refresh_from_db()
        if release.status in (ReleaseState.DRAFT, ReleaseState.CANCELLED):
            raise Refusal(f"The release is {release.status.label}; there is no charge of it to give back.")
        raise Refusal("A worker has already started it, so the charge stays and it runs to its end.")
    if why := stale_ledger.refusal(release.dataset.budget) or stale_ledger.begun(release.pk):
        raise Refusal(f"{why} Its charge stays.")
    ledger.give_back(release=release, actor=by)
    audit_log.record(AuditAction.CANCEL, actor=by, on=release)
    release.refresh_from_db()
    # On disc before the commit: a backup from before must not run it, nor give it back a second time.
    high_water_marks.note_cancelled(release.pk)


@transaction.atomic
def make_public(*, release: Release, by: User | None = None) -> None:
    """Let everybody see a published release, signed in or not.

    Raises:
        Refusal: it is not published.
    """
    finished = Release.objects.filter(pk=release.pk, state=ReleaseState.PUBLISHED)
    if finished.filter(is_public=False).update(is_public=True):
        audit_log.record(AuditAction.MAKE_PUBLIC, actor=by, on=release)
    elif not finished.exists():
        raise Refusal("Only a finished release can be made public.")


@transaction.atomic
def make_private(*, release: Release, by: User | None = None) -> None:
    """Show a release to its dataset's people only. Who has seen it has seen it; the budget stays spent."""
    if Release.objects.filter(pk=release.pk, is_public=True).update(is_public=False):
        audit_log.record(AuditAction.MAKE_PRIVATE, actor=by, on=release)


@transaction.atomic
def withdraw_release(*, release: Release, by: User | None = None) -> None:
    """Show a published release no longer. The budget stays spent.

    Raises:
        Refusal: it is not published.
    """
    moved = Release.objects.filter(pk=release.pk, state=ReleaseState.PUBLISHED).update(
        state=ReleaseState.WITHDRAWN, is_public=False, withdrawn_at=timezone.now()
    )
    if moved != 1:
        raise Refusal("Only a finished release can be withdrawn.")
    audit_log.record(AuditAction.WITHDRAW, actor=by, on=release)


def enqueue(release_id: uuid.UUID) -> None:
    """Tell a worker after the commit; a lost message is sent again by `reconcile`."""
    leases.hint("releases.execute", release_id=str(release_id))


def _read_title(title: str) -> str:
    return read_title(title, what="the release holds")


def _read_options(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """A mechanism's options as typed, checked; those left empty are the mechanism's to decide."""
    known = {option.name: option for option in mechanism(name).options}
    typed = {option: value for option, value in given.items() if value not in (None, "")}
    unknown = set(typed) - set(known)
    if unknown:
        raise InvalidInput("options", ", ".join(sorted(unknown)), f"is not an option of {name}")
    return {option: known[option].read(value) for option, value in typed.items()}


def _change_draft(release: Release, **values: Any) -> None:
    _update_draft(release, **values)
    # With its questions: a page shows what would be asked after what was sent on trial is undone.
    release.refresh_from_db(from_queryset=Release.objects.select_related("stored_questions"))


def _update_draft(release: Release, **values: Any) -> None:
    if Release.objects.filter(pk=release.pk, state=ReleaseState.DRAFT).change(**values) != 1:
        raise Refusal("The release was submitted and can no longer be changed. Clone it to plan another.")
