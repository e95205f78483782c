"""The ledger: the only writer of its entries and of what a budget has spent.

    grant      sets a budget's caps; raises them, once something was charged
    charge     reserves the price of a release, or refuses; before any data are touched
    give_back  opposes the charge of a release that ended and never opened its table
    restore    books what a restored backup has forgotten
    verify     recomputes everything from the entries

A price has a meaning only together with what it protects, so a plan is charged where its unit and its neighbours are
those of the budget, and each charge says which they were.

Each is one transaction that first locks the budget's row. Entries are append-only by database trigger and chained by
hash; a mark outside the database (`high_water_marks`) notices a ledger that went backwards.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, Unpack

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from releases.engine.accounting import accountant, filters
from releases.engine.accounting.events import Event, event_from_json
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit, decimal_text, exact, protection_in_words
from releases.engine.errors import EngineError
from releases.ledger import grants, high_water_marks, stale_ledger
from releases.models import (
    Budget,
    Dataset,
    EntryKind,
    LedgerEntry,
    Organisation,
    Release,
    ReleaseRequest,
    ReleaseState,
    RequestState,
    share_of,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


#: Amounts of an entry in the order epsilon, delta, rho, rho_delta; negative in a RETURN.
_Signed: TypeAlias = tuple[int, int, int, int]


NOTHING = filters.Totals()
#: As epsilon: the sum of what has none.
NO_EPSILON = Fraction(filters.CLOSED, 10**accountant.EPSILON_PLACES)


class LedgerRefusal(Exception):
    """The ledger will not do it. The text is for the person who asked."""


class InsufficientBudget(LedgerRefusal):
    """A charge does not fit. Carries both numbers, so that a page can explain.

    Attributes:
        requested: the price of the release.
        remaining: what one more release may cost.
        shortfalls: each condition that it breaks.
    """

    def __init__(
        self,
        *,
        requested: accountant.Price,
        remaining: filters.Remaining,
        shortfalls: Sequence[filters.Shortfall],
    ) -> None:
        self.requested = requested
        self.remaining = remaining
        self.shortfalls = tuple(shortfalls)
        asked = requested.pure_epsilon if requested.pure_epsilon is not None else requested.epsilon
        left = remaining.pure_epsilon if requested.pure_epsilon is not None else remaining.epsilon
        super().__init__(
            f"The release costs epsilon {epsilon_text(asked)}, and epsilon {epsilon_text(left)} is left of the "
            f"dataset's budget. Nothing was charged."
        )


class AnotherProtection(LedgerRefusal):
    """A plan was made for another unit or other neighbours than the budget promises.

    Attributes:
        planned: what the plan protects, in words.
        promised: what the budget protects.
    """

    def __init__(self, *, planned: str, promised: str) -> None:
        self.planned, self.promised = planned, promised
        super().__init__(
            f"The plan protects {planned}, and the budget protects {promised}. Its price would not mean what the "
            f"budget promises, so nothing was charged and nothing is run. Plan it again."
        )


class AnotherPopulation(LedgerRefusal):
    """The dataset spends from another budget than when it was read."""

    def __init__(self) -> None:
        super().__init__(
            "The dataset was put into another population in the meantime. Nothing was charged. Look at it again."
        )


class NotGranted(LedgerRefusal):
    """No budget has been granted yet."""


class Frozen(LedgerRefusal):
    """A reviewer has frozen the budget."""


class PersonLimit(LedgerRefusal):
    """One person would spend more of the budget than the organisation lets one person spend.

    Attributes:
        spent: by this person so far, as a share of the budget from 0 to 1.
        takes: the release, beyond that.
        most: what one person may spend.
    """

    def __init__(self, *, spent: Fraction, takes: Fraction, most: Fraction, who: str = "You have") -> None:
        self.spent, self.takes, self.most = spent, takes, most
        super().__init__(
            f"{who} spent {share_text(spent)} of this budget and this release takes {share_text(takes)} more; one "
            f"person may spend at most {limit_text(most)}. Somebody else of the group can submit it, or an "
            f"administrator can change the limit."
        )

    def of(self, person: User) -> PersonLimit:
        """The same, said to somebody else."""
        return PersonLimit(spent=self.spent, takes=self.takes, most=self.most, who=f"{person} has")


class Unseen(LedgerRefusal):
    """With this release one person's charges that no reviewer saw would come to more than may pass unseen."""

    def __init__(self) -> None:
        super().__init__("A reviewer has to see it first. Nothing was charged.")


class LedgerWentBack(LedgerRefusal):
    """The database knows less than what is remembered outside it, or that is lost (`stale_ledger`)."""


class DoesNotFit(LedgerRefusal):
    """What is to be booked as spent is more than what is granted."""


class KeyUsed(LedgerRefusal):
    """The idempotency key belongs to another release."""


@transaction.atomic
def grant(*, budget: Budget, epsilon: str, delta: str, actor: User) -> LedgerEntry:
    """Set a budget's caps, or raise them.

    Once something was charged, neither epsilon nor delta may fall. The filter's theorem holds for a budget that is at
    least as large as every earlier one (`filters`, "A budget that is raised"), so the last grant is the largest, and
    what it says is what the filter enforces over the whole life of the budget. To stop a budget, freeze it.

    Raises:
        InvalidInput: epsilon or delta is not a budget under the policy, or falls although something was charged.
        LedgerWentBack: the database is behind, and what was granted or spent since is not known to it.
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
        AnotherProtection: the budget protects something else.
        AnotherPopulation: the dataset has another budget by now.
        InsufficientBudget: it does not fit; carries requested and remaining.
        Unseen: it fits, and a reviewer has to see it first.
        PersonLimit: it fits, and is more than one person may spend.
        NotGranted, Frozen, LedgerWentBack: nothing can be charged now.
        Unpriceable: an event has no proven price.
    """
    budget = lock_for(release=release, unit=unit, neighbours=neighbours)
    made = LedgerEntry.objects.filter(key=key).first()
    if made is not None:
        if made.release_id != release.pk:
            raise KeyUsed("This submission was already made for another release.")
        return made
    if not budget.is_granted:
        raise NotGranted("No budget has been granted yet. A reviewer has to approve the request first.")
    if budget.is_frozen:
        raise Frozen("A reviewer has frozen this budget. No release can be charged to it.")
    _refuse_a_ledger_that_went_back(budget, release)
    price = accountant.price(events, delta=delta, neighbours=neighbours)
    amounts = filters.amounts(price, policy=filters.Policy(budget.policy))
    # The budget's row is locked, so nobody charges it in between; a later refusal undoes the entry.
    if not filters.admits(budget.totals, price, budget.caps):
        raise InsufficientBudget(
            requested=price,
            remaining=filters.remaining(budget.totals, budget.caps),
            shortfalls=filters.shortfalls(budget.totals, price, budget.caps),
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
    if (refusal := over_the_limit(release=release, budget=budget, price=price, person=actor)) is not None:
        raise refusal
    if most_unseen is not None and unseen_with(release=release, budget=budget, price=price, person=actor) > most_unseen:
        raise Unseen
    return entry


def lock_for(*, release: Release, unit: PrivacyUnit, neighbours: NeighbouringRelation) -> Budget:
    """The budget that a release is charged to, locked until the transaction ends, and seen to protect what the plan
    protects. While it is locked nobody changes that, nor which budget it is.

    Raises:
        NotGranted: there is no budget.
        AnotherPopulation, AnotherProtection: the plan is not one of this budget.
    """
    if release.dataset.budget_id is None:
        raise NotGranted("The dataset has no budget yet. Ask for one first.")
    budget = Budget.objects.select_for_update().filter(pk=release.dataset.budget_id).first()
    if budget is None or not Dataset.objects.filter(pk=release.dataset_id, budget=budget).exists():
        raise AnotherPopulation
    check_protection(budget, unit=unit, neighbours=neighbours)
    return budget


def check_protection(budget: Budget, *, unit: PrivacyUnit, neighbours: NeighbouringRelation) -> None:
    """See that a plan protects what the budget promises to protect.

    Raises:
        AnotherProtection: it does not.
    """
    if (unit, neighbours) != (budget.privacy_unit, budget.relation):
        raise AnotherProtection(
            planned=protection_in_words(unit=unit, neighbours=neighbours), promised=_promised(budget)
        )


@transaction.atomic
def give_back(*, release: Release, actor: User) -> LedgerEntry:
    """Oppose the charge of a release whose data nobody can have touched: every attempt at it is on record, and none
    came to opening the table. Unknown means opened.

    The caller has moved the release, in this transaction and by a filtered update, to cancelled or failed, so that no
    worker holds it or can take it: an attempt that did not open the table until then never will.

    Raises:
        LedgerRefusal: it has not ended, or something may have been read.
        LedgerWentBack: the database is behind, so a worker may have opened the table after all.
    """
    charged = LedgerEntry.objects.get(release=release, kind=EntryKind.CHARGE)
    budget = _lock(charged.budget)
    _refuse_a_ledger_that_went_back(budget)
    if why := _why_the_charge_stays(release.pk):
        raise LedgerRefusal(f"The charge stays: {why}.")
    attempts = Release.objects.values_list("attempts", flat=True).get(pk=release.pk)
    return _append(
        budget,
        kind=EntryKind.RETURN,
        actor=actor,
        release=release,
        detail={"returns": charged.sequence, "attempts": attempts},
        signed=_opposite(charged),
        # A sum that was stopped at CLOSED cannot be undone by subtraction, so it is made again.
        columns=_sums(budget, without=charged).columns(),
    )


@transaction.atomic
def restore(*, budget: Budget, actor: User) -> LedgerEntry:
    """After a restored backup: grant what the mark knows as granted, and book as spent what it knows beyond the
    database, so that spending may go on.

    Raises:
        LedgerRefusal: the ledger is not behind; or what the mark knows does not fit under what is granted.
    """
    locked = _lock(budget)
    mark = high_water_marks.read(locked.pk)
    if mark is None or not stale_ledger.budget(locked):
        raise LedgerRefusal("The ledger is not behind its mark. There is nothing to restore.")
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
        raise LedgerRefusal(
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
        DoesNotFit: it is more than what is granted.
    """
    detail = {"lost": [dict(each) for each in lost], "totals": amounts.columns()}
    try:
        with transaction.atomic():
            return _append(_lock(budget), kind=EntryKind.RESTORE, actor=actor, amounts=amounts, detail=detail)
    except IntegrityError:
        raise DoesNotFit("What is booked does not fit under what is granted.") from None


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


def over_the_limit(
    *,
    release: Release,
    budget: Budget,
    price: accountant.Price,
    person: User,
    beside: filters.Totals = NOTHING,
) -> PersonLimit | None:
    """Why a release is more than one person may spend; None where it is not, or where there is no limit.

    Everything that this person was charged counts, but for what was given back; the release counts once, whether or
    not it is booked already.

    Args:
        beside: what else they are about to be charged.
    """
    most = Organisation.current().most_share_per_person
    if most is None:
        return None
    caps = budget.caps
    own = _charged_to(person, budget, but=release).plus(beside)
    spent = share_of(own, caps)
    with_it = share_of(own.plus(filters.amounts(price, policy=caps.policy)), caps)
    return PersonLimit(spent=spent, takes=with_it - spent, most=most) if with_it > most else None


def unseen_with(*, release: Release, budget: Budget, price: accountant.Price, person: User) -> Fraction:
    """What one person's charges that no reviewer approved come to with a release, as epsilon.

    One that was split into many small ones comes to what it would have come to in one piece.
    """
    own = price.pure_epsilon if price.pure_epsilon is not None else price.epsilon
    added = NO_EPSILON if own is None else Fraction(own, 10**accountant.EPSILON_PLACES)
    return unseen_before(release=release, budget=budget, person=person) + added


def unseen_before(*, release: Release, budget: Budget, person: User) -> Fraction:
    """What one person's other charges that no reviewer approved come to, as epsilon."""
    before = _charged_to(person, budget, but=release, is_unseen=True).spent_epsilon
    return Fraction(before, 10**accountant.EPSILON_PLACES)


def share_of_person(budget: Budget, person: User) -> Fraction:
    """How much of a granted budget one person's charges use up, from 0 to 1; one query."""
    return share_of(_charged_to(person, budget), budget.caps)


def share_text(share: Fraction) -> str:
    """A share in per cent, rounded up to one decimal, as on every page: two that are too much add up to too much."""
    return f"{decimal_text(100 * share, places=1)}%"


def limit_text(most: Fraction) -> str:
    """The limit for one person, as it was set."""
    return f"{decimal_text(100 * most)}%"


@dataclass(frozen=True, kw_only=True, slots=True)
class Fault:
    """Something in the ledger that does not add up."""

    budget: str
    sequence: int | None
    what: str


def verify(budget: Budget) -> Iterator[Fault]:
    """Recompute hashes, sums, prices, caps and what is protected from the entries; yield every disagreement."""
    previous, expected = "", 0
    granted = grants.Granted()
    planned = {f"planned_{each}": F(f"release__plan__schema__{each}") for each in ("unit", "neighbours")}
    for entry in budget.entries.annotate(**planned).order_by("sequence"):
        expected += 1
        if entry.kind == EntryKind.RESTORE:
            expected = entry.sequence
        if entry.sequence != expected:
            yield _fault(budget, entry, f"entry number {expected} is missing")
            expected = entry.sequence
        if entry.previous != previous or entry.hash != _hash(entry):
            yield _fault(budget, entry, "its hash does not follow from its content and the entry before")
        previous = entry.hash
        if entry.kind == EntryKind.CHARGE:
            yield from _verify_price(budget, entry)
            yield from _verify_protection(budget, entry)
        elif entry.kind == EntryKind.RETURN:
            yield from _verify_return(budget, entry)
        elif entry.kind == EntryKind.GRANT:
            yield from _verify_protection(budget, entry)
        granted.read(entry)
    if budget.sequence != expected or budget.head != previous:
        yield _fault(budget, None, "the last entry is not the one the budget row names")
    if _sums(budget) != budget.totals:
        yield _fault(budget, None, "the spent amounts are not the sums of the entries")
    if budget.is_granted and budget.caps.to_json() != granted.last:
        yield _fault(budget, None, "the caps are not those last granted")
    elif budget.is_granted and not granted.is_largest:
        yield _fault(budget, None, "less is granted than was while releases were charged")
    if what := stale_ledger.budget(budget):
        yield _fault(budget, None, f"{what}; a backup was restored, or a mark is lost")


def is_whole(entry: LedgerEntry) -> bool:
    """Whether an entry's hash follows from its content; `verify` also asks whether the chain does."""
    return entry.hash == _hash(entry)


def epsilon_text(units: int | None) -> str:
    return "none" if units is None else decimal_text(Fraction(units, 10**accountant.EPSILON_PLACES))


def _verify_price(budget: Budget, entry: LedgerEntry) -> Iterator[Fault]:
    detail = entry.detail
    try:
        price = accountant.price(
            [event_from_json(event) for event in detail["events"]],
            delta=Fraction(detail["delta"]),
            neighbours=budget.relation,
        )
        amounts = filters.amounts(price, policy=filters.Policy(detail["policy"]))
    except (EngineError, KeyError, TypeError, ValueError):
        yield _fault(budget, entry, "what it says was run cannot be priced")
        return
    # A later accountant may prove less; it must never find that too little was charged.
    if amounts.beyond(entry.amounts) != filters.Totals():
        yield _fault(budget, entry, f"its events cost more than was charged: {price.in_words()}")


def _verify_protection(budget: Budget, entry: Any) -> Iterator[Fault]:
    """What a grant or a charge was made for, as it says itself and as the release's plan has it.

    Entries of old say nothing of the unit. A charge's is in the plan then; nothing can be said of a grant's.
    """
    detail = entry.detail
    is_silent = entry.kind == EntryKind.GRANT and "unit" not in detail
    said = [] if is_silent else [(detail.get("unit", entry.planned_unit), detail.get("neighbours"))]
    if entry.planned_unit is not None:
        said.append((entry.planned_unit, entry.planned_neighbours))
    for found in dict.fromkeys(_protection(*each) for each in said):
        if found is None:
            yield _fault(budget, entry, "what it protects is unknown")
        elif found != (budget.privacy_unit, budget.relation):
            protects = protection_in_words(unit=found[0], neighbours=found[1])
            yield _fault(budget, entry, f"it protects {protects}, and the budget protects {_promised(budget)}")


def _protection(unit: object, neighbours: object) -> tuple[PrivacyUnit, NeighbouringRelation] | None:
    """Unit and neighbours as they are stored; None for what is neither."""
    try:
        return PrivacyUnit.from_json(unit), NeighbouringRelation(neighbours)  # type: ignore[arg-type]
    except (EngineError, ValueError):
        return None


def _promised(budget: Budget) -> str:
    return protection_in_words(unit=budget.privacy_unit, neighbours=budget.relation)


def _verify_return(budget: Budget, entry: LedgerEntry) -> Iterator[Fault]:
    """It opposes one charge of this budget, made for the same release before it, and that release read nothing."""
    charged = budget.entries.filter(kind=EntryKind.CHARGE, sequence=entry.detail.get("returns")).first()
    if charged is None or charged.sequence > entry.sequence or charged.release_id != entry.release_id:
        yield _fault(budget, entry, "it gives back what was not charged for its release")
    elif (entry.epsilon, entry.delta, entry.rho, entry.rho_delta) != _opposite(charged):
        yield _fault(budget, entry, f"it does not give back what number {charged.sequence} charged")
    why = _why_the_charge_stays(entry.release_id) if entry.release_id is not None else "it names no release"
    if why:
        yield _fault(budget, entry, f"a charge was given back that should stay: {why}")


def _why_the_charge_stays(release_id: uuid.UUID) -> str:
    """Why the charge of a release cannot be given back, or should not have been; empty where it can."""
    release = Release.objects.filter(pk=release_id)
    if not release.filter(state__in=(ReleaseState.CANCELLED, ReleaseState.FAILED), run_token=None).exists():
        return "its release has not ended without a result"
    if not release.that_read_nothing().exists() or stale_ledger.begun(release_id):
        return "an attempt at its release may have opened the table"
    return ""


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
    signed: _Signed
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
    entry.hash = _hash(entry)
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


def _opposite(entry: LedgerEntry) -> _Signed:
    return -entry.epsilon, -entry.delta, -entry.rho, -entry.rho_delta


def _columns(totals: filters.Totals) -> _Signed:
    return totals.spent_epsilon, totals.spent_delta, totals.spent_rho, totals.spent_rho_delta


def _sums(budget: Budget, *, without: LedgerEntry | None = None) -> filters.Totals:
    """What is spent, again from the entries: charges and restorations, but for the charges given back and one more."""
    entries = list(budget.entries.order_by("sequence"))
    returned = {entry.detail["returns"] for entry in entries if entry.kind == EntryKind.RETURN}
    if without is not None:
        returned.add(without.sequence)
    return filters.Totals.of(
        entry.amounts
        for entry in entries
        if entry.kind in (EntryKind.CHARGE, EntryKind.RESTORE) and entry.sequence not in returned
    )


def _charged_to(person: User, budget: Budget, *, but: Release | None = None, is_unseen: bool = False) -> filters.Totals:
    """The sums of one person's charges that stand; of those alone that no reviewer approved, if asked."""
    charges = budget.entries.charges_that_stand().filter(actor=person)
    if but is not None:
        charges = charges.exclude(release=but)
    if is_unseen:
        charges = charges.exclude(pk__in=_seen(charges))
    return filters.Totals.of(each.amounts for each in charges.with_amounts())


def _seen(charges: QuerySet[LedgerEntry]) -> list[int]:
    """Those that a reviewer approved: as they were submitted, or for less and as just that plan."""
    approved = ReleaseRequest.objects.filter(state=RequestState.APPROVED)
    as_submitted = charges.filter(key__in=approved.values("key")).values_list("pk", flat=True)
    for_less = approved.filter(release__in=charges.values("release")).exclude(approved_plan="")
    plans = set(for_less.values_list("release", "approved_plan"))
    kept = charges.filter(release__in={release for release, _ in plans}).values_list("pk", "release", "release__plan")
    return [*as_submitted, *(pk for pk, release, plan in kept if (release, plan_digest(plan or {})) in plans)]


def plan_digest(plan: Mapping[str, Any]) -> str:
    """What tells one plan, as it is stored, from every other."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()


def _refuse_a_ledger_that_went_back(budget: Budget, release: Release | None = None) -> None:
    """The whole installation's marks, this budget's, and what is remembered of a release."""
    if why := stale_ledger.refusal(budget, and_release=release.pk if release is not None else None):
        raise LedgerWentBack(f"{why} Nothing was charged, granted or given back.")


def _hash(entry: LedgerEntry) -> str:
    text = json.dumps(entry.content(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _fault(budget: Budget, entry: LedgerEntry | None, what: str) -> Fault:
    return Fault(budget=budget.name, sequence=entry.sequence if entry else None, what=what)
