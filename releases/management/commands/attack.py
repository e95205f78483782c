"""`manage.py attack`: what a published attack finds out about people from synthetic rows, tried on invented tables."""

from __future__ import annotations

import uuid
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from releases.engine.errors import EngineError
from releases.management.database import ensure_database
from releases.models import Release
from releases.publication.attacked_release import attack_release
from releases.publication.disclosure import DISCLOSURE_TEST


class Command(BaseCommand):
    help = (
        "Test a published release by an attack: run its plan on invented tables, guess hidden answers of invented "
        "people from the synthetic rows, and show on its page how much it helps to be in the table. It reads no "
        "dataset, and no budget is spent."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("release", type=uuid.UUID, help="its identifier, as in its address and its receipt")

    def handle(self, **options: Any) -> None:
        ensure_database()
        release = Release.objects.filter(pk=options["release"]).first()
        if release is None:
            raise CommandError(f"release: {options['release']} is not here.")
        try:
            found = attack_release(release, progress=lambda step, share: self.stdout.write(f"{step} …"))
        except EngineError as error:
            raise CommandError(str(error)) from None
        everybody = found["everybody"]
        inside, outside, more, margin = (
            f"{100 * everybody[name]:.1f}" for name in ("inside", "outside", "difference", "margin")
        )
        self.stdout.write(
            f"Right guesses in 100 tries: {inside} of people in the table, {outside} of others; {more} more, "
            f"give or take {margin}. Epsilon allows at most {100 * found['allowed']:.1f} more."
        )
        self.stdout.write(f"{DISCLOSURE_TEST} is beside the files of the release, and its page shows it.")
