"""Budgets: asked for by curators, granted by reviewers, frozen when in doubt."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from django.db import transaction

from releases import audit_log, ledger, notices
from releases.engine.errors import InvalidInput
from releases.engine.filters import Caps, Policy
from releases.engine.privacy import decimal_text, exact
from releases.models import AuditAction, Budget, BudgetRequest, Dataset, RequestState
from releases.services.decisions import check_amounts, check_note, decide, is_final_approval

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: A larger delta is no protection: it is the chance that everything about somebody is told.
LARGEST_DELTA = Fraction(1, 1000)


@transaction.atomic
def request_budget(
    *, dataset: Dataset, epsilon: str, delta: str, policy: Policy, reason: str, by: User
) -> BudgetRequest:
    """Ask for a budget, or for a larger one. A reviewer decides; nothing is spent.

    Raises:
        InvalidInput: the protection is not declared yet, the policy would change, or the amounts are no budget.
    """
    budget = dataset.budget
    if budget is None:
        raise InvalidInput("protection", "nothing", "must be declared before a budget is asked for")
    if (budget.is_granted or budget.requests.exists()) and budget.policy != policy:
        raise InvalidInput("policy", policy.value, f"cannot be changed; this population's is {budget.policy}")
    if exact(delta or "0", field="delta") > LARGEST_DELTA:
        raise InvalidInput(
            "delta",
            delta,
            f"must be at most {decimal_text(LARGEST_DELTA)}: with that probability a release may tell anything at all",
        )
    Caps.of(policy, epsilon=exact(epsilon, field="epsilon"), delta=exact(delta or "0", field="delta"))
    if budget.requests.filter(state=RequestState.WAITING).exists():
        raise InvalidInput("budget", epsilon, "is already asked for and waits for a reviewer")
    Budget.objects.filter(pk=budget.pk).update(policy=policy.value)
    request = BudgetRequest.objects.create(
        budget=budget, epsilon=epsilon.strip(), delta=(delta or "0").strip(), reason=reason.strip(), requested_by=by
    )
    audit_log.record(AuditAction.REQUEST, actor=by, on=request, detail=reason)
    notices.request_made(request)
    return request


@transaction.atomic
def approve_request(
    *, request: BudgetRequest, by: User, epsilon: str = "", delta: str = "", note: str = ""
) -> BudgetRequest:
    """Grant what was asked for, or less. Under the two-person rule the first approval only waits for the second.

    Raises:
        InvalidInput: it was decided before, somebody else has to decide, or the amounts are no budget or more than
            was asked for.
        LedgerRefusal: less than what is spent already.
    """
    granted_epsilon = epsilon.strip() or request.first_epsilon or request.epsilon
    granted_delta = delta.strip() or request.first_delta or request.delta
    check_amounts(request, epsilon=granted_epsilon, delta=granted_delta)
    if not is_final_approval(request, by=by, note=note, epsilon=granted_epsilon, delta=granted_delta):
        return request
    decide(request, RequestState.APPROVED, by=by, note=note, epsilon=granted_epsilon, delta=granted_delta)
    ledger.grant(budget=request.budget, epsilon=granted_epsilon, delta=granted_delta, actor=by)
    return request


@transaction.atomic
def deny_request(*, request: BudgetRequest, by: User, note: str) -> BudgetRequest:
    """Refuse a request, saying why.

    Raises:
        InvalidInput: it was decided before, or no reason is given.
    """
    check_note(note, "must say why the request is denied")
    decide(request, RequestState.DENIED, by=by, note=note)
    return request


@transaction.atomic
def ask_back_request(*, request: BudgetRequest, by: User, note: str) -> BudgetRequest:
    """Hand a request back with a question; the curator asks again.

    Raises:
        InvalidInput: it was decided before, or nothing is asked.
    """
    check_note(note, "must say what you want to know")
    decide(request, RequestState.ASKED_BACK, by=by, note=note)
    return request


@transaction.atomic
def freeze_budget(*, budget: Budget, by: User | None = None, reason: str = "") -> None:
    """Stop all that has not begun: further charges, queued releases, and new questions in open sessions.

    What is running already ends, for its data may have been touched. A queued release keeps its charge and waits.
    """
    if Budget.objects.filter(pk=budget.pk, is_frozen=False).update(is_frozen=True, frozen_reason=reason.strip()):
        audit_log.record(AuditAction.FREEZE, actor=by, on=budget, detail=reason)


@transaction.atomic
def unfreeze_budget(*, budget: Budget, by: User | None = None, reason: str = "") -> None:
    if Budget.objects.filter(pk=budget.pk, is_frozen=True).update(is_frozen=False, frozen_reason=""):
        audit_log.record(AuditAction.UNFREEZE, actor=by, on=budget, detail=reason)


@transaction.atomic
def restore_ledger(*, budget: Budget, by: User) -> None:
    """After a restored backup: book what the mark knows beyond the database, and let spending go on."""
    ledger.restore(budget=budget, actor=by)
    audit_log.record(AuditAction.RESTORE, actor=by, on=budget)
