"""`manage.py backup TARGET`: the database and the files that it names, never the marks."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from releases.management import backups


class Command(BaseCommand):
    help = "Write a backup of the database, the tables and the results into a new folder; the site may go on meanwhile."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("target", type=Path, help="a folder that is not there yet, outside of DATA_DIR")

    def handle(self, **options: Any) -> None:
        backups.make(options["target"])
        self.stdout.write(
            f"Written to {options['target']}. Not in it: the marks (MARKS_DIR), which no backup may take back, and the "
            f"keys (SECRET_KEY, DIGEST_KEY), without which it is of little use. Keep both safe by themselves."
        )
