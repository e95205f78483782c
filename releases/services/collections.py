"""Collections: several releases of one dataset, planned under one epsilon and one bound, and submitted together.

Each part is an ordinary release with a plan, a charge and a result of its own, so the ledger's rule composes them. All
bounds hold at once with probability 1 - beta, for each of k questions has beta / k (union bound); a part that answers
several has as many shares.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from django.db import transaction

from releases.engine.accounting import accountant, filters
from releases.engine.domain.privacy import decimal_text, exact, privacy_budget
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import Plan
from releases.ledger import audit_log, person_limits, refusals
from releases.ledger.balances import caps_of, shortage_text
from releases.models import (
    CHECK,
    PLAIN,
    AuditAction,
    Collection,
    CollectionPart,
    Dataset,
    Release,
    ReleaseState,
    ShareRule,
)
from releases.questions.together import MAX_PARTS, PartAsked, read_weight
from releases.services.datasets import read_title
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import Refusal
from releases.services.releases import draft_release, set_choice, set_questions, submit_release

if TYPE_CHECKING:
    from django.contrib.auth.models import User

#: All bounds hold at once with probability 1 - beta.
BETA = "0.05"
#: Digits of a share of epsilon, of delta, and decimals of a share of beta.
_EPSILON_DIGITS, _DELTA_DIGITS, _BETA_PLACES = 6, 2, 6
#: More decimals of a share are not kept.
_MAX_PLACES = 30


def split(total: Fraction, weights: Sequence[Fraction]) -> list[str]:
    """Parts of a total in the ratio of the weights, as decimals rounded down: they never come to more than it."""
    return [_down(total * weight / sum(weights), digits=_EPSILON_DIGITS) for weight in weights]


def _down(value: Fraction, *, digits: int) -> str:
    places = digits - 1
    while places < _MAX_PLACES and value * 10 ** (places - digits + 1) < 1:
        places += 1
    whole = value * 10**places
    return decimal_text(Fraction(whole.numerator // whole.denominator, 10**places), places=_MAX_PLACES)


@planned_atomically()
def draft_collection(
    *,
    dataset: Dataset,
    by: User,
    title: str,
    epsilon: str,
    parts: Sequence[PartAsked],
    delta: str = "0",
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Collection:
    """Begin a release for each part. Nothing is spent and no data are touched until they are submitted.

    Args:
        epsilon, delta: for all parts together; they share epsilon by their weights, and delta by their questions.
        options: by name, of mechanisms: what is kept for each part.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: the rows were deleted.
    """
    privacy_budget(epsilon=epsilon, delta=delta)
    if not 0 < len(parts) <= MAX_PARTS:
        raise InvalidInput("parts", len(parts), f"must be 1 to {MAX_PARTS}")
    weights, number = [read_weight(part.weight) for part in parts], sum(part.tables for part in parts)
    collection = Collection.objects.create(
        dataset=dataset,
        title=read_title(title, what="the collection holds"),
        epsilon=epsilon.strip(),
        beta=BETA,
        created_by=by,
    )
    delta_of_all = exact(delta, field="delta")
    shares = split(exact(epsilon, field="epsilon"), weights)
    for place, (part, share) in enumerate(zip(parts, shares, strict=True)):
        kind = CHECK if part.workload.get("states") is True else PLAIN
        release = draft_release(dataset=dataset, by=by, title=part.title, kind=kind)
        set_questions(release=release, workload=part.workload)
        set_choice(
            release=release,
            epsilon=share,
            delta=_down(delta_of_all * part.tables / number, digits=_DELTA_DIGITS),
            beta=_part_of_beta(part.tables, of=number),
            other_options=options,
        )
        CollectionPart.objects.create(
            collection=collection,
            release=release,
            place=place,
            weight=part.weight.strip(),
            is_for_rows=part.is_for_rows,
        )
    audit_log.record(
        AuditAction.SAVE, actor=by, on=collection, detail=f"{len(parts)} releases, epsilon {epsilon.strip()}"
    )
    return collection


def _part_of_beta(tables: int, *, of: int) -> str:
    share = exact(BETA, field="beta") * tables / of * 10**_BETA_PLACES
    return decimal_text(Fraction(share.numerator // share.denominator, 10**_BETA_PLACES))


@transaction.atomic
def share_out(
    *,
    collection: Collection,
    epsilon: str,
    weights: Mapping[uuid.UUID, str],
    share_rule: ShareRule = ShareRule.EPSILON,
    shares: Mapping[uuid.UUID, Fraction] | None = None,
) -> None:
    """Share epsilon among the parts that are drafts; submitted ones keep what they have. No part has a method then,
    for which one is the best depends on its share.

    Args:
        epsilon: for all parts together.
        weights: by release; a part that is not named keeps its own.
        share_rule: what the weights say.
        shares: of epsilon, by release, which follow from the weights; the weights themselves where none are given.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: a part was submitted in the meantime.
    """
    privacy_budget(epsilon=epsilon)
    rest = left_for_drafts(collection, epsilon=epsilon)
    parts = collection.parts.select_related("release")
    drafts = [part for part in parts if part.release.status is ReleaseState.DRAFT]
    for part in drafts:
        part.weight = weights.get(part.release_id, part.weight).strip()
    by_weight = {part.release_id: read_weight(part.weight) for part in drafts}
    parted = split(rest, [(shares or by_weight)[part.release_id] for part in drafts]) if drafts else []
    for part, share in zip(drafts, parted, strict=True):
        release = part.release
        set_choice(release=release, epsilon=share, delta=release.delta, beta=release.beta)
        part.save(update_fields=["weight"])
    collection.epsilon, collection.share_rule = epsilon.strip(), share_rule
    collection.save(update_fields=["epsilon", "share_rule"])


def left_for_drafts(collection: Collection, *, epsilon: str) -> Fraction:
    """What submitted releases leave of the epsilon for all parts together.

    Raises:
        InvalidInput: nothing.
    """
    gone = (ReleaseState.DRAFT, ReleaseState.CANCELLED)
    submitted = [part.release for part in collection.parts.select_related("release") if part.release.status not in gone]
    taken = sum((exact(each.epsilon, field="epsilon") for each in submitted), Fraction(0))
    if (rest := exact(epsilon, field="epsilon") - taken) <= 0:
        raise InvalidInput("epsilon", epsilon, f"must be above {decimal_text(taken)}, which submitted releases have")
    return rest


def why_not_together(*, planned: Sequence[tuple[Release, Plan]], by: User) -> str:
    """Why charges made one after the other would be refused for what they come to together; empty where they would not
    be. It decides as the ledger does, by public numbers alone.

    Raises:
        Unpriceable: a plan has no price.
    """
    if not planned or (budget := planned[0][0].dataset.budget) is None or not budget.is_granted:
        return ""
    caps, spent = caps_of(budget), budget.totals
    prices = [price_of(plan) for _, plan in planned]
    for price in prices:
        if not filters.admits(spent, price, caps):
            amounts = (filters.amounts(each, policy=caps.policy) for each in prices)
            after = filters.Totals.of([budget.totals, *amounts])
            return shortage_text(budget.totals, after, caps, what="all of them" if len(prices) > 1 else "it")
        spent = spent.plus(filters.amounts(price, policy=caps.policy))
    added = filters.Totals.of(filters.amounts(price, policy=caps.policy) for price in prices[:-1])
    refusal = person_limits.over_the_limit(
        release=planned[-1][0], budget=budget, price=prices[-1], person=by, beside=added
    )
    if refusal is None:
        return ""
    with_all = refusals.share_text(refusal.spent + refusal.takes)
    return (
        f"With all of them you would have spent {with_all} of this budget; one person may spend at most "
        f"{refusals.limit_text(refusal.most)}."
    )


def price_of(plan: Plan) -> accountant.Price:
    return accountant.price(plan.events, delta=plan.delta, neighbours=plan.schema.neighbours)


@dataclass(frozen=True, kw_only=True, slots=True)
class Submission:
    """What became of parts that were submitted together.

    Attributes:
        submitted: charged and queued, or sent to a reviewer.
        left: the drafts that remain, the one that was refused first.
        error: why it was refused; None where nothing was.
    """

    submitted: tuple[Release, ...]
    left: tuple[Release, ...] = ()
    error: Exception | None = None


def submit_collection(*, planned: Sequence[tuple[Release, Plan]], key: uuid.UUID, by: User) -> Submission:
    """Charge and queue the drafts of a collection, one after the other.

    With the same key twice, nothing is charged twice, and what was not submitted yet is. Another charge may come in
    between: it ends then at the first part that is refused.

    Args:
        planned: each draft with its plan, which is charged as it is.

    Raises:
        Refusal: they do not fit together, or one cannot be run; nothing is charged.
    """
    drafts = set(
        Release.objects.filter(pk__in=[release.pk for release, _ in planned], state=ReleaseState.DRAFT).values_list(
            "pk", flat=True
        )
    )
    waiting = [(release, plan) for release, plan in planned if release.pk in drafts]
    for release, plan in waiting:
        if plan.infeasible:
            raise Refusal(f"{release.title}: {plan.infeasible} Nothing was charged.")
    if why := why_not_together(planned=waiting, by=by):
        raise Refusal(f"{why} Nothing was charged.")
    submitted: list[Release] = []
    for place, (release, plan) in enumerate(waiting):
        try:
            submit_release(release=release, key=uuid.uuid5(key, str(release.pk)), by=by, plan=plan)
        except (refusals.LedgerRefusal, Refusal, EngineError) as error:
            release.refresh_from_db()
            # Of two presses at once the second finds what the first has submitted.
            if release.status is ReleaseState.DRAFT:
                left = tuple(each for each, _ in waiting[place:])
                return Submission(submitted=tuple(submitted), left=left, error=error)
        submitted.append(release)
    return Submission(submitted=tuple(submitted))
