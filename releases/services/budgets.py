"""Budgets: asked for by curators, granted by reviewers, frozen when in doubt."""

from __future__ import annotations

import uuid
from datetime import timedelta
from fractions import Fraction

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone

from releases.engine.accounting.filters import Caps, Policy
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log, grants, ledger
from releases.models import AuditAction, Budget, BudgetRequest, Dataset, Installation, RequestState
from releases.models.stakes import budgets_at_stake, refuse_stake
from releases.notifications import messages
from releases.services.datasets import locked_with_budget
from releases.services.fingerprints import take_digests
from releases.services.lost_budgets import book_lost, refuse_while_lost
from releases.services.recognition import Match, counted_alike, granted_matches, why_no_join, why_not_approve
from releases.services.release_inputs import Refusal
from releases.services.review_decisions import DecidedBefore, check_amounts, check_note, decide, is_final_approval

#: A larger delta is no protection: it is the chance that everything about somebody is told.
LARGEST_DELTA = Fraction(1, 1000)


@transaction.atomic
def request_budget(
    *, dataset: Dataset, epsilon: str, delta: str, policy: Policy, reason: str, by: User, has_a_shell: bool = False
) -> BudgetRequest:
    """Ask for a budget, or for a larger one. A reviewer decides; nothing is spent.

    A decision may rest on what was recognised of the rows, so each tells whoever asked a little. Therefore one person
    may ask so often and no more (`BUDGET_REQUESTS_PER_PERSON`).

    Args:
        has_a_shell: it is done on the command line of the site's own machine, which reads every table anyway.

    Raises:
        InvalidInput: the protection is not declared yet, the policy would change, the amounts are no budget, or the
            person has asked as often as one may.
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
    grants.check_grant(budget, epsilon=epsilon, delta=delta)
    if budget.requests.filter(state=RequestState.WAITING).exists():
        raise InvalidInput("budget", epsilon, "is already asked for and waits for a reviewer")
    if not has_a_shell:
        _check_number_of_requests(by)
    budget.policy = policy.value
    budget.save(update_fields=["policy"])
    request = BudgetRequest.objects.create(
        budget=budget, epsilon=epsilon.strip(), delta=(delta or "0").strip(), reason=reason.strip(), requested_by=by
    )
    audit_log.record(AuditAction.REQUEST, actor=by, on=request, detail=reason)
    messages.request_made(request)
    return request


#: Within which a person's requests are counted.
REQUESTS_COUNTED_DAYS = 30


def requests_lately(person: User) -> int:
    """How many budgets a person has asked for lately, also those taken back: the first of two may have approved one."""
    since = timezone.now() - timedelta(days=REQUESTS_COUNTED_DAYS)
    return BudgetRequest.objects.filter(requested_by=person, requested_at__gt=since).count()


def _check_number_of_requests(person: User) -> None:
    # Held until the commit, so that of two requests at once the second is counted with the first.
    User.objects.select_for_update(no_key=True).get(pk=person.pk)
    made, most = requests_lately(person), settings.BUDGET_REQUESTS_PER_PERSON
    if made >= most:
        raise AskedTooOften(made, most)


class AskedTooOften(InvalidInput):
    """A person has asked for as many budgets lately as one may."""

    def __init__(self, made: int, most: int) -> None:
        super().__init__("requests", f"{made:,}", f"must be below {most:,} in {REQUESTS_COUNTED_DAYS} days")
        self.args = (
            f"You have asked for {made:,} budgets in the last {REQUESTS_COUNTED_DAYS} days, and one person may ask for "
            f"{most:,}. Ask again later, or let the administrator of this site raise BUDGET_REQUESTS_PER_PERSON.",
        )


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
    *,
    request: BudgetRequest,
    by: User,
    epsilon: str = "",
    delta: str = "",
    note: str = "",
    match_reason: str = "",
    has_a_shell: bool = False,
) -> BudgetRequest:
    """Grant what was asked for, or less. Under the two-person rule the first approval only waits for the second.

    Nothing is granted twice for the same rows: where they have a budget already, a reviewer lets the tables join it
    (`join_request`), or denies the request.

    Args:
        match_reason: why it is granted although the same people probably have a budget. Needed where rows of another
            population with a budget were recognised; only reviewers without a stake can read it.
        has_a_shell: it is done on the command line of the site's own machine, where one person may ask and approve.

    Raises:
        InvalidInput: it was decided before, somebody else has to decide, or the amounts are no budget or more than
            was asked for, or less than what is granted although something was charged; or rows were recognised, and no
            reason is given.
        RowsKnown: the rows have a budget.
    """
    take_digests()
    # Before anything is locked: whoever waits for a lock could time what is compared.
    against = [] if has_a_shell else granted_matches(request.budget, by=by)
    with transaction.atomic():
        return _approve(
            request,
            by=by,
            against=against,
            epsilon=epsilon,
            delta=delta,
            note=note,
            match_reason=match_reason.strip(),
            has_a_shell=has_a_shell,
        )


class RowsKnown(InvalidInput):
    """The very same rows have a budget. Shown to those alone who may know it.

    Attributes:
        budgets: those that are granted for them.
    """

    def __init__(self, budgets: list[Budget]) -> None:
        named = " and ".join(f"{each.name} of {each.owner}" for each in budgets)
        rule = "has a budget already, for the very same rows: join it, deny the request, or return it with a question"
        super().__init__("population", named, rule)
        self.budgets = budgets


def _approve(
    request: BudgetRequest,
    *,
    by: User,
    against: list[Match],
    epsilon: str,
    delta: str,
    note: str,
    match_reason: str,
    has_a_shell: bool,
) -> BudgetRequest:
    granted_epsilon = epsilon.strip() or request.first_epsilon or request.epsilon
    granted_delta = delta.strip() or request.first_delta or request.delta
    check_amounts(request, epsilon=granted_epsilon, delta=granted_delta)
    # Before the first of two approvals is noted, which the second could not exceed.
    grants.check_grant(request.budget, epsilon=granted_epsilon, delta=granted_delta)
    _check_first(request, joins=None)
    is_final = has_a_shell or is_final_approval(request, by=by, note=note, epsilon=granted_epsilon, delta=granted_delta)
    _check_reviewer(request, by=by, has_a_shell=has_a_shell)
    _one_at_a_time()
    if known := _granted_elsewhere(request.budget):
        raise RowsKnown(known)
    _note_match(request, against, by=by, reason=match_reason)
    if not is_final:
        return request
    decide(
        request,
        RequestState.APPROVED,
        by=by,
        note=note,
        epsilon=granted_epsilon,
        delta=granted_delta,
        has_a_shell=has_a_shell,
    )
    is_new = not request.budget.is_granted
    ledger.grant(budget=request.budget, epsilon=granted_epsilon, delta=granted_delta, actor=by)
    if is_new:
        book_lost(budget=request.budget, by=by)
    return request


@transaction.atomic
def join_request(
    *, request: BudgetRequest, to: uuid.UUID, by: User, note: str = "", has_a_shell: bool = False
) -> BudgetRequest:
    """Let the tables spend from a budget that there is, in place of one of their own. Nothing new is granted.

    Whoever asked is told what that budget is, as of any other grant, and not whose it is.

    Raises:
        InvalidInput: it was decided before, somebody else has to decide, or the tables cannot join that budget.
    """
    if request.state != RequestState.WAITING:
        raise DecidedBefore(request)
    epsilon, delta = request.first_epsilon or request.epsilon, request.first_delta or request.delta
    _check_first(request, joins=to)
    is_final = has_a_shell or is_final_approval(request, by=by, note=note, epsilon=epsilon, delta=delta)
    _check_reviewer(request, by=by, has_a_shell=has_a_shell)
    _one_at_a_time()
    both = Budget.objects.select_for_update().filter(pk__in=[request.budget_id, to])
    # In one order, as every submission locks its budget.
    locked = {each.pk: each for each in both.order_by("pk")}
    joined, left = locked.get(to), locked[request.budget_id]
    if joined is None or joined == left or (not has_a_shell and budgets_at_stake(by).filter(pk=to).exists()):
        raise InvalidInput("population", str(to), "must be another one in which you have no stake")
    if reason := why_no_join(left, joined):
        raise InvalidInput("population", joined.name, f"cannot be joined. {reason}")
    _check_columns(left, joined)
    for dataset in left.datasets.select_related("owner"):
        refuse_while_lost(dataset.owner)
    if not is_final:
        BudgetRequest.objects.filter(pk=request.pk).update(joins=joined)
        audit_log.record(AuditAction.JOIN, actor=by, on=request, detail=f"as the first of two; {joined.name}")
        request.refresh_from_db()
        return request
    decide(
        request,
        RequestState.APPROVED,
        by=by,
        note=note,
        epsilon=joined.epsilon,
        delta=joined.delta,
        has_a_shell=has_a_shell,
    )
    for dataset in left.datasets.all():
        detail = f"to the budget of {joined.name}"
        audit_log.record(AuditAction.JOIN, actor=by, on=dataset, detail=detail, has_a_shell=has_a_shell)
    BudgetRequest.objects.filter(pk=request.pk).update(joins=joined)
    left.datasets.update(budget=joined)
    left.requests.update(budget=joined)
    left.delete()
    request.refresh_from_db()
    return request


def _check_reviewer(request: BudgetRequest, *, by: User, has_a_shell: bool) -> None:
    if not has_a_shell and (reason := why_not_approve(by, request.budget)):
        raise InvalidInput("reviewer", str(by), f"cannot grant this. {reason}")


def _note_match(request: BudgetRequest, against: list[Match], *, by: User, reason: str) -> None:
    """Keep why a budget is granted although rows of another population with a budget were recognised."""
    if not against:
        return
    if not reason:
        match = against[0]
        rule = f"must say why it is granted although {match.dataset.title} {match.in_words} and has a budget"
        raise InvalidInput("match_reason", reason, rule)
    noted = "\n".join(filter(None, (request.match_reason, f"{by}: {reason}")))
    BudgetRequest.objects.filter(pk=request.pk).update(match_reason=noted)
    request.match_reason = noted


def _check_first(request: BudgetRequest, *, joins: uuid.UUID | None) -> None:
    """Of two reviewers, the second agrees to what the first approved: a budget of its own, or one and no other."""
    if request.first_by_id is not None and request.joins_id != joins:
        wanted = f"to join the budget of {request.joins}" if request.joins else "a budget of its own"
        raise InvalidInput("population", str(joins or "its own"), f"must be what {request.first_by} approved, {wanted}")


def _check_columns(left: Budget, joined: Budget) -> None:
    """Every table has to have the column that tells people apart."""
    unit = joined.privacy_unit
    for dataset in left.datasets.all():
        if unit.id_column is not None and unit.id_column not in dataset.columns:
            raise InvalidInput("unit.id", unit.id_column, f"is not a column of {dataset.title}")


def _granted_elsewhere(budget: Budget) -> list[Budget]:
    """The granted budgets from which the very same rows spend already."""
    held = Budget.objects.filter(pk__in=counted_alike(budget).values("budget")).exclude(pk=budget.pk)
    return [each for each in held.order_by("pk") if each.is_granted]


def _one_at_a_time() -> None:
    """Held until the commit, so that of two approvals the second finds what the first has granted. It is one lock
    for all: were the budgets of the same rows locked, the owner of one could time whether there is another."""
    Installation.objects.select_for_update().get(pk=Installation.own().pk)


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
    """Let all of that go on. False where it was not frozen any more.

    Raises:
        HasStake: somebody else has to decide it.
    """
    if by is not None:
        refuse_stake(by, budget, to="unfreeze")
    moved = Budget.objects.filter(pk=budget.pk, is_frozen=True).update(is_frozen=False, frozen_reason="")
    if moved:
        audit_log.record(AuditAction.UNFREEZE, actor=by, on=budget, detail=reason)
    return bool(moved)
