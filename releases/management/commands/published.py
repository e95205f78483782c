"""`manage.py published`: synthetic rows from tables that somebody else published. It reads no dataset."""

from __future__ import annotations

import csv
import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from pyarrow import csv as arrow_csv

from releases.engine.domain.universe import Schema
from releases.engine.errors import EngineError
from releases.engine.estimation.published import PublishedTable, fit_published
from releases.engine.estimation.synthetic import most_rows, synthetic_records
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.publication.files import synthetic_table

ROWS, README = "synthetic.csv", "README.txt"


class Command(BaseCommand):
    help = "Make synthetic rows from published tables of counts: no person's record is read, and no budget spent."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--schema", type=Path, required=True, help="of the columns, format version 1")
        parser.add_argument(
            "--table", type=Path, action="append", required=True, help="CSV: up to three columns, then count"
        )
        parser.add_argument(
            "--deviation", type=float, default=0.0, help="of the noise on each count, as its publisher states it"
        )
        parser.add_argument("--rows", type=int, help="how many rows; as many as the tables count where not given")
        parser.add_argument("--out", type=Path, required=True, help=f"folder for {ROWS} and {README}")

    def handle(self, **options: Any) -> None:
        try:
            universe = Schema.from_json(json.loads(options["schema"].read_text())).universe
            tables = [PublishedTable.read(path.name, _lines(path), universe) for path in options["table"]]
            rng = OperatingSystemRandomness()
            distribution, total = fit_published(universe, tables, deviation=options["deviation"], rng=rng)
        except (EngineError, OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        rows = round(total) if options["rows"] is None else options["rows"]
        if not 1 <= rows <= most_rows(universe):
            raise CommandError(f"rows: {rows:,} must be 1 to {most_rows(universe):,}.")
        records = synthetic_records(universe, distribution, rows=rows, rng=rng)
        options["out"].mkdir(parents=True, exist_ok=True)
        told = universe.project(records.columns)
        arrow_csv.write_csv(synthetic_table(told, records), options["out"] / ROWS)
        (options["out"] / README).write_text(_readme(tables, rows))
        self.stdout.write(f"{rows:,} rows are in {options['out'] / ROWS}.")


def _lines(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def _readme(tables: list[PublishedTable], rows: int) -> str:
    listed = "\n".join(f"- {table.source}: {' x '.join(table.names)}" for table in tables)
    return (
        f"{rows:,} synthetic rows, made from published tables of counts alone:\n\n{listed}\n\n"
        "No row is a person, and no person's record was read. Nothing is promised about people: whatever the published "
        "tables tell about somebody, these rows tell too. What no table counts together is independent in the rows, "
        "as far as the tables allow.\n"
    )
