"""`manage.py audit`: verify every ledger from its entries alone."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from releases import services


class Command(BaseCommand):
    help = "Verify hashes, sums, prices, caps and marks of every budget's ledger; status 1 if anything disagrees."

    def handle(self, **options: Any) -> None:
        verified = services.verify_ledgers(by=None)
        for fault in verified.faults:
            where = f"entry {fault.sequence}" if fault.sequence else "budget"
            self.stderr.write(f"{fault.budget}, {where}: {fault.what}")
        if verified.faults:
            raise CommandError(
                f"{len(verified.faults)} faults in {verified.entries} entries of {verified.budgets} budgets."
            )
        self.stdout.write(
            f"{verified.entries} entries of {verified.budgets} budgets verified: chain, sums, prices, caps, marks."
        )
