"""What has been spent, read from the ledger for the pages of reviewers. Nothing here decides anything.

Two figures stand side by side there. The strict one is the sum that the budget's rule keeps; it decides, and holds
however the releases were chosen. The one after the fact describes what happened to be released; it is smaller, and
decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from itertools import groupby, zip_longest
from typing import Any
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.utils import timezone

from releases.display.charts.spending import StepPoint
from releases.engine.accounting import filters, tight_composition
from releases.engine.accounting.accountant import DELTA_PLACES, Price
from releases.engine.accounting.events import Event, event_from_json
from releases.engine.accounting.filters import CLOSED, Branch, Caps, Totals
from releases.engine.domain.privacy import decimal_text, exact
from releases.engine.errors import EngineError, InvalidInput, Unpriceable
from releases.engine.mechanisms.base import mechanism
from releases.ledger.balances import (
    amounts_of,
    caps_granted,
    caps_of,
    guarantee_text,
    is_fine,
    left_over,
    left_text,
    per_cent,
    share_of_one,
    sum_text,
)
from releases.ledger.capacity import ReleasesThatFit, room
from releases.models import Budget, Dataset, EntryKind, LedgerEntry, ReleaseState, counting_branch, ledger, share_of

#: Charged, but no data touched for certain, or nothing published yet.
_IN_FLIGHT = (ReleaseState.QUEUED, ReleaseState.RUNNING)
#: Entries that a chart of what is used shows or begins with.
_DRAWN = (EntryKind.CHARGE, EntryKind.RESTORE, EntryKind.GRANT)
#: Sums over many entries are in 10^-6 of epsilon, each rounded up, so that they stay within 64 bits.
_MICRO = 10**6
#: What `ledger.amounts_of` takes.
_AMOUNT_COLUMNS = ("epsilon", "delta", "rho", "rho_delta", "orders", "recorded_price")
#: More events than this are not composed while somebody waits for a page.
_MAX_EVENTS = 500


@dataclass(frozen=True, kw_only=True)
class BudgetBalance:
    """A budget in numbers, on the one scale of all pages (`balances`).

    Attributes:
        spent, reserved, left: in per cent of what was granted; they add up to 100.
        spent_text, reserved_text: the sums of the epsilons; of what is reserved, empty where nothing is.
        left_text: what is left as epsilon.
        strict: the sum that the budget's rule keeps: spent and reserved together.
        is_fine: whether less is gone than the epsilons add up to.
        settled, held: what the filter adds up of what is spent, and of what is reserved.
    """

    budget: Budget
    spent: float = 0.0
    reserved: float = 0.0
    left: float = 0.0
    spent_text: str = ""
    reserved_text: str = ""
    left_text: str = ""
    strict: str = ""
    is_fine: bool = False
    settled: Totals = field(default_factory=Totals)
    held: Totals = field(default_factory=Totals)

    @property
    def sums(self) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
        """What is spent, what is reserved, and both together, in each form as decimals."""
        strict = self.budget.totals if self.budget.is_granted else Totals()
        return amounts_of(self.settled), amounts_of(self.held), amounts_of(strict)

    @property
    def fits(self) -> tuple[ReleasesThatFit, ...]:
        """How many more releases of usual sizes fit; nothing while nothing is granted."""
        return room_of(self.budget)

    @property
    def left_over(self) -> dict[str, str]:
        """Epsilon and delta of what is left; empty while nothing is granted."""
        budget = self.budget
        if not budget.is_granted:
            return {"epsilon": "", "delta": ""}
        return left_over(budget.totals, caps_of(budget))

    @property
    def figure_after_the_fact(self) -> tuple[str, str]:
        """Epsilon and delta of what is said after the fact, from the sums that are kept."""
        figure = self._after_the_fact
        if figure is None:
            return "", ""
        return decimal_text(figure[0], places=6), decimal_text(figure[1], places=DELTA_PLACES)

    @property
    def used(self) -> float:
        return round(self.spent + self.reserved, 1)

    @property
    def after_the_fact(self) -> str:
        """What holds for what was released, described afterwards; empty where nothing is proved."""
        return "" if self._after_the_fact is None else guarantee_text(*self._after_the_fact)

    @property
    def _after_the_fact(self) -> tuple[Fraction, Fraction] | None:
        budget = self.budget
        if not budget.is_granted:
            return None
        return _after_the_fact(budget.totals, caps_of(budget))

    @property
    def tighter(self) -> Tighter | None:
        """The least composition, where it was worked out before."""
        known = known_tighter(self.budget)
        return known[0] if known else None

    @property
    def is_worked_out(self) -> bool:
        """Whether it is known what the compositions come to, if only that none is proved."""
        return known_tighter(self.budget) is not None

    @property
    def is_granted(self) -> bool:
        return self.budget.is_granted

    @property
    def delta(self) -> str:
        """What is granted of delta; empty where it is 0."""
        return "" if self.budget.delta == "0" else self.budget.delta

    @property
    def used_text(self) -> str:
        """What is spent and reserved, beside the per cent that are spent; empty where nothing is."""
        spent = "" if self.spent_text == "nothing" else self.spent_text
        reserved = f"{self.reserved:g}% reserved: {self.reserved_text}" if self.reserved_text else ""
        return "; ".join(each for each in (spent, reserved) if each)

    @property
    def shares(self) -> str:
        """The shares in one line, without the amounts."""
        reserved = f", {self.reserved:g}% reserved" if self.reserved_text else ""
        return f"{self.spent:g}% spent{reserved}, {self.left:g}% left"

    @property
    def in_words(self) -> str:
        """Shares and amounts in one line, for reviewers."""
        reserved = f", {self.reserved:g}% reserved ({self.reserved_text})" if self.reserved_text else ""
        spent = f"{self.spent:g}% spent" + (f" ({self.spent_text})" if self.spent_text != "nothing" else "")
        return f"{spent}{reserved}, {self.left:g}% left ({self.left_text})"


def room_of(budget: Budget | None) -> tuple[ReleasesThatFit, ...]:
    """How many more releases of usual sizes fit; nothing while nothing is granted."""
    return room(budget.totals, caps_of(budget)) if budget is not None and budget.is_granted else ()


def latest_charged(datasets: Iterable[Dataset]) -> dict[UUID, tuple[str, Price]]:
    """By table the newest finished release: its title, and what its budget was charged. Without those tables that have
    none, or where its charge does not say its price. Two queries for all of them."""
    finished = LedgerEntry.objects.charges_that_stand().filter(
        budget=OuterRef("budget"), release__dataset=OuterRef("pk"), release__state=ReleaseState.PUBLISHED
    )
    newest = Subquery(finished.order_by("-release__published_at").values("pk")[:1])
    of_each = dict(
        Dataset.objects.filter(pk__in=[each.pk for each in datasets])
        .annotate(newest=newest)
        .exclude(newest=None)
        .values_list("newest", "pk")
    )
    # Of the details, which are wide, the price alone.
    charges = LedgerEntry.objects.filter(pk__in=of_each).values_list("pk", "release__title", "detail__price")
    return {of_each[entry]: (title, Price(**price)) for entry, title, price in charges if price is not None}


def standings(budgets: Iterable[Budget]) -> list[BudgetBalance]:
    """The board's rows; one query for all of them."""
    budgets = list(budgets)
    reserved: dict[UUID, list[Totals]] = {}
    # By what they are not: a search by kind would go through the charges of all budgets.
    waiting = LedgerEntry.objects.filter(budget__in=budgets, release__state__in=_IN_FLIGHT).exclude(
        kind__in=[kind for kind in EntryKind if kind != EntryKind.CHARGE]
    )
    # One line for each price, however many wait.
    alike = waiting.order_by().with_amounts().values_list("budget", *_AMOUNT_COLUMNS).annotate(number=Count("pk"))
    for budget_id, *stored, number in alike:
        reserved.setdefault(budget_id, []).append(ledger.amounts_of(*stored).times(number))
    return [_standing(budget, Totals.of(reserved.get(budget.pk, []))) for budget in budgets]


def _standing(budget: Budget, reserved: Totals) -> BudgetBalance:
    if not budget.is_granted:
        return BudgetBalance(budget=budget)
    caps, spent = caps_of(budget), budget.totals
    settled = spent.without(reserved)
    used, done = per_cent(share_of(spent, caps)), per_cent(share_of(settled, caps))
    return BudgetBalance(
        budget=budget,
        spent=done,
        reserved=round(used - done, 1),
        left=round(100 - used, 1),
        spent_text=sum_text(settled),
        reserved_text="" if reserved == Totals() else sum_text(reserved),
        left_text=left_text(spent, caps),
        strict=sum_text(spent),
        is_fine=is_fine(spent, caps),
        settled=settled,
        held=reserved,
    )


@lru_cache(maxsize=4096)
def _after_the_fact(spent: Totals, caps: Caps) -> tuple[Fraction, Fraction] | None:
    if spent == Totals():
        return None
    try:
        stated = filters.report(spent, caps)
    except Unpriceable:
        return None
    return stated.epsilon, stated.delta


def charge_text(entry: LedgerEntry) -> str:
    """What one charge added, in the form that is said first."""
    return sum_text(entry.amounts)


def charge_amounts(entry: LedgerEntry) -> dict[str, str]:
    """The same in each form, as decimals."""
    return amounts_of(entry.amounts)


# --- charges that stand ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Use:
    """What one person, or one mechanism, was charged. Epsilons of different populations add up to no promise.

    Attributes:
        share: of one budget, in per cent; empty where it is of several.
    """

    name: str
    releases: int
    epsilon: str
    share: str = ""


def uses(charges: QuerySet[LedgerEntry]) -> tuple[list[Use], list[Use]]:
    """What each person and what each mechanism was charged, the most charged first; one query for both."""
    micro = Sum((F("epsilon") + (_MICRO - 1)) / _MICRO, filter=Q(epsilon__lt=CLOSED))
    counted = (
        charges.order_by()
        .values_list("actor__username", "release__mechanism")
        .annotate(releases=Count("pk"), micro=micro)
    )
    people: dict[str, _Sum] = {}
    kinds: dict[str, _Sum] = {}
    for person, kind, releases, priced in counted:
        people.setdefault(person, _Sum()).add(releases, priced)
        kinds.setdefault(kind, _Sum()).add(releases, priced)
    return _in_order(people), _in_order({_title(kind): summed for kind, summed in kinds.items()})


def uses_of(budget: Budget) -> tuple[list[Use], list[Use]]:
    """The same of one budget, with each one's share of what was granted; one query, a line for each price."""
    charged = LedgerEntry.objects.charges_that_stand().filter(budget=budget).order_by()
    people: dict[str, _Sum] = {}
    kinds: dict[str, _Sum] = {}
    alike = charged.with_amounts().values_list("actor__username", "release__mechanism", *_AMOUNT_COLUMNS)
    for person, kind, *stored, number in alike.annotate(number=Count("pk")):
        one = ledger.amounts_of(*stored)
        micro = None if one.spent_epsilon >= CLOSED else -(-one.spent_epsilon // _MICRO) * number
        for summed in (people.setdefault(person, _Sum()), kinds.setdefault(kind, _Sum())):
            summed.add(number, micro, one.times(number))
    branch = _branch_of(budget) if budget.is_granted else None
    return _in_order(people, branch), _in_order({_title(kind): summed for kind, summed in kinds.items()}, branch)


def share_of_charge(budget: Budget, entry: LedgerEntry) -> str:
    """What one charge took of what was granted."""
    return share_of_one(entry.amounts, _branch_of(budget))


def _branch_of(budget: Budget) -> Branch:
    return counting_branch(budget.totals, caps_of(budget))


@dataclass
class _Sum:
    """Releases, their epsilon in 10^-6 (None while none of them had one), and what the ledger adds up of them."""

    releases: int = 0
    micro: int | None = None
    amounts: list[Totals] = field(default_factory=list)

    def add(self, releases: int, micro: int | None, amounts: Totals | None = None) -> None:
        self.releases += releases
        if amounts is not None:
            self.amounts.append(amounts)
        if micro is not None:
            self.micro = micro + (self.micro or 0)


def _in_order(sums: dict[str, _Sum], branch: Branch | None = None) -> list[Use]:
    listed = sorted(sums.items(), key=lambda item: (-item[1].releases, item[0]))
    return [
        Use(
            name=name,
            releases=each.releases,
            epsilon="no such form" if each.micro is None else decimal_text(Fraction(each.micro, _MICRO)),
            share="" if branch is None else share_of_one(Totals.of(each.amounts), branch),
        )
        for name, each in listed
    ]


def _title(name: str) -> str:
    try:
        return mechanism(name).title
    except InvalidInput:
        return name


def steps(budgets: Sequence[Budget], *, since: datetime | None, until: datetime | None) -> list[StepPoint]:
    """How much of each budget was used at the end of each day with a charge, in per cent of what was granted then.

    Each line begins with what was used when the budget was granted, which is nothing, or when the dates begin. A
    further grant has a point of its own, and so has what was used before it.
    """
    granted = {budget.pk: budget for budget in budgets if budget.is_granted}
    names = _told_apart(list(granted.values()))
    drawn = [entry for entry in _drawn(budgets).order_by("budget", "sequence") if entry.budget_id in granted]
    if until is not None:
        drawn = [entry for entry in drawn if entry.made_at <= until]
    grants = _grants(list(granted.values()))
    points: list[StepPoint] = []
    for pk, of_budget in groupby(drawn, key=lambda entry: entry.budget_id):
        entries = list(of_budget)
        later = [entry for entry in entries if since is None or entry.made_at >= since]
        earlier = Totals.of(entry.amounts for entry in entries[: len(entries) - len(later)])
        start = since if len(later) < len(entries) else None
        points += _line(granted[pk], names[pk], later, grants.get(pk, []), earlier=earlier, start=start)
    return points


def latest_steps(budget: Budget, *, most: int) -> list[StepPoint]:
    """The same of one budget's latest entries, beginning with the sum of all before. Few queries, however many."""
    if not budget.is_granted:
        return []
    # One more, to see whether there is any before.
    found = list(_drawn([budget]).order_by("-sequence")[: most + 1])
    if not found:
        return []
    latest, has_earlier = found[:most][::-1], len(found) > most
    spent = budget.totals.without(Totals.of(entry.amounts for entry in latest))
    if any(amount >= CLOSED for amount in (*spent.amounts().values(), *spent.spent_orders)):
        # A sum that was stopped says nothing of what it was before.
        spent = Totals.of(entry.amounts for entry in _drawn([budget]).filter(sequence__lt=latest[0].sequence))
    start = latest[0].made_at if has_earlier else None
    return _line(budget, budget.name, latest, _grants([budget]).get(budget.pk, []), earlier=spent, start=start)


def _grants(budgets: Sequence[Budget]) -> dict[UUID, list[tuple[int, dict[str, Any]]]]:
    """What each grant of these budgets says, by its number in the ledger. They are few, each by a reviewer's hand."""
    entries = LedgerEntry.objects.filter(budget__in=budgets, kind=EntryKind.GRANT).order_by("sequence")
    found: dict[UUID, list[tuple[int, dict[str, Any]]]] = {}
    for pk, number, detail in entries.values_list("budget", "sequence", "detail"):
        if "epsilon" in detail:
            found.setdefault(pk, []).append((number, detail))
    return found


def _line(
    budget: Budget,
    name: str,
    entries: Sequence[LedgerEntry],
    said: Sequence[tuple[int, dict[str, Any]]],
    *,
    earlier: Totals,
    start: datetime | None,
) -> list[StepPoint]:
    """The points of one budget. Where entries came before, they add up to `earlier`, drawn at `start`.

    Args:
        said: what the budget's grants say, as `_grants` finds it.
    """
    points: list[StepPoint] = []

    def note(at: datetime, sequence: int, *, is_start: bool) -> None:
        of = [detail for number, detail in said if number <= sequence]
        epsilon, delta, is_before = budget.epsilon, budget.delta, budget.keeps_rule_of_before
        if of:
            epsilon, delta, is_before = of[-1]["epsilon"], of[-1]["delta"], bool(of[-1]["caps"].get("rho"))
        used = per_cent(share_of(total, caps_granted(budget.policy, epsilon, delta, is_before=is_before)))
        points.append(StepPoint(budget=name, at=at, used=used, of=epsilon, is_start=is_start))

    total = earlier
    if start is not None and entries:
        note(start, entries[0].sequence - 1, is_start=True)
    pending: list[Totals] = []
    for entry, following in zip_longest(entries, entries[1:]):
        pending.append(entry.amounts)
        is_grant = entry.kind == EntryKind.GRANT
        if is_grant or _ends_a_day(entry, following):
            total = Totals.of([total, *pending])
            pending.clear()
            note(entry.made_at, entry.sequence, is_start=is_grant and start is None and entry is entries[0])
    return points


def _ends_a_day(entry: LedgerEntry, following: LedgerEntry | None) -> bool:
    """Whether this is the last entry of its day, or the last before a further grant."""
    if following is None or following.kind == EntryKind.GRANT:
        return True
    return timezone.localdate(entry.made_at) != timezone.localdate(following.made_at)


def _drawn(budgets: Sequence[Budget]) -> ledger.LedgerEntryQuerySet:
    # Again by what they are not: charges that were given back, and what gave them back.
    is_returned = Exists(LedgerEntry.objects.returns())
    return (
        LedgerEntry.objects.filter(~Q(kind=EntryKind.CHARGE) | ~is_returned, budget__in=budgets)
        .exclude(kind__in=[kind for kind in EntryKind if kind not in _DRAWN])
        .with_amounts()
    )


def _told_apart(budgets: Sequence[Budget]) -> dict[UUID, str]:
    """A name for each in a chart: those of one name are numbered."""
    names: dict[UUID, str] = {}
    for budget in sorted(budgets, key=lambda each: (each.created_at, each.pk)):
        alike = sum(name == budget.name or name.startswith(f"{budget.name} (") for name in names.values())
        names[budget.pk] = f"{budget.name} ({alike + 1})" if alike else budget.name
    return names


def places(budgets: Sequence[Budget]) -> dict[str, int]:
    """Each budget's name in a chart, and its place among all budgets by age: its colour, whatever else is shown."""
    older = Budget.objects.filter(created_at__lt=OuterRef("created_at")).order_by().annotate(all=Value(1)).values("all")
    count = Subquery(older.annotate(number=Count("pk")).values("number"))
    numbers = dict(Budget.objects.filter(pk__in=[each.pk for each in budgets]).values_list("pk", count))
    return {name: numbers[pk] or 0 for pk, name in _told_apart(budgets).items()}


# --- tighter figures ------------------------------------------------------------------------------------------------

#: What each composition is called; whose theorem it is stands beside it in small print.
_COMPOSITIONS = {
    "summed": "Epsilons and rhos added up",
    "renyi": "Rényi divergences added up",
    "exact_gaussian": "Gaussian noise, composed exactly",
    "exact_pure": "Equal epsilons, composed exactly",
    "loss_distribution": "Privacy losses, composed numerically",
}
_NAMES = {rule.source: _COMPOSITIONS[name] for name, rule in tight_composition.PLANNING_RULES.items()}


@dataclass(frozen=True, kw_only=True)
class Tighter:
    """A figure that holds only if everything had been fixed before the first release.

    Attributes:
        amounts: epsilon, and delta.
        name: how it was composed, in words.
        source: whose theorem it is.
    """

    amounts: tuple[Fraction, Fraction]
    name: str
    source: str

    @property
    def stated(self) -> str:
        """Epsilon and delta in words."""
        return guarantee_text(*self.amounts)


#: Compositions worked out by this process, by budget and its ledger's last hash: they take up to a second each.
_worked_out: dict[tuple[UUID, str], list[Tighter]] = {}
_MAX_KEPT = 4096


def tighter(budget: Budget) -> list[Tighter]:
    """Compositions of all that was charged, the least epsilon first; empty where none is proved or it is too much."""
    work_out([budget])
    return known_tighter(budget) or []


def known_tighter(budget: Budget) -> list[Tighter] | None:
    """The same, where it was worked out before; else None."""
    return [] if not budget.sequence else _worked_out.get((budget.pk, budget.head))


def work_out(budgets: Iterable[Budget]) -> None:
    """Compose what was charged to each budget, and keep it. Two queries for all of them."""
    wanted = {budget.pk: budget for budget in budgets if known_tighter(budget) is None}
    charges = LedgerEntry.objects.charges_that_stand().filter(budget__in=wanted)
    numbers = dict(charges.order_by().values_list("budget").annotate(Count("pk")))
    few = [pk for pk in wanted if numbers.get(pk, 0) <= _MAX_EVENTS]
    events: dict[UUID, list[Event]] = {}
    for entry in charges.filter(budget__in=few).order_by("sequence"):
        events.setdefault(entry.budget_id, []).extend(event_from_json(each) for each in entry.detail["events"])
    if len(_worked_out) + len(wanted) > _MAX_KEPT:
        _worked_out.clear()
    for pk, budget in wanted.items():
        _worked_out[pk, budget.head] = _composed(budget, events.get(pk, []))


def _composed(budget: Budget, events: Sequence[Event]) -> list[Tighter]:
    if not events or len(events) > _MAX_EVENTS:
        return []
    delta = exact(budget.delta or "0", field="delta")
    try:
        figures = tight_composition.planned(events, delta=delta, neighbours=budget.relation)
    except EngineError:
        return []
    return [
        Tighter(
            amounts=(each.epsilon, each.delta),
            name=_NAMES[each.source],
            source=each.source.removesuffix(" (accountant.price)"),
        )
        for each in figures
    ]
