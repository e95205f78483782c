"""`manage.py published`: synthetic rows from tables that somebody else published. It reads no dataset."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from releases.engine.domain.schema import Schema
from releases.engine.errors import EngineError
from releases.publication.published_rows import README, ROWS, lines_of, published_rows


class Command(BaseCommand):
    help = "Make synthetic rows from published tables of counts: no person's record is read, and no budget spent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--schema",
            type=Path,
            help="of the columns, format version 1; without it, each has the values that the tables list",
        )
        parser.add_argument(
            "--table", type=Path, action="append", required=True, help="CSV: up to three columns, then count"
        )
        parser.add_argument(
            "--deviation", type=float, default=0.0, help="of the noise on each count, as its publisher states it"
        )
        parser.add_argument("--rows", type=int, help="how many rows; as many as the tables count where not given")
        parser.add_argument("--out", type=Path, required=True, help=f"folder for {ROWS} and {README}")

    def handle(self, **options: Any) -> None:
        schema = options["schema"]
        try:
            made = published_rows(
                {path.name: lines_of(path.name, path.read_bytes()) for path in options["table"]},
                universe=schema and Schema.from_json(json.loads(schema.read_text())).universe,
                deviation=options["deviation"],
                rows=options["rows"],
            )
        except (EngineError, OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        options["out"].mkdir(parents=True, exist_ok=True)
        (options["out"] / ROWS).write_bytes(made.csv)
        (options["out"] / README).write_text(made.readme)
        self.stdout.write(f"{made.table.num_rows:,} rows are in {options['out'] / ROWS}.")
