"""`manage.py restore SOURCE`: put a backup in the place of what stands; the marks stay as they are."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from releases.management import backups


class Command(BaseCommand):
    help = "Put back a backup that `backup` has made. Stop the site and all workers first."
    #: The database need not be migrated: what stands in it is about to go.
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("source", type=Path, nargs="?", help="the folder of a backup")
        parser.add_argument(
            "--by-hand",
            action="store_true",
            help="copy nothing: a backup was put back by other means, so say that it was",
        )
        parser.add_argument(
            "--discard-newer", action="store_true", help="lose what was done here after the backup was made"
        )

    def handle(self, **options: Any) -> None:
        if (options["source"] is None) != options["by_hand"]:
            raise CommandError("Name either the folder of a backup, or --by-hand.")
        if not options["by_hand"]:
            backups.put_back(options["source"], discard_newer=options["discard_newer"])
        backups.note_restored()
        self.stdout.write(
            "Put back. All sign-ins and tokens have ended. Now run migrate, and then audit: it names what was charged, "
            "begun or published after the backup was made. Nothing is run, asked or charged until a reviewer has "
            "looked at the page Backups."
        )
