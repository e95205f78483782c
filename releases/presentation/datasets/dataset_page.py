"""What a dataset's page says of its budget, in the currency of all pages."""

from __future__ import annotations

from releases.ledger import reports
from releases.models import Dataset
from releases.planning import comparison


def more_like_the_latest(dataset: Dataset) -> str:
    """About how many more releases like the newest finished one fit; empty where none was charged, or none can be."""
    budget = dataset.budget
    if budget is None or not budget.is_granted or budget.is_frozen:
        return ""
    latest = reports.latest_charged(dataset)
    if latest is None:
        return ""
    title, price = latest
    left = comparison.left_now(budget, price, like=f"“{title}”")
    more = f"{left.more_text[:1].upper()}{left.more_text[1:]}."
    return f"{more} {left.why_no_more}".strip()
