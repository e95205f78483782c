"""Alerts: that half, four fifths or all of a budget is spent, said once on the page and once by e-mail."""

from __future__ import annotations

from fractions import Fraction

from releases.models import Budget, BudgetAlert, Dataset, Organisation
from releases.notifications import messages

#: What counts as all: in the concentrated form prices are rounded up to caps that are rounded down, so the last unit
#: may never be reached. 99.95% is what pages show as 100.0%.
ALL = Fraction(9995, 10_000)
THRESHOLDS = {50: Fraction(1, 2), 80: Fraction(4, 5), 100: ALL}


def raise_alerts(budget: Budget) -> None:
    """Note which thresholds a budget has passed since it was last granted; each is noted once.

    Called inside the transaction that spends, so a charge and its alert are there together or not at all.
    """
    budget.refresh_from_db()
    used = budget.share_used
    passed = [percent for percent, share in THRESHOLDS.items() if used >= share]
    new = [
        alert
        for alert, is_new in (
            BudgetAlert.objects.get_or_create(budget=budget, percent=percent, epsilon=budget.epsilon)
            for percent in passed
        )
        if is_new
    ]
    if new:
        # One large release may pass several; one notice, about the last of them, is enough.
        _tell(new[-1])


def _tell(alert: BudgetAlert) -> None:
    budget = alert.budget
    spent = "The budget is spent" if alert.percent == 100 else f"At least {alert.percent}% of the budget is spent"
    dataset = Dataset.objects.of_population(budget).filter(owner=budget.owner).only("pk").first()
    organisation = Organisation.current()
    title = f"{spent}: {budget.name}"
    text = (
        f"{title}. {float(100 * budget.share_used):.1f}% of epsilon {alert.epsilon} in all.\n\n"
        "Spent budget never comes back. A reviewer can grant more, or freeze what is left."
    )
    # Each is led to a page of theirs: who reviews and owns it too, to the owner's.
    reviewers = [each for each in organisation.deciders.order_by("pk") if each.pk != budget.owner_id]
    own = f"/datasets/{dataset.pk}/" if dataset is not None else "/datasets/"
    known = {each.email for each in [budget.owner, *reviewers]}
    others = [address for address in organisation.addresses if address not in known]
    messages.tell([budget.owner], title=title, text=text, path=own)
    messages.tell(reviewers, title=title, text=text, path=f"/review/budgets/{budget.pk}/", addresses=others)
