"""Alerts: that half, four fifths or all of a budget is spent, said once on the page and once by e-mail.

raise_alerts   in the transaction of a charge: one row for each threshold passed
send_waiting   after the commit, and again by every worker: claims each row and sends its e-mail
"""

from __future__ import annotations

import logging
from fractions import Fraction

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.utils import timezone

from releases.models import Budget, BudgetAlert, Organisation

logger = logging.getLogger(__name__)

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
        # One large release may pass several; one e-mail, about the last of them, is enough.
        BudgetAlert.objects.filter(pk__in=[alert.pk for alert in new[:-1]]).update(sent_at=timezone.now())
        transaction.on_commit(send_waiting)


def send_waiting() -> int:
    """Send the e-mail of every alert that nobody has sent yet; returns how many were sent."""
    sent = 0
    for alert in BudgetAlert.objects.filter(sent_at=None).select_related("budget__owner"):
        # Claimed before it is sent: two workers send one e-mail.
        waiting = BudgetAlert.objects.filter(pk=alert.pk, sent_at=None)
        if waiting.update(sent_at=timezone.now()) != 1:
            continue
        try:
            sent += _send(alert)
        except OSError as error:
            BudgetAlert.objects.filter(pk=alert.pk).update(sent_at=None)
            # Nobody waits for a mail server that is away; the next round of a worker tries again.
            logger.warning("alert %s could not be sent (%s)", alert.pk, type(error).__name__)
            break
    return sent


def _send(alert: BudgetAlert) -> bool:
    budget = alert.budget
    people = sorted({address for address in (*Organisation.current().addresses, budget.owner.email) if address})
    if not people:
        return False
    spent = "The budget is spent" if alert.percent == 100 else f"{alert.percent}% of the budget is spent"
    text = (
        f"{spent}: {budget.name}, epsilon {alert.epsilon} in all.\n\n"
        f"Spent budget never comes back. A reviewer can grant more, or freeze what is left.\n"
    )
    send_mail(f"{spent}: {budget.name}".replace("\n", " "), text, settings.DEFAULT_FROM_EMAIL, people)
    return True
