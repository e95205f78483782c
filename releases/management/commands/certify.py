"""`manage.py certify`: how far a published release is from the truth at most, without a browser."""

from __future__ import annotations

import sys
import uuid
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from releases import services
from releases.engine.errors import EngineError
from releases.engine.workload.kinds.largest_error import MEANS
from releases.ledger import refusals
from releases.management.commands.release import OVER_BUDGET, the_operator, write_out
from releases.management.database import ensure_database
from releases.models import Release, ReleaseState
from releases.worker import runner


class Command(BaseCommand):
    help = "Certify a published release of counts: measure its largest error with noise, as a release of its own."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("release", type=uuid.UUID, help="its identifier, as in its address and its receipt")
        parser.add_argument("--epsilon", required=True, help="what measuring may spend")
        parser.add_argument("--delta", default="0")
        parser.add_argument("--beta", default="0.05", help="1 - confidence of the bound (default 0.05)")
        parser.add_argument("--what", default="", help=f"one of {', '.join(services.release_inputs.CERTIFIABLE)}")
        parser.add_argument(
            "--means",
            nargs="*",
            default=[],
            help=f"mean errors to measure too: {', '.join(MEANS)}; nothing measures none",
        )
        parser.add_argument("--out", type=Path, help="folder for answers.csv, receipt.json and what explains them")

    def handle(self, **options: Any) -> None:
        ensure_database()
        of = Release.objects.select_related("dataset__budget").filter(pk=options["release"]).first()
        if of is None:
            raise CommandError(f"release: {options['release']} is not here.")
        try:
            self._certify(of, options)
        except refusals.InsufficientBudget as error:
            self.stderr.write(str(error))
            sys.exit(OVER_BUDGET)
        except (EngineError, refusals.LedgerRefusal, services.release_inputs.Refusal) as error:
            raise CommandError(str(error)) from None

    def _certify(self, of: Release, options: dict[str, Any]) -> None:
        # What reads the table gets ready meanwhile.
        runner.warm()
        operator = the_operator()
        asked = {name: options[name] for name in ("epsilon", "delta", "beta", "what", "means")}
        certificate = services.certificates.draft_certificate(of=of, by=operator, **asked)
        try:
            charged = services.releases.submit_release(release=certificate, key=uuid.uuid4(), by=operator, send=False)
        except Exception:
            certificate.delete()
            raise
        if charged is None:
            raise CommandError("The certificate waits for a reviewer; it costs more than may pass without one.")
        services.execution.execute_release(release_id=certificate.pk)
        certificate.refresh_from_db()
        if certificate.status is not ReleaseState.PUBLISHED:
            raise CommandError(f"The certificate is {certificate.shown_state}: {certificate.meaning}")
        if options["out"] is not None:
            write_out(certificate, options["out"])
        assert certificate.result is not None
        self.stdout.write(certificate.result["receipt"]["bound"]["sentence"])
