"""Budgets: asked for by curators, granted by reviewers, frozen when in doubt."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import QuerySet

from releases.engine.accounting.filters import Caps, Policy
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log, ledger
from releases.models import AuditAction, Budget, BudgetRequest, Dataset, RequestState
from releases.notifications import messages
from releases.services.datasets import locked_with_budget
from releases.services.fingerprints import counted_alike, take_digests
from releases.services.lost_budgets import book_lost
from releases.services.release_inputs import Refusal
from releases.services.review_decisions import check_amounts, check_note, decide, is_final_approval

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
    (budget,) = locked_with_budget(dataset)
    if budget is None:
        raise InvalidInput("protection", "nothing", "must be declared before a budget is asked for")
    if budget.is_settled and budget.policy != policy:
        raise InvalidInput("policy", policy.value, f"cannot be changed; this population's is {budget.policy}")
    if exact(delta or "0", field="delta") > LARGEST_DELTA:
        raise InvalidInput(
            "delta",
            delta,
            f"must be at most {decimal_text(LARGEST_DELTA)}: with that probability a release may tell anything at all",
        )
    Caps.of(policy, epsilon=exact(epsilon, field="epsilon"), delta=exact(delta or "0", field="delta"))
    _refuse_no_more_than_granted(budget, epsilon=epsilon, delta=delta or "0")
    if budget.requests.filter(state=RequestState.WAITING).exists():
        raise InvalidInput("budget", epsilon, "is already asked for and waits for a reviewer")
    budget.policy = policy.value
    budget.save(update_fields=["policy"])
    request = BudgetRequest.objects.create(
        budget=budget, epsilon=epsilon.strip(), delta=(delta or "0").strip(), reason=reason.strip(), requested_by=by
    )
    audit_log.record(AuditAction.REQUEST, actor=by, on=request, detail=reason)
    messages.request_made(request)
    return request


def _refuse_no_more_than_granted(budget: Budget, *, epsilon: str, delta: str) -> None:
    """A request that would change nothing, or only take away, gives a reviewer nothing to decide."""
    if not budget.is_granted:
        return
    asked = {"epsilon": epsilon, "delta": delta}
    granted = {"epsilon": budget.epsilon, "delta": budget.delta or "0"}
    if any(exact(asked[field], field=field) > exact(granted[field], field=field) for field in asked):
        return
    if exact(granted["delta"], field="delta"):
        rule = f"must be above the {granted['epsilon']} that is granted, or delta above {granted['delta']}"
    else:
        rule = f"must be above the {granted['epsilon']} that is granted"
    raise InvalidInput("epsilon", epsilon, rule)


def approve_request(
    *, request: BudgetRequest, by: User, epsilon: str = "", delta: str = "", note: str = "", has_a_shell: bool = False
) -> BudgetRequest:
    """Grant what was asked for, or less. Under the two-person rule the first approval only waits for the second.

    Nothing is granted twice for the same rows: where they have a budget already, the tables join it instead. Whoever
    asked is told what that budget is, as of any other grant, and not that others hold the rows.

    Args:
        has_a_shell: it is done on the command line of the site's own machine, where one person may ask and approve.

    Raises:
        InvalidInput: it was decided before, somebody else has to decide, the amounts are no budget or more than
            was asked for, or the rows have a budget that these tables cannot join.
        LedgerRefusal: less than what is spent already.
    """
    take_digests()
    with transaction.atomic():
        return _approve(request, by=by, epsilon=epsilon, delta=delta, note=note, has_a_shell=has_a_shell)


def _approve(
    request: BudgetRequest, *, by: User, epsilon: str, delta: str, note: str, has_a_shell: bool
) -> BudgetRequest:
    granted_epsilon = epsilon.strip() or request.first_epsilon or request.epsilon
    granted_delta = delta.strip() or request.first_delta or request.delta
    check_amounts(request, epsilon=granted_epsilon, delta=granted_delta)
    joined = _granted_elsewhere(request.budget)
    if not has_a_shell and not is_final_approval(
        request, by=by, note=note, epsilon=granted_epsilon, delta=granted_delta
    ):
        return request
    if joined is not None:
        decide(request, RequestState.APPROVED, by=by, note=note, epsilon=joined.epsilon, delta=joined.delta)
        _join(request.budget, joined, by=by)
        request.refresh_from_db()
        return request
    decide(request, RequestState.APPROVED, by=by, note=note, epsilon=granted_epsilon, delta=granted_delta)
    is_new = not request.budget.is_granted
    ledger.grant(budget=request.budget, epsilon=granted_epsilon, delta=granted_delta, actor=by)
    if is_new:
        book_lost(budget=request.budget, by=by)
    return request


def same_rows(budget: Budget) -> QuerySet[Dataset]:
    """The tables with the very same rows as one of this population that spend from another budget."""
    same = counted_alike(budget).filter(budget__isnull=False)
    return same.exclude(budget=budget).select_related("owner", "budget").order_by("created_at")


def why_no_join(left: Budget, joined: Budget) -> str:
    """Why the tables of one population cannot spend from the budget of another; empty where they can."""
    if left.is_granted:
        return "There are two budgets for the same rows already, and neither can be made larger"
    if left.is_frozen:
        return "This one is frozen, and would not be any more"
    if (left.unit, left.neighbours) != (joined.unit, joined.neighbours):
        return (
            f"It protects {joined.privacy_unit.in_words()} with {joined.get_neighbours_display()} neighbours, which "
            f"does not add up with this one"
        )
    return ""


def _granted_elsewhere(budget: Budget) -> Budget | None:
    """The granted budget from which the very same rows spend already; None where there is no such budget.

    Every budget of these rows is locked, so that of two approvals the second finds what the first has granted.

    Raises:
        InvalidInput: there is one that cannot be joined, or more than one.
    """
    held = counted_alike(budget).values("budget")
    locked = list(Budget.objects.select_for_update().filter(pk__in=held).order_by("pk"))
    granted = [each for each in locked if each.is_granted and each.pk != budget.pk]
    if not granted:
        return None
    named = " and ".join(f"{each.name} of {each.owner}" for each in granted)
    own = next((each for each in locked if each.pk == budget.pk), budget)
    reason = why_no_join(own, granted[0]) if len(granted) == 1 else "They cannot spend from both"
    if reason:
        rule = f"has a budget already, for the very same rows. {reason}: deny the request, or ask back"
        raise InvalidInput("population", named, rule)
    return granted[0]


def _join(left: Budget, joined: Budget, *, by: User) -> None:
    """Let all tables of a population spend from another's budget. What was asked for them is asked of that one."""
    for dataset in left.datasets.all():
        audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=f"the people of {joined.name}")
    left.datasets.update(budget=joined)
    left.requests.update(budget=joined)
    left.delete()


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
def take_back_request(*, request: BudgetRequest, by: User) -> None:
    """Ask no longer for what no reviewer has decided yet. Of two approvals the first is void then.

    Raises:
        Refusal: it was decided.
    """
    waiting = BudgetRequest.objects.filter(pk=request.pk, state=RequestState.WAITING)
    if waiting.update(state=RequestState.TAKEN_BACK) != 1:
        request.refresh_from_db()
        raise Refusal(f"The request was {request.get_state_display()} in the meantime; it can no longer be taken back.")
    request.refresh_from_db()
    audit_log.record(AuditAction.TAKE_BACK, actor=by, on=request)
    messages.request_taken_back(request)


@transaction.atomic
def freeze_budget(*, budget: Budget, by: User | None = None, reason: str = "") -> bool:
    """Stop all that has not begun: further charges, queued releases, and new questions in open sessions.

    What is running already ends, for its data may have been touched. A queued release keeps its charge and waits.
    False where it was frozen before: the reason that was given then stands.
    """
    moved = Budget.objects.filter(pk=budget.pk, is_frozen=False).update(is_frozen=True, frozen_reason=reason.strip())
    if moved:
        audit_log.record(AuditAction.FREEZE, actor=by, on=budget, detail=reason)
    return bool(moved)


@transaction.atomic
def unfreeze_budget(*, budget: Budget, by: User | None = None, reason: str = "") -> bool:
    """Let all of that go on. False where it was not frozen any more."""
    moved = Budget.objects.filter(pk=budget.pk, is_frozen=True).update(is_frozen=False, frozen_reason="")
    if moved:
        audit_log.record(AuditAction.UNFREEZE, actor=by, on=budget, detail=reason)
    return bool(moved)
