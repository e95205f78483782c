"""What a dataset's page says of its budget, in the currency of all pages."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from releases.engine.accounting.accountant import Price
from releases.ledger import reports
from releases.ledger.balances import caps_of
from releases.models import Budget, Dataset, share_of
from releases.planning import leaves


def more_like_the_latest(datasets: Sequence[Dataset]) -> dict[UUID, str]:
    """By table about how many more releases like the newest finished one fit; without those of which none was charged,
    or none can be."""
    open_ones = {each.pk: each.budget for each in datasets if each.budget is not None and _is_open(each.budget)}
    latest = reports.latest_charged(each for each in datasets if each.pk in open_ones)
    return {key: _in_words(open_ones[key], *found) for key, found in latest.items()}


def _is_open(budget: Budget) -> bool:
    return budget.is_granted and not budget.is_frozen


def _in_words(budget: Budget, title: str, price: Price) -> str:
    more = leaves.more_now(budget, price)
    text = more.text(like=f"“{title}”")
    is_used_up = share_of(budget.totals, caps_of(budget)) >= 1
    return f"{text[:1].upper()}{text[1:]}. {'' if more.number or is_used_up else more.runs_out}".rstrip()
