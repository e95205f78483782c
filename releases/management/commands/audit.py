"""`manage.py audit`: verify every ledger from its entries alone."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from releases import checks, services
from releases.models.append_only import missing
from releases.storage.private_files import open_to_others


class Command(BaseCommand):
    help = (
        "Verify hashes, sums, prices, caps, protection and marks of every budget's ledger, that no release had gone "
        "further than the database knows, stored tables against their digests, and that nobody else can read the "
        "site's files; status 1 if anything disagrees."
    )

    def handle(self, **options: Any) -> None:
        if inside := checks.marks_inside_the_data():
            self.stderr.write(f"Warning: {inside}")
        services.reapplying.notice_restored()
        outside = [*services.stored_tables.faults(), *(f"{path}: others can read it" for path in open_to_others())]
        outside += [f"{name}: this trigger, which keeps rows as they are, is gone" for name in missing(connection)]
        for each in outside:
            self.stderr.write(each)
        verified = services.organisation.verify_ledgers(by=None)
        for fault in verified.faults:
            where = f"entry {fault.sequence}" if fault.sequence else "budget"
            self.stderr.write(f"{fault.budget}, {where}: {fault.what}")
        if verified.faults:
            raise CommandError(
                f"{len(verified.faults)} faults in {verified.entries} entries of {verified.budgets} budgets."
            )
        if outside:
            raise CommandError(f"{len(outside)} faults in tables and files; the ledger has none.")
        self.stdout.write(
            f"{verified.entries} entries of {verified.budgets} budgets verified: chain, sums, prices, caps, "
            f"protection, marks; and stored tables and the modes of files."
        )
