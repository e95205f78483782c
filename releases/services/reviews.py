"""Releases above the organisation's threshold: approved, approved for less, denied, or returned with a question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction

from releases.engine.domain.privacy import exact
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.base import plan_from_json
from releases.ledger import refusals
from releases.models import Release, ReleaseRequest, ReleaseState, RequestState
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import Refusal
from releases.services.releases import charge_and_queue, enqueue, plan_digest, plan_of, seen_unchanged
from releases.services.review_decisions import check_amounts, check_note, decide, is_final_approval

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from releases.engine.mechanisms.base import Plan
    from releases.services.connections import Unchanged


def approve_release(
    *, request: ReleaseRequest, by: User, epsilon: str = "", note: str = "", send: bool = True
) -> ReleaseRequest:
    """Approve a release: it is charged and queued at once, in the name of whoever submitted it.

    With a smaller epsilon its accuracy is another, so it goes back to its curator as a draft with that epsilon;
    confirming just that draft needs no further review.

    Raises:
        InvalidInput: it was decided before, somebody else has to decide, or the epsilon is more than was asked for.
        LedgerRefusal: the budget does not allow it; nothing is decided and nothing charged.
        Refusal: with that epsilon it cannot be run; or its table is in a database, which is away or lists it otherwise
            now.
    """
    granted = epsilon.strip() or request.first_epsilon or request.epsilon
    if exact(granted, field="epsilon") <= 0:
        raise InvalidInput("epsilon", granted, "must be above 0")
    check_amounts(request, epsilon=granted)
    is_whole = exact(granted, field="epsilon") == exact(request.epsilon, field="epsilon")
    charged = None
    if is_whole and request.state == RequestState.WAITING:
        plan = plan_from_json(request.release.plan or {})
        charged = plan, seen_unchanged(request.release, plan)
    return _approve(request, granted, charged, by=by, note=note, send=send)


@planned_atomically()
def _approve(
    request: ReleaseRequest, granted: str, charged: tuple[Plan, Unchanged] | None, *, by: User, note: str, send: bool
) -> ReleaseRequest:
    """
    Args:
        charged: the plan of the release; None where less is granted than was asked for, or it was decided before.
    """
    if not is_final_approval(request, by=by, note=note, epsilon=granted, delta=request.delta):
        return request
    decide(request, RequestState.APPROVED, by=by, note=note, epsilon=granted, delta=request.delta)
    release = request.release
    if charged is not None:
        plan, unchanged = charged
        try:
            charge_and_queue(
                release=release,
                plan=plan,
                unchanged=unchanged,
                key=request.key,
                by=request.requested_by,
                since=ReleaseState.REVIEW,
            )
        except refusals.PersonLimit as refusal:
            # The limit is on who submitted it, and it is the reviewer who reads this.
            raise refusal.of(request.requested_by) from None
        if send:
            enqueue(release.pk)
        return request
    _back_to_draft(release, epsilon=granted)
    plan = plan_of(release=release)
    if plan.infeasible:
        raise Refusal(f"With epsilon {granted}: {plan.infeasible}")
    request.approved_plan = plan_digest(plan)
    request.save(update_fields=["approved_plan"])
    return request


@transaction.atomic
def deny_release(*, request: ReleaseRequest, by: User, note: str) -> ReleaseRequest:
    """Refuse a release for good, saying why. Nothing was charged.

    Raises:
        InvalidInput: it was decided before, or no reason is given.
    """
    check_note(note, "must say why the release is denied")
    decide(request, RequestState.DENIED, by=by, note=note)
    Release.objects.filter(pk=request.release_id, state=ReleaseState.REVIEW).update(state=ReleaseState.CANCELLED)
    return request


@transaction.atomic
def ask_back_release(*, request: ReleaseRequest, by: User, note: str) -> ReleaseRequest:
    """Hand a release back to its curator as a draft, with a question.

    Raises:
        InvalidInput: it was decided before, or nothing is asked.
    """
    check_note(note, "must say what you want to know")
    decide(request, RequestState.ASKED_BACK, by=by, note=note)
    _back_to_draft(request.release, epsilon=request.release.epsilon)
    return request


def _back_to_draft(release: Release, *, epsilon: str) -> None:
    moved = Release.objects.filter(pk=release.pk, state=ReleaseState.REVIEW).change(
        state=ReleaseState.DRAFT, plan=None, epsilon=epsilon
    )
    if moved != 1:
        raise Refusal("The release no longer waits for a review.")
    release.refresh_from_db()
