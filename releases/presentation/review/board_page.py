"""The budget board: what privacy is gone of each budget, and to whom it went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.core.paginator import Page
from django.db.models import QuerySet
from django.urls import reverse

from releases.ledger import reports
from releases.ledger.reports import BudgetBalance
from releases.models import Budget, BudgetAlert, LedgerEntry
from releases.presentation.review.charges import ChargesByName, SpendingChart, charges_by_name, spending_chart

#: Curves in one chart, people and mechanisms in one table: more cannot be told apart.
_MAX_CURVES, _MAX_USES = 6, 20


@dataclass(frozen=True, kw_only=True, slots=True)
class Alert:
    """That much of a budget is spent, and since when."""

    budget: str
    address: str
    used: str
    since: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardRow:
    """One budget.

    Attributes:
        strict: the sum that its rule keeps.
        after: what holds for what was released, described afterwards; empty until it is worked out.
        after_by: the theorem that says so, where it is not that of the rule.
    """

    name: str
    address: str
    is_frozen: bool
    owner: str
    balance: BudgetBalance
    strict: str
    after: str
    after_by: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardTable:
    """The budgets of one page.

    Attributes:
        is_more_to_work_out: what takes a while comes after the page.
    """

    rows: tuple[BoardRow, ...]
    is_more_to_work_out: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardPage:
    """The board under its filters.

    Attributes:
        none: why there are no rows.
        download: the address of all budgets under the filters as CSV.
        left_out: what the charges by name leave out.
    """

    alerts: tuple[Alert, ...]
    table: BoardTable
    none: str
    download: str
    charges: tuple[ChargesByName, ...]
    left_out: str
    spending: SpendingChart | None


def board_table(budgets: Iterable[Budget]) -> BoardTable:
    rows = tuple(map(_row, reports.standings(budgets)))
    return BoardTable(rows=rows, is_more_to_work_out=not all(each.after for each in rows))


def board_page(
    budgets: Page[Budget],
    charges: QuerySet[LedgerEntry],
    alerts: Iterable[BudgetAlert],
    *,
    filters: str,
    **dates: datetime | None,
) -> BoardPage:
    """
    Args:
        budgets: those of one page; `charges` and `alerts` all that the filters choose.
        filters: as they stand in an address; empty where there are none.
        dates: `since` and `until`, of the chart.
    """
    table = board_table(budgets)
    busiest = sorted((each.balance for each in table.rows), key=lambda each: each.used, reverse=True)[:_MAX_CURVES]
    drawn = [each.budget for each in busiest if each.used]
    people, mechanisms = reports.uses(charges)
    return BoardPage(
        alerts=tuple(map(_alert, alerts)),
        table=table,
        none="No budget fits the filters." if filters else "No budgets yet.",
        download=reverse("board_csv") + (f"?{filters}" if filters else ""),
        charges=charges_by_name(people[:_MAX_USES], mechanisms[:_MAX_USES]),
        left_out=f"Without charges that were given back{', under the filters' if filters else ''}.",
        spending=spending_chart(reports.steps(drawn, **dates) if drawn else [], drawn, until=dates["until"]),
    )


def _row(standing: BudgetBalance) -> BoardRow:
    budget, tighter = standing.budget, standing.tighter
    without = standing.after_the_fact or "–" if standing.is_worked_out else ""
    return BoardRow(
        name=budget.name,
        address=reverse("budget_detail", args=[budget.pk]),
        is_frozen=budget.is_frozen,
        owner=str(budget.owner),
        balance=standing,
        strict=standing.strict or "–",
        after=tighter.stated if tighter else without,
        after_by=tighter.name if tighter else "",
    )


def _alert(alert: BudgetAlert) -> Alert:
    return Alert(
        budget=alert.budget.name,
        address=reverse("budget_detail", args=[alert.budget_id]),
        used="all of it" if alert.percent == 100 else f"{alert.percent}% or more",
        since=alert.raised_at,
    )
