"""`manage.py audit`: verify every ledger from its entries alone."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from releases import ledger
from releases.models import Budget


class Command(BaseCommand):
    help = "Verify hashes, sums, prices, caps and marks of every budget's ledger; status 1 if anything disagrees."

    def handle(self, **options: Any) -> None:
        budgets = entries = 0
        faults: list[ledger.Fault] = []
        for budget in Budget.objects.order_by("created_at"):
            budgets += 1
            entries += budget.entries.count()
            faults.extend(ledger.verify(budget))
        for fault in faults:
            where = f"entry {fault.sequence}" if fault.sequence else "budget"
            self.stderr.write(f"{fault.budget}, {where}: {fault.what}")
        if faults:
            raise CommandError(f"{len(faults)} faults in {entries} entries of {budgets} budgets.")
        self.stdout.write(f"{entries} entries of {budgets} budgets verified: chain, sums, prices, caps, marks.")
