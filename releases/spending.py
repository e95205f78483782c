"""What has been spent, read from the ledger for the pages of reviewers. Nothing here decides anything.

Two figures stand side by side there. The strict one is what the filter adds up; it decides, and holds however the
releases were chosen. The one after the fact describes what happened to be released; it is smaller, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from uuid import UUID

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value

from releases.charts import StepPoint
from releases.engine import filters, planning
from releases.engine.accountant import DELTA_PLACES, EPSILON_PLACES, Price
from releases.engine.errors import EngineError, InvalidInput, Unpriceable
from releases.engine.events import Event, event_from_json
from releases.engine.filters import CLOSED, Caps, Policy, Totals
from releases.engine.mechanisms.base import mechanism
from releases.engine.privacy import decimal_text, exact
from releases.models import Budget, EntryKind, LedgerEntry, ReleaseState, share_of

#: Charged, but no data touched for certain, or nothing published yet.
_IN_FLIGHT = (ReleaseState.QUEUED, ReleaseState.RUNNING)
#: Entries that a chart of what is used shows or begins with.
_DRAWN = (EntryKind.CHARGE, EntryKind.RESTORE, EntryKind.GRANT)
#: Sums over many entries are in 10^-6 of epsilon, each rounded up, so that they stay within 64 bits.
_MICRO = 10**6
#: More events than this are not composed while somebody waits for a page.
_MOST_EVENTS = 500


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A budget in numbers.

    Attributes:
        spent, reserved, left: in per cent of the budget; they add up to 100.
        left_text: the largest epsilon of one more release without a delta.
        strict: what the filter adds up.
    """

    budget: Budget
    spent: float = 0.0
    reserved: float = 0.0
    left: float = 0.0
    left_text: str = ""
    strict: str = ""

    @property
    def used(self) -> float:
        return round(self.spent + self.reserved, 1)

    @property
    def spent_text(self) -> str:
        """The strict total without the word epsilon before it."""
        return "0" if self.strict == "nothing" else self.strict.removeprefix("epsilon ")

    @property
    def after_the_fact(self) -> str:
        """What holds for what was released, described afterwards; empty where nothing is proved."""
        budget = self.budget
        if not budget.is_granted:
            return ""
        return _after_the_fact(budget.totals, _caps(budget.policy, budget.epsilon, budget.delta))

    @property
    def tighter(self) -> Tighter | None:
        """The least composition, where it was worked out before."""
        known = known_tighter(self.budget)
        return known[0] if known else None

    @property
    def in_words(self) -> str:
        return f"{self.spent}% spent, {self.reserved}% reserved, {self.left}% left of {self.budget.name}"


def standings(budgets: Iterable[Budget]) -> list[Standing]:
    """The board's rows; one query for all of them."""
    budgets = list(budgets)
    reserved: dict[UUID, list[Totals]] = {}
    # By what they are not: a search by kind would go through the charges of all budgets.
    waiting = LedgerEntry.objects.filter(budget__in=budgets, release__state__in=_IN_FLIGHT).exclude(
        kind__in=[kind for kind in EntryKind if kind != EntryKind.CHARGE]
    )
    for entry in waiting.only("budget", "epsilon", "delta", "rho", "rho_delta"):
        reserved.setdefault(entry.budget_id, []).append(_amounts(entry))
    return [_standing(budget, Totals.of(reserved.get(budget.pk, []))) for budget in budgets]


def _standing(budget: Budget, reserved: Totals) -> Standing:
    if not budget.is_granted:
        return Standing(budget=budget)
    caps, spent = _caps(budget.policy, budget.epsilon, budget.delta), budget.totals
    # A sum that was stopped at CLOSED stays there: subtraction cannot undo it.
    settled = Totals(
        **{
            name: amount if amount >= CLOSED else max(0, amount - getattr(reserved, name))
            for name, amount in spent.columns().items()
        }
    )
    used, done = _percent(share_of(spent, caps)), _percent(share_of(settled, caps))
    return Standing(
        budget=budget,
        spent=done,
        reserved=round(used - done, 1),
        left=round(100 - used, 1),
        left_text=_left(spent, caps),
        strict=_strict(spent),
    )


@lru_cache(maxsize=4096)
def _caps(policy: str, epsilon: str, delta: str) -> Caps:
    """A budget's caps. Their conversion takes longer than a page may, and there are few different budgets."""
    return Caps.of(Policy(policy), epsilon=exact(epsilon, field="epsilon"), delta=exact(delta or "0", field="delta"))


@lru_cache(maxsize=4096)
def _left(spent: Totals, caps: Caps) -> str:
    # Rounded down: what is shown must fit.
    return decimal_text(Fraction(filters.remaining(spent, caps).pure_epsilon // _MICRO, 10**EPSILON_PLACES // _MICRO))


@lru_cache(maxsize=4096)
def _after_the_fact(spent: Totals, caps: Caps) -> str:
    if spent == Totals():
        return ""
    try:
        stated = filters.report(spent, caps)
    except Unpriceable:
        return ""
    return guarantee_text(stated.epsilon, stated.delta)


def _strict(spent: Totals) -> str:
    """What the filter has added up, in the form that is still open."""
    if spent == Totals():
        return "nothing"
    if spent.spent_epsilon < CLOSED:
        return guarantee_text(
            Fraction(spent.spent_epsilon, 10**EPSILON_PLACES), Fraction(spent.spent_delta, 10**DELTA_PLACES)
        )
    return f"rho {decimal_text(Fraction(spent.spent_rho, 10**EPSILON_PLACES), places=6)}"


def after(budget: Budget, price: Price) -> Standing | None:
    """Where a budget would stand after one more release; None where it does not fit."""
    if not budget.is_granted:
        return None
    caps = _caps(budget.policy, budget.epsilon, budget.delta)
    if not filters.admits(budget.totals, price, caps):
        return None
    more = budget.totals.plus(filters.amounts(price, policy=caps.policy))
    used = _percent(share_of(more, caps))
    return Standing(budget=budget, spent=used, left=round(100 - used, 1), left_text=_left(more, caps))


def guarantee_text(epsilon: Fraction, delta: Fraction) -> str:
    said = f"epsilon {decimal_text(epsilon, places=6)}"
    return f"{said}, delta {decimal_text(delta, places=DELTA_PLACES)}" if delta else said


def _percent(share: Fraction) -> float:
    return round(float(100 * share), 1)


def _amounts(entry: LedgerEntry) -> Totals:
    return Totals(
        spent_epsilon=entry.epsilon,
        spent_delta=entry.delta,
        spent_rho=entry.rho,
        spent_rho_delta=entry.rho_delta,
    )


# --- charges that stand ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Use:
    """What one person, or one mechanism, was charged. Epsilons of different populations add up to no promise."""

    name: str
    releases: int
    epsilon: str


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


@dataclass
class _Sum:
    """Releases, and their epsilon in 10^-6; None while none of them had one."""

    releases: int = 0
    micro: int | None = None

    def add(self, releases: int, micro: int | None) -> None:
        self.releases += releases
        if micro is not None:
            self.micro = micro + (self.micro or 0)


def _in_order(sums: dict[str, _Sum]) -> list[Use]:
    listed = sorted(sums.items(), key=lambda item: (-item[1].releases, item[0]))
    return [
        Use(
            name=name,
            releases=each.releases,
            epsilon="no such form" if each.micro is None else decimal_text(Fraction(each.micro, _MICRO)),
        )
        for name, each in listed
    ]


def _title(name: str) -> str:
    try:
        return mechanism(name).title
    except InvalidInput:
        return name


def steps(budgets: Sequence[Budget], *, since: datetime | None, until: datetime | None) -> list[StepPoint]:
    """How much of each budget was used after each charge and each further grant, in per cent of what was granted then.

    Each begins with what was used when it was granted, which is nothing, or when the dates begin.
    """
    is_returned = Exists(LedgerEntry.objects.filter(release=OuterRef("release"), kind=EntryKind.RETURN))
    # Again by what they are not: charges that were given back, and what gave them back.
    entries = (
        LedgerEntry.objects.filter(~Q(kind=EntryKind.CHARGE) | ~is_returned, budget__in=budgets)
        .exclude(kind__in=[kind for kind in EntryKind if kind not in _DRAWN])
        .defer("detail")
        .order_by("budget", "sequence")
    )
    granted = {budget.pk: budget for budget in budgets if budget.is_granted}
    names = _told_apart(list(granted.values()))
    sums: dict[UUID, Totals] = {}
    points: list[StepPoint] = []
    grants = LedgerEntry.objects.filter(budget__in=budgets, kind=EntryKind.GRANT)
    said = dict(grants.order_by().values_list("pk", "detail"))
    amounts: dict[UUID, tuple[str, str]] = {}

    def note(budget: Budget, at: datetime, *, is_start: bool = False) -> None:
        epsilon, delta = amounts.get(budget.pk, (budget.epsilon, budget.delta))
        used = _percent(share_of(sums[budget.pk], _caps(budget.policy, epsilon, delta)))
        points.append(StepPoint(budget=names[budget.pk], at=at, used=used, of=epsilon, is_start=is_start))

    begun: set[UUID] = set()
    for entry in entries:
        budget = granted.get(entry.budget_id)
        if budget is None or (until is not None and entry.made_at > until):
            continue
        is_before = since is not None and entry.made_at < since
        if since is not None and not is_before and budget.pk in sums and budget.pk not in begun:
            begun.add(budget.pk)
            note(budget, since, is_start=True)
        is_first = budget.pk not in sums
        sums[budget.pk] = sums.get(budget.pk, Totals()).plus(_amounts(entry))
        if "epsilon" in (detail := said.get(entry.pk, {})):
            amounts[budget.pk] = detail["epsilon"], detail["delta"]
        if is_before:
            continue
        if is_first and entry.kind == EntryKind.GRANT:
            begun.add(budget.pk)
        note(budget, entry.made_at, is_start=is_first and entry.kind == EntryKind.GRANT)
    return points


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
_NAMES = {rule.source: _COMPOSITIONS[name] for name, rule in planning.PLANNING_RULES.items()}


@dataclass(frozen=True, kw_only=True)
class Tighter:
    """A figure that holds only if everything had been fixed before the first release.

    Attributes:
        stated: epsilon, and delta.
        name: how it was composed, in words.
        source: whose theorem it is.
    """

    stated: str
    name: str
    source: str


#: Compositions worked out by this process, by budget and its ledger's last hash: they take up to a second each.
_worked_out: dict[tuple[UUID, str], list[Tighter]] = {}
_MOST_KEPT = 4096


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
    few = [pk for pk in wanted if numbers.get(pk, 0) <= _MOST_EVENTS]
    events: dict[UUID, list[Event]] = {}
    for entry in charges.filter(budget__in=few).order_by("sequence"):
        events.setdefault(entry.budget_id, []).extend(event_from_json(each) for each in entry.detail["events"])
    if len(_worked_out) + len(wanted) > _MOST_KEPT:
        _worked_out.clear()
    for pk, budget in wanted.items():
        _worked_out[pk, budget.head] = _composed(budget, events.get(pk, []))


def _composed(budget: Budget, events: Sequence[Event]) -> list[Tighter]:
    if not events or len(events) > _MOST_EVENTS:
        return []
    delta = exact(budget.delta or "0", field="delta")
    try:
        figures = planning.planned(events, delta=delta, neighbours=budget.relation)
    except EngineError:
        return []
    return [
        Tighter(
            stated=guarantee_text(each.epsilon, each.delta),
            name=_NAMES[each.source],
            source=each.source.removesuffix(" (accountant.price)"),
        )
        for each in figures
    ]
