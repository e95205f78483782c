"""The ledger: the only writer of its entries and of what a budget has spent.

    grant      sets or raises a budget's caps
    charge     reserves the price of a release, or refuses; before any data are touched
    give_back  opposes the charge of a release that no worker ever claimed
    restore    books what a restored backup has forgotten
    verify     recomputes everything from the entries

Each is one transaction that first locks the budget's row. Entries are append-only by database trigger and chained by
hash; a mark outside the database (`marks`) notices a ledger that went backwards.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Required, TypeAlias, TypedDict, Unpack

from django.db import transaction
from django.db.models import F, Q, QuerySet, Value
from django.db.models.functions import Least
from django.utils import timezone

from releases import marks
from releases.engine import accountant, filters
from releases.engine.errors import EngineError
from releases.engine.events import Event, event_from_json
from releases.engine.privacy import decimal_text
from releases.models import (
    Budget,
    EntryKind,
    LedgerEntry,
    Organisation,
    Release,
    ReleaseRequest,
    RequestState,
    share_of,
)

if TYPE_CHECKING:
    from django.contrib.auth.models import User


#: Amounts of an entry in the order epsilon, delta, rho, rho_delta; negative in a RETURN.
_Signed: TypeAlias = tuple[int, int, int, int]


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
            f"person may spend at most {limit_text(most)}. Somebody else of the group can submit it, or staff can "
            f"change the limit."
        )

    def of(self, person: User) -> PersonLimit:
        """The same, said to somebody else."""
        return PersonLimit(spent=self.spent, takes=self.takes, most=self.most, who=f"{person} has")


class Unseen(LedgerRefusal):
    """With this release one person's charges that no reviewer saw would come to more than may pass unseen."""

    def __init__(self) -> None:
        super().__init__("A reviewer has to see it first. Nothing was charged.")


class LedgerWentBack(LedgerRefusal):
    """The database knows less than the mark beside it: an old backup was restored."""


class KeyUsed(LedgerRefusal):
    """The idempotency key belongs to another release."""


@transaction.atomic
def grant(*, budget: Budget, epsilon: str, delta: str, actor: User) -> LedgerEntry:
    """Set a budget's caps, or raise them. What is spent must fit under them.

    Raises:
        InvalidInput: epsilon or delta is not a budget under the policy.
        LedgerRefusal: less than what is spent.
    """
    locked = _lock(budget)
    locked.epsilon, locked.delta = epsilon, delta
    caps = locked.caps
    if not any(branch.holds(locked.totals) for branch in caps.branches):
        raise LedgerRefusal("More than that is already spent. Freeze the budget to stop further releases.")
    limits = {limit.column: limit.cap for branch in caps.branches for limit in branch.limits}
    entry = _append(
        locked,
        kind=EntryKind.GRANT,
        actor=actor,
        detail={"epsilon": epsilon, "delta": delta, "caps": caps.to_json()},
    )
    Budget.objects.filter(pk=locked.pk).update(
        epsilon=epsilon,
        delta=delta,
        cap_epsilon=limits["spent_epsilon"],
        cap_delta=limits["spent_delta"],
        cap_rho=limits.get("spent_rho", 0),
        cap_rho_delta=limits.get("spent_rho_delta", 0),
    )
    return entry


@transaction.atomic
def charge(
    *,
    release: Release,
    events: Sequence[Event],
    delta: Fraction,
    key: uuid.UUID,
    actor: User,
    most_unseen: Fraction | None = None,
) -> LedgerEntry:
    """Reserve the price of a release. The same key twice is one charge.

    Args:
        release: whose dataset's budget pays.
        events: what will be run; the accountant prices them.
        delta: at which the release states its approximate form; 0 for a pure one.
        key: chosen by the caller once for this charge.
        actor: who submits; also where a reviewer approves it. The limit for one person is on their charges.
        most_unseen: the epsilon that their charges without a review may come to with this one; None where a reviewer
            has seen it, or there is no such threshold.

    Raises:
        InsufficientBudget: it does not fit; carries requested and remaining.
        Unseen: it fits, and a reviewer has to see it first.
        PersonLimit: it fits, and is more than one person may spend.
        NotGranted, Frozen, LedgerWentBack: nothing can be charged now.
        Unpriceable: an event has no proven price.
    """
    if release.dataset.budget is None:
        raise NotGranted("The dataset has no budget yet. Ask for one first.")
    budget = _lock(release.dataset.budget)
    made = LedgerEntry.objects.filter(key=key).first()
    if made is not None:
        if made.release_id != release.pk:
            raise KeyUsed("This submission was already made for another release.")
        return made
    if not budget.is_granted:
        raise NotGranted("No budget has been granted yet. A reviewer has to approve the request first.")
    if budget.is_frozen:
        raise Frozen("A reviewer has frozen this budget. No release can be charged to it.")
    _refuse_a_ledger_that_went_back(budget)
    price = accountant.price(events, delta=delta, neighbours=budget.relation)
    amounts = filters.amounts(price, policy=filters.Policy(budget.policy))
    entry = _append_if(
        _admits(budget.caps, amounts),
        budget,
        kind=EntryKind.CHARGE,
        actor=actor,
        key=key,
        release=release,
        amounts=amounts,
        detail={
            "events": [event.to_json() for event in events],
            "delta": str(delta),
            "neighbours": budget.neighbours,
            "policy": budget.policy,
            "price": price.to_json(),
        },
    )
    if entry is None:
        raise InsufficientBudget(
            requested=price,
            remaining=filters.remaining(budget.totals, budget.caps),
            shortfalls=filters.shortfalls(budget.totals, price, budget.caps),
        )
    # The update above holds the budget's row, so nobody charges it in between; a refusal undoes the update.
    if (refusal := over_the_limit(release=release, budget=budget, price=price, person=actor)) is not None:
        raise refusal
    if most_unseen is not None and unseen_with(release=release, budget=budget, price=price, person=actor) > most_unseen:
        raise Unseen
    return entry


@transaction.atomic
def give_back(*, release: Release, actor: User) -> LedgerEntry:
    """Oppose the charge of a release whose data nobody can have touched.

    The caller has moved the release, in this transaction and by a filtered update, from queued and never claimed to
    cancelled.
    """
    charged = LedgerEntry.objects.get(release=release, kind=EntryKind.CHARGE)
    budget = _lock(charged.budget)
    entry = _append(
        budget,
        kind=EntryKind.RETURN,
        actor=actor,
        release=release,
        detail={"returns": charged.sequence},
        signed=_opposite(charged),
    )
    # A sum that was stopped at CLOSED cannot be undone by subtraction, so it is made anew.
    Budget.objects.filter(pk=budget.pk).update(**_sums(budget).columns())
    return entry


@transaction.atomic
def restore(*, budget: Budget, actor: User) -> LedgerEntry:
    """After a restored backup: book as spent what the mark knows beyond the database, so that spending may go on."""
    locked = _lock(budget)
    mark = marks.read(locked.pk)
    if mark is None or not _is_behind(locked, mark):
        raise LedgerRefusal("The ledger is not behind its mark. There is nothing to restore.")
    missing = {column: max(0, amount - getattr(locked, column)) for column, amount in mark.totals.columns().items()}
    return _append(
        locked,
        kind=EntryKind.RESTORE,
        actor=actor,
        amounts=filters.Totals(**missing),
        detail={"mark": {"sequence": mark.sequence, "hash": mark.hash, "totals": mark.totals.columns()}},
        sequence=mark.sequence + 1,
    )


def went_back(budget: Budget) -> bool:
    """Whether the database knows less of this budget than its mark."""
    mark = marks.read(budget.pk)
    return mark is not None and _is_behind(budget, mark)


def remember(budget: Budget) -> None:
    """Raise the budget's mark to what is committed. Called before data are touched and after every commit."""
    budget.refresh_from_db()
    if not went_back(budget) and budget.sequence:
        marks.raise_to(budget.pk, marks.Mark(sequence=budget.sequence, hash=budget.head, totals=budget.totals))


def remaining(budget: Budget) -> filters.Remaining:
    return filters.remaining(budget.totals, budget.caps)


def over_the_limit(*, release: Release, budget: Budget, price: accountant.Price, person: User) -> PersonLimit | None:
    """Why a release is more than one person may spend; None where it is not, or where there is no limit.

    Everything that this person was charged counts, but for what was given back; the release counts once, whether or
    not it is booked already.
    """
    most = Organisation.current().most_share_per_person
    if most is None:
        return None
    caps = budget.caps
    own = _charged_to(person, budget, but=release)
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
    """Recompute hashes, sums, prices and caps from the entries; yield every disagreement."""
    previous, expected = "", 0
    caps: dict[str, Any] | None = None
    for entry in budget.entries.order_by("sequence"):
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
        elif entry.kind == EntryKind.GRANT:
            caps = entry.detail["caps"]
    if budget.sequence != expected or budget.head != previous:
        yield _fault(budget, None, "the last entry is not the one the budget row names")
    if _sums(budget) != budget.totals:
        yield _fault(budget, None, "the spent amounts are not the sums of the entries")
    if budget.is_granted and budget.caps.to_json() != caps:
        yield _fault(budget, None, "the caps are not those last granted")
    if went_back(budget):
        yield _fault(budget, None, "the database is older than the mark beside it: a backup was restored")


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
    if any(found > booked for found, booked in zip(_columns(amounts), _signed(entry), strict=True)):
        yield _fault(budget, entry, f"its events cost more than was charged: {price.in_words()}")


def _lock(budget: Budget) -> Budget:
    """The budget's row, locked until the transaction ends (on SQLite the transaction itself is the lock)."""
    return Budget.objects.select_for_update().get(pk=budget.pk)


def _admits(caps: filters.Caps, amounts: filters.Totals) -> Q:
    """The policy's filter as a condition on the budget row: OR over branches of AND over their limits."""
    condition = Q()
    for branch in caps.branches:
        condition |= Q(
            **{f"{limit.column}__lte": limit.cap - getattr(amounts, limit.column) for limit in branch.limits}
        )
    return condition


def _append(budget: Budget, **entry: Unpack[_NewEntry]) -> LedgerEntry:
    """Insert the next entry and move the locked budget row along."""
    appended = _append_if(Q(), budget, **entry)
    assert appended is not None, "the budget row is locked, so its update cannot miss it"
    return appended


class _NewEntry(TypedDict, total=False):
    kind: Required[EntryKind]
    actor: Required[User]
    detail: Required[dict[str, Any]]
    key: uuid.UUID
    release: Release
    amounts: filters.Totals
    signed: _Signed
    sequence: int


def _append_if(condition: Q, budget: Budget, **new: Unpack[_NewEntry]) -> LedgerEntry | None:
    """The same, in one conditional update of the budget row; None, and nothing written, where it refuses."""
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
        made_at=timezone.now(),
        previous=budget.head,
    )
    entry.hash = _hash(entry)
    moved = Budget.objects.filter(condition, pk=budget.pk, sequence=budget.sequence).update(
        sequence=entry.sequence,
        head=entry.hash,
        **{
            column: Least(F(column) + Value(amount), Value(filters.CLOSED))
            for column, amount in amounts.columns().items()
        },
    )
    if moved != 1:
        return None
    entry.save(force_insert=True)
    transaction.on_commit(lambda: remember(Budget.objects.get(pk=budget.pk)))
    return entry


def _signed(entry: LedgerEntry) -> _Signed:
    return entry.epsilon, entry.delta, entry.rho, entry.rho_delta


def _opposite(entry: LedgerEntry) -> _Signed:
    return -entry.epsilon, -entry.delta, -entry.rho, -entry.rho_delta


def _columns(totals: filters.Totals) -> _Signed:
    return totals.spent_epsilon, totals.spent_delta, totals.spent_rho, totals.spent_rho_delta


def _sums(budget: Budget) -> filters.Totals:
    """What is spent, anew from the entries: charges and restorations, but for the charges given back."""
    entries = list(budget.entries.order_by("sequence"))
    returned = {entry.detail["returns"] for entry in entries if entry.kind == EntryKind.RETURN}
    columns = filters.Totals().columns()
    return filters.Totals.of(
        filters.Totals(**dict(zip(columns, _signed(entry), strict=True)))
        for entry in entries
        if entry.kind in (EntryKind.CHARGE, EntryKind.RESTORE) and entry.sequence not in returned
    )


def _charged_to(person: User, budget: Budget, *, but: Release | None = None, is_unseen: bool = False) -> filters.Totals:
    """The sums of one person's charges that stand; of those alone that no reviewer approved, if asked."""
    columns = filters.Totals().columns()
    charges = budget.entries.charges_that_stand().filter(actor=person)
    if but is not None:
        charges = charges.exclude(release=but)
    if is_unseen:
        charges = charges.exclude(pk__in=_seen(charges))
    amounts = charges.values_list("epsilon", "delta", "rho", "rho_delta")
    return filters.Totals.of(filters.Totals(**dict(zip(columns, each, strict=True))) for each in amounts)


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


def _is_behind(budget: Budget, mark: marks.Mark) -> bool:
    """Fewer entries than were committed once, or another entry in the mark's place."""
    if budget.sequence < mark.sequence:
        return True
    marked = budget.entries.filter(sequence=mark.sequence).values_list("hash", flat=True).first()
    return marked is not None and marked != mark.hash


def _refuse_a_ledger_that_went_back(budget: Budget) -> None:
    if went_back(budget):
        raise LedgerWentBack(
            "The database is older than the ledger's mark: a backup was restored. Nothing can be charged until a "
            "reviewer has looked at it."
        )


def _hash(entry: LedgerEntry) -> str:
    text = json.dumps(entry.content(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _fault(budget: Budget, entry: LedgerEntry | None, what: str) -> Fault:
    return Fault(budget=budget.name, sequence=entry.sequence if entry else None, what=what)
