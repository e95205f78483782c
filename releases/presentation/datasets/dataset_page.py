"""What a dataset's page says of its budget, in the currency of all pages."""

from __future__ import annotations

from releases.ledger import reports
from releases.ledger.balances import caps_of
from releases.models import Dataset, share_of
from releases.planning import leaves


def more_like_the_latest(dataset: Dataset) -> str:
    """About how many more releases like the newest finished one fit; empty where none was charged, or none can be."""
    budget = dataset.budget
    if budget is None or not budget.is_granted or budget.is_frozen:
        return ""
    latest = reports.latest_charged(dataset)
    if latest is None:
        return ""
    title, price = latest
    more = leaves.more_now(budget, price)
    text = more.text(like=f"“{title}”")
    is_used_up = share_of(budget.totals, caps_of(budget)) >= 1
    return f"{text[:1].upper()}{text[1:]}. {'' if more.number or is_used_up else more.runs_out}".rstrip()
