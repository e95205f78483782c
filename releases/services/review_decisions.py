"""What all decisions of reviewers have in common: a request is decided once, by somebody who may."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils import timezone

from releases.engine.domain.privacy import exact
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import AuditAction, BudgetRequest, Organisation, ReleaseRequest, RequestState
from releases.models.stakes import refuse_stake
from releases.notifications import messages

if TYPE_CHECKING:
    from django.contrib.auth.models import User

AnyRequest = BudgetRequest | ReleaseRequest


class DecidedBefore(InvalidInput):
    """Somebody else came first, or the same person in another tab. Nothing was done; the request says what was."""

    def __init__(self, request: AnyRequest) -> None:
        request.refresh_from_db()
        if request.state == RequestState.WAITING:
            said = f"{request.first_by} has approved this request as the first of two"
        elif request.decided_by is None:
            said = "This request was taken back by the person who asked"
        else:
            said = f"This request was decided before: it was {request.get_state_display()} by {request.decided_by}"
        super().__init__("request", request.get_state_display(), "was decided before")
        self.args = (f"{said}. Nothing was changed by what you pressed.",)


_ACTIONS = {
    RequestState.APPROVED: AuditAction.APPROVE,
    RequestState.DENIED: AuditAction.DENY,
    RequestState.ASKED_BACK: AuditAction.ASK_BACK,
}


def check_amounts(request: AnyRequest, **amounts: str) -> None:
    """Nobody is granted more than they asked for, nor than the first of two reviewers approved."""
    for field, granted in amounts.items():
        asked, first = getattr(request, field), getattr(request, f"first_{field}")
        if exact(granted, field=field) > exact(asked, field=field):
            raise InvalidInput(field, granted, f"must be at most the {asked} that was asked for")
        if first and exact(granted, field=field) > exact(first, field=field):
            raise InvalidInput(field, granted, f"must be at most the {first} that {request.first_by} approved")


def is_final_approval(request: AnyRequest, *, by: User, note: str, epsilon: str, delta: str) -> bool:
    """Whether this approval decides. Under the two-person rule the first of two is noted, and False returned.

    Raises:
        InvalidInput: a rule wants somebody else, or the request was decided before.
    """
    refuse_stake(by, request, to="approve")
    if not Organisation.current().is_two_person:
        return True
    if request.requested_by_id == by.pk:
        raise InvalidInput("reviewer", str(by), "asked for it; the two-person rule wants two others to approve")
    if request.first_by_id == by.pk:
        raise InvalidInput("reviewer", str(by), "approved it before; the two-person rule wants a second person")
    if request.first_by_id is not None:
        return True
    waiting = type(request)._default_manager.filter(pk=request.pk, state=RequestState.WAITING, first_by=None)
    moved = waiting.update(
        first_by=by, first_at=timezone.now(), first_epsilon=epsilon, first_delta=delta, note=note.strip()
    )
    if moved != 1:
        raise DecidedBefore(request)
    audit_log.record(AuditAction.FIRST_APPROVAL, actor=by, on=request, detail=f"epsilon {epsilon}; {note}".rstrip("; "))
    request.refresh_from_db()
    messages.first_approval(request)
    return False


def decide(
    request: AnyRequest,
    state: RequestState,
    *,
    by: User,
    note: str,
    epsilon: str = "",
    delta: str = "",
    has_a_shell: bool = False,
) -> None:
    """Move a waiting request to its end, once.

    Raises:
        HasStake: somebody else has to decide it.
        DecidedBefore: it was decided before.
    """
    if not has_a_shell:
        refuse_stake(by, request)
    # The first approval that this one builds on must still be the one that was read.
    waiting = type(request)._default_manager.filter(
        pk=request.pk, state=RequestState.WAITING, first_by=request.first_by_id
    )
    moved = waiting.update(
        state=state,
        decided_by=by,
        decided_at=timezone.now(),
        note=note.strip() or request.note,
        granted_epsilon=epsilon,
        granted_delta=delta,
    )
    if moved != 1:
        raise DecidedBefore(request)
    said = f"epsilon {epsilon}; {note}" if epsilon else note
    audit_log.record(_ACTIONS[state], actor=by, on=request, detail=said.rstrip("; "), has_a_shell=has_a_shell)
    request.refresh_from_db()
    messages.request_decided(request)


def check_note(note: str, why: str) -> None:
    """A curator who is refused is told why."""
    if not note.strip():
        raise InvalidInput("note", note, why)
