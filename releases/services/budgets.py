"""Budgets: asked for by curators, granted by reviewers, frozen when in doubt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from releases import ledger
from releases.engine.errors import InvalidInput
from releases.engine.filters import Caps, Policy
from releases.engine.privacy import exact
from releases.models import Budget, BudgetRequest, Dataset, RequestState

if TYPE_CHECKING:
    from django.contrib.auth.models import User


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
    Caps.of(policy, epsilon=exact(epsilon, field="epsilon"), delta=exact(delta or "0", field="delta"))
    if budget.requests.filter(state=RequestState.WAITING).exists():
        raise InvalidInput("budget", epsilon, "is already asked for and waits for a reviewer")
    Budget.objects.filter(pk=budget.pk).update(policy=policy.value)
    return BudgetRequest.objects.create(
        budget=budget, epsilon=epsilon.strip(), delta=(delta or "0").strip(), reason=reason.strip(), requested_by=by
    )


@transaction.atomic
def approve_request(
    *, request: BudgetRequest, by: User, epsilon: str = "", delta: str = "", note: str = ""
) -> BudgetRequest:
    """Grant what was asked for, or less.

    Raises:
        InvalidInput: it was decided before, or the amounts are no budget or more than was asked for.
        LedgerRefusal: less than what is spent already.
    """
    granted_epsilon, granted_delta = epsilon.strip() or request.epsilon, delta.strip() or request.delta
    for field, granted, asked in (
        ("epsilon", granted_epsilon, request.epsilon),
        ("delta", granted_delta, request.delta),
    ):
        if exact(granted, field=field) > exact(asked, field=field):
            raise InvalidInput(field, granted, f"must be at most the {asked} that was asked for")
    _decide(request, RequestState.APPROVED, by=by, note=note, epsilon=granted_epsilon, delta=granted_delta)
    ledger.grant(budget=request.budget, epsilon=granted_epsilon, delta=granted_delta, actor=by)
    return request


@transaction.atomic
def deny_request(*, request: BudgetRequest, by: User, note: str) -> BudgetRequest:
    """Refuse a request, saying why.

    Raises:
        InvalidInput: it was decided before, or no reason is given.
    """
    if not note.strip():
        raise InvalidInput("note", note, "must say why the request is denied")
    _decide(request, RequestState.DENIED, by=by, note=note)
    return request


def freeze_budget(*, budget: Budget) -> None:
    """Stop all further charges to a budget."""
    Budget.objects.filter(pk=budget.pk).update(is_frozen=True)


def unfreeze_budget(*, budget: Budget) -> None:
    Budget.objects.filter(pk=budget.pk).update(is_frozen=False)


def restore_ledger(*, budget: Budget, by: User) -> None:
    """After a restored backup: book what the mark knows beyond the database, and let spending go on."""
    ledger.restore(budget=budget, actor=by)


def _decide(
    request: BudgetRequest, state: RequestState, *, by: User, note: str, epsilon: str = "", delta: str = ""
) -> None:
    """Move a waiting request to its end, once."""
    moved = BudgetRequest.objects.filter(pk=request.pk, state=RequestState.WAITING).update(
        state=state,
        decided_by=by,
        decided_at=timezone.now(),
        note=note.strip(),
        granted_epsilon=epsilon,
        granted_delta=delta,
    )
    if moved != 1:
        raise InvalidInput("request", request.get_state_display(), "was decided before")
    request.refresh_from_db()
