"""The ledger: the only writer of its entries and of what a budget has spent.

    grant      sets a budget's caps; raises them, once something was charged
    charge     reserves the price of a release, or refuses; before any data are touched
    give_back  opposes the charge of a release that ended and never opened its table
    restore    books what a restored backup has forgotten

A price has a meaning only together with what it protects, so a plan is charged where its unit and its neighbours are
those of the budget, and each charge says which they were.

Each is one transaction that first locks the budget's row. Entries are append-only by database trigger and chained by
hash; a mark outside the database (`high_water_marks`) notices a ledger that went backwards.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Required, TypedDict, Unpack

from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from releases.engine.accounting import accountant, filters
from releases.engine.accounting.events import Event
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit, exact, protection_in_words
from releases.ledger import entries, grants, high_water_marks, person_limits, refusals, stale_ledger
from releases.ledger.balances import shortage_text
from releases.models import (
    Budget,
    Dataset,
    EntryKind,
    LedgerEntry,
    Release,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


@transaction.atomic
def grant(*, budget: Budget, epsilon: str, delta: str, actor: User) -> LedgerEntry:
    """Set a budget's caps, or raise them.

    Once something was charged, neither epsilon nor delta may fall. The filter's theorem holds for a budget that is at
    least as large as every earlier one (`filters`, "A budget that is raised"), so the last grant is the largest, and
    what it says is what the filter enforces over the whole life of the budget. To stop a budget, freeze it.

    Raises:
        InvalidInput: epsilon or delta is not a budget under the policy, or falls although something was charged.
        refusals.LedgerWentBack: the database is behind, and what was granted or spent since is not known to it.
    """
    _refuse_a_ledger_that_went_back(_lock(budget))
    return _granted(budget=budget, epsilon=epsilon, delta=delta, actor=actor)


def _granted(*, budget: Budget, epsilon: str, delta: str, actor: User) -> LedgerEntry:
    locked = _lock(budget)
    grants.check_grant(locked, epsilon=epsilon, delta=delta)
    locked.epsilon, locked.delta = epsilon, delta
    locked.keeps_rule_of_before = locked.keeps_rule_of_before and not _replaces_the_rule_of_before(locked)
    caps = locked.caps
    limits = {limit.column: limit.cap for branch in caps.branches for limit in branch.limits}
    return _append(
        locked,
        kind=EntryKind.GRANT,
        actor=actor,
        detail={
            "epsilon": epsilon,
            "delta": delta,
            "caps": caps.to_json(),
            "unit": locked.unit,
            "neighbours": locked.neighbours,
        },
        columns={
            "epsilon": epsilon,
            "delta": delta,
            "cap_epsilon": limits["spent_epsilon"],
            "cap_delta": limits["spent_delta"],
            "cap_rho": limits.get("spent_rho", 0),
            "cap_rho_delta": limits.get("spent_rho_delta", 0),
            "keeps_rule_of_before": locked.keeps_rule_of_before,
        },
    )


@transaction.atomic
def charge(
    *,
    release: Release,
    unit: PrivacyUnit,
    neighbours: NeighbouringRelation,
    events: Sequence[Event],
    delta: Fraction,
    key: uuid.UUID,
    actor: User,
    most_unseen: Fraction | None = None,
) -> LedgerEntry:
    """Reserve the price of a release. The same key twice is one charge.

    Args:
        release: whose dataset's budget pays.
        unit, neighbours: what the plan protects.
        events: what will be run; the accountant prices them.
        delta: at which the release states its approximate form; 0 for a pure one.
        key: chosen by the caller once for this charge.
        actor: who submits; also where a reviewer approves it. The limit for one person is on their charges.
        most_unseen: the epsilon that their charges without a review may come to with this one; None where a reviewer
            has seen it, or there is no such threshold.

    Raises:
        refusals.AnotherProtection: the budget protects something else.
        refusals.AnotherPopulation: the dataset has another budget by now.
        refusals.InsufficientBudget: it does not fit; carries requested and remaining.
        refusals.Unseen: it fits, and a reviewer has to see it first.
        refusals.PersonLimit: it fits, and is more than one person may spend.
        refusals.NotGranted, refusals.Frozen, refusals.LedgerWentBack: nothing can be charged now.
        Unpriceable: an event has no proven price.
    """
    budget = lock_for(release=release, unit=unit, neighbours=neighbours)
    made = LedgerEntry.objects.filter(key=key).first()
    if made is not None:
        if made.release_id != release.pk:
            raise refusals.KeyUsed("This submission was already made for another release.")
        return made
    if not budget.is_granted:
        raise refusals.NotGranted("No budget has been granted yet. A reviewer has to approve the request first.")
    if budget.is_frozen:
        raise refusals.Frozen("A reviewer has frozen this budget. No release can be charged to it.")
    _refuse_a_ledger_that_went_back(budget, release)
    price = accountant.price(events, delta=delta, neighbours=neighbours)
    amounts = filters.amounts(price, policy=filters.Policy(budget.policy))
    # The budget's row is locked, so nobody charges it in between; a later refusal undoes the entry.
    if not filters.admits(budget.totals, price, budget.caps):
        raise refusals.InsufficientBudget(
            requested=price,
            remaining=filters.remaining(budget.totals, budget.caps),
            shortfalls=filters.shortfalls(budget.totals, price, budget.caps),
            said=shortage_text(budget.totals, budget.totals.plus(amounts), budget.caps, what="this release"),
        )
    entry = _append(
        budget,
        kind=EntryKind.CHARGE,
        actor=actor,
        key=key,
        release=release,
        amounts=amounts,
        detail={
            "events": [event.to_json() for event in events],
            "delta": str(delta),
            "unit": unit.to_json(),
            "neighbours": neighbours.value,
            "policy": budget.policy,
            "price": price.to_json(),
        },
    )
    if (refusal := person_limits.over_the_limit(release=release, budget=budget, price=price, person=actor)) is not None:
        raise refusal
    if (
        most_unseen is not None
        and person_limits.unseen_with(release=release, budget=budget, price=price, person=actor) > most_unseen
    ):
        raise refusals.Unseen
    return entry


def lock_for(*, release: Release, unit: PrivacyUnit, neighbours: NeighbouringRelation) -> Budget:
    """The budget that a release is charged to, locked until the transaction ends, and seen to protect what the plan
    protects. While it is locked nobody changes that, nor which budget it is.

    Raises:
        refusals.NotGranted: there is no budget.
        refusals.AnotherPopulation, refusals.AnotherProtection: the plan is not one of this budget.
    """
    if release.dataset.budget_id is None:
        raise refusals.NotGranted("The dataset has no budget yet. Ask for one first.")
    budget = Budget.objects.select_for_update().filter(pk=release.dataset.budget_id).first()
    if budget is None or not Dataset.objects.filter(pk=release.dataset_id, budget=budget).exists():
        raise refusals.AnotherPopulation
    check_protection(budget, unit=unit, neighbours=neighbours)
    return budget


def check_protection(budget: Budget, *, unit: PrivacyUnit, neighbours: NeighbouringRelation) -> None:
    """See that a plan protects what the budget promises to protect.

    Raises:
        refusals.AnotherProtection: it does not.
    """
    if (unit, neighbours) != (budget.privacy_unit, budget.relation):
        raise refusals.AnotherProtection(
            planned=protection_in_words(unit=unit, neighbours=neighbours), promised=entries.promised(budget)
        )


@transaction.atomic
def give_back(*, release: Release, actor: User) -> LedgerEntry:
    """Oppose the charge of a release whose data nobody can have touched: every attempt at it is on record, and none
    came to opening the table. Unknown means opened.

    The caller has moved the release, in this transaction and by a filtered update, to cancelled or failed, so that no
    worker holds it or can take it: an attempt that did not open the table until then never will.

    Raises:
        refusals.LedgerRefusal: it has not ended, or something may have been read.
        refusals.LedgerWentBack: the database is behind, so a worker may have opened the table after all.
    """
    charged = LedgerEntry.objects.get(release=release, kind=EntryKind.CHARGE)
    budget = _lock(charged.budget)
    _refuse_a_ledger_that_went_back(budget)
    if why := entries.why_the_charge_stays(release.pk):
        raise refusals.LedgerRefusal(f"The charge stays: {why}.")
    attempts = Release.objects.values_list("attempts", flat=True).get(pk=release.pk)
    return _append(
        budget,
        kind=EntryKind.RETURN,
        actor=actor,
        release=release,
        detail={"returns": charged.sequence, "attempts": attempts},
        signed=entries.opposite(charged),
        # A sum that was stopped at CLOSED cannot be undone by subtraction, so it is made again.
        columns=entries.sums(budget, without=charged).columns(),
    )


@transaction.atomic
def restore(*, budget: Budget, actor: User) -> LedgerEntry:
    """After a restored backup: grant what the mark knows as granted, and book as spent what it knows beyond the
    database, so that spending may go on.

    Raises:
        refusals.LedgerRefusal: the ledger is not behind; or what the mark knows does not fit under what is granted.
    """
    locked = _lock(budget)
    mark = high_water_marks.read(locked.pk)
    if mark is None or not stale_ledger.budget(locked):
        raise refusals.LedgerRefusal("The ledger is not behind its mark. There is nothing to restore.")
    if mark.granted is not None and mark.granted != _what_is_granted(locked):
        locked = _grant_again(locked, mark.granted, actor)
    try:
        with transaction.atomic():
            entry = _append(
                locked,
                kind=EntryKind.RESTORE,
                actor=actor,
                amounts=mark.totals.beyond(locked.totals),
                detail={"mark": {"sequence": mark.sequence, "hash": mark.hash, "totals": mark.totals.columns()}},
                sequence=max(mark.sequence, locked.sequence) + 1,
            )
    except IntegrityError:
        raise refusals.LedgerRefusal(
            "What the mark knows as spent does not fit under what is granted here. Nothing more can be spent of it."
        ) from None
    # In place of a mark of another line of entries too, above which `remember` would not go.
    transaction.on_commit(lambda: high_water_marks.put(budget.pk, _mark_of(Budget.objects.get(pk=budget.pk))))
    return entry


@transaction.atomic
def book_lost(
    *, budget: Budget, amounts: filters.Totals, lost: Sequence[Mapping[str, str]], actor: User
) -> LedgerEntry:
    """Book as spent what was spent of budgets that only their marks know.

    Raises:
        refusals.DoesNotFit: it is more than what is granted.
    """
    detail = {"lost": [dict(each) for each in lost], "totals": amounts.columns()}
    try:
        with transaction.atomic():
            return _append(_lock(budget), kind=EntryKind.RESTORE, actor=actor, amounts=amounts, detail=detail)
    except IntegrityError:
        raise refusals.DoesNotFit("What is booked does not fit under what is granted.") from None


def _grant_again(budget: Budget, granted: Mapping[str, Any], actor: User) -> Budget:
    """What was granted after the backup was made, under the protection that was declared by then.

    Where this database knows of charges, the larger of both in each amount: a mark of old can be of a grant that fell.
    """
    declared = {column: granted[column] for column in ("policy", "unit", "neighbours")}
    Budget.objects.filter(pk=budget.pk).update(**declared)
    amounts = {field: str(granted[field] or "0") for field in ("epsilon", "delta")}
    if budget.is_granted and grants.has_been_charged(budget):
        amounts = {
            field: grants.larger(amounts[field], getattr(budget, field) or "0", field=field) for field in amounts
        }
    _granted(budget=budget, **amounts, actor=actor)
    return _lock(budget)


def acknowledge(budget: Budget) -> None:
    """Write a mark of what stands in place of one that is lost or broken, as a reviewer decided, after the commit."""
    transaction.on_commit(lambda: high_water_marks.put(budget.pk, _mark_of(Budget.objects.get(pk=budget.pk))))


def went_back(budget: Budget) -> bool:
    """Whether the database knows less of this budget than its mark, or the mark is lost."""
    return bool(stale_ledger.budget(budget))


def remember(budget: Budget) -> None:
    """Raise the budget's mark to what is committed. Called before data are touched and after every commit."""
    budget.refresh_from_db()
    if not went_back(budget) and budget.sequence:
        high_water_marks.raise_to(budget.pk, _mark_of(budget))


def _mark_of(budget: Budget) -> high_water_marks.Mark:
    granted = _what_is_granted(budget) if budget.is_granted else None
    tables = budget.datasets.order_by("created_at").values("title", "digest", counted=F("fingerprint__digest"))
    return high_water_marks.Mark(
        sequence=budget.sequence,
        hash=budget.head,
        totals=budget.totals,
        granted=granted,
        name=budget.name,
        owner={"id": budget.owner_id, "name": budget.owner.get_username()},
        tables=tuple(tables),
    )


def _what_is_granted(budget: Budget) -> dict[str, Any]:
    """What a grant settles: the amounts, the rule they add up by, and whom it protects."""
    return {column: getattr(budget, column) for column in ("epsilon", "delta", "policy", "unit", "neighbours")}


def remaining(budget: Budget) -> filters.Remaining:
    return filters.remaining(budget.totals, budget.caps)


def _lock(budget: Budget) -> Budget:
    """The budget's row, locked until the transaction ends (on SQLite the transaction itself is the lock)."""
    return Budget.objects.select_for_update().get(pk=budget.pk)


def _replaces_the_rule_of_before(budget: Budget) -> bool:
    """Whether a new grant may give a budget the rule of today: whatever its own rule let in fits under it."""
    if not grants.has_been_charged(budget):
        return True
    details = budget.entries.filter(kind=EntryKind.GRANT).values_list("detail", flat=True)
    caps = filters.Caps.of(
        filters.Policy(budget.policy),
        epsilon=exact(budget.epsilon, field="epsilon"),
        delta=exact(budget.delta or "0", field="delta"),
    )
    known = [each.get("caps", {}).get("rho") for each in details]
    return None not in known and caps.replaces(max(known, default=0))


class _NewEntry(TypedDict, total=False):
    kind: Required[EntryKind]
    actor: Required[User]
    detail: Required[dict[str, Any]]
    key: uuid.UUID
    release: Release
    amounts: filters.Totals
    signed: entries.Signed
    sequence: int
    #: What the budget row gets beside, or in place of, the amounts added.
    columns: dict[str, Any]


def _append(budget: Budget, **new: Unpack[_NewEntry]) -> LedgerEntry:
    """Insert the next entry and move the locked budget row along.

    The entry comes first: the database lets the row move only to an entry that is there (migration 0026).
    """
    if budget.sequence == 0:
        stale_ledger.begin(budget)
    amounts = new.get("amounts", filters.Totals())
    epsilon, delta, rho, rho_delta = new.get("signed") or _columns(amounts)
    entry = LedgerEntry(
        budget=budget,
        sequence=new.get("sequence", budget.sequence + 1),
        kind=new["kind"],
        key=new.get("key") or uuid.uuid4(),
        release=new.get("release"),
        actor=new["actor"],
        detail=new["detail"],
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        rho_delta=rho_delta,
        orders=list(amounts.spent_orders) if "amounts" in new else None,
        made_at=timezone.now(),
        previous=budget.head,
    )
    entry.hash = entries.hash_of(entry)
    # A grant leaves the sums as they are.
    added = budget.totals.plus(amounts).columns() if "amounts" in new else {}
    with transaction.atomic():
        entry.save(force_insert=True)
        moved = Budget.objects.filter(pk=budget.pk, sequence=budget.sequence).update(
            sequence=entry.sequence, head=entry.hash, **{**added, **new.get("columns", {})}
        )
        assert moved == 1, "the budget row is locked, so nobody has moved it along"
    transaction.on_commit(lambda: remember(Budget.objects.get(pk=budget.pk)))
    return entry


def _columns(totals: filters.Totals) -> entries.Signed:
    return totals.spent_epsilon, totals.spent_delta, totals.spent_rho, totals.spent_rho_delta


def _refuse_a_ledger_that_went_back(budget: Budget, release: Release | None = None) -> None:
    """The whole installation's marks, this budget's, and what is remembered of a release."""
    if why := stale_ledger.refusal(budget, and_release=release.pk if release is not None else None):
        raise refusals.LedgerWentBack(f"{why} Nothing was charged, granted or given back.")
