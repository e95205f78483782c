"""`manage.py bench`: what the software costs and reaches here, beside its targets and its peers."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from benchmarks.engine import (
    beside_ours,
    certificates,
    designs,
    estimates,
    filters,
    fit,
    kernels,
    means,
    nist,
    noise,
    orders,
    quantiles,
    replicates,
    session,
    small_groups,
    smalldb,
    wide,
)
from benchmarks.site import bombs, columns, counting, glance, load
from benchmarks.tables import BenchTable

#: A server on this machine, as tests look for it.
POSTGRES = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
#: Where the measurements are written, in the folder given.
FILE = "BENCHMARKS.md"


class Command(BaseCommand):
    help = (
        "Measure noise, fits, kernels, answers, sessions, small databases, tables and pages; prints tables with ratios "
        "and targets."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--only",
            help="one of nist, orders, noise, designs, means, groups, quantiles, replicates, fit, wide, estimates, "
            "kernels, certificates, session, smalldb, filters, tables, load, glance, columns, bombs",
        )
        parser.add_argument("--data", type=Path, help="the folder of NIST's and Adult's tables and the health survey")
        parser.add_argument("--peers", action="store_true", help="fit with mbi beside ours, which takes minutes")
        parser.add_argument("--postgres", metavar="URL", default=POSTGRES, help="of a server, for tables and load")
        parser.add_argument("--processes", type=int, help="of the site under load; by default one, and one a core")
        parser.add_argument("--out", type=Path, help=f"a folder; the tables are written to {FILE} in it")

    def handle(self, **options: Any) -> None:
        made = []
        folder = options["data"] or _usual_folder()
        benchmarks = self._benchmarks(folder, peers=options["peers"])
        benchmarks["tables"] = lambda: counting.tables(options["postgres"])
        benchmarks["load"] = lambda: load.tables(options["postgres"], processes=options["processes"])
        benchmarks["glance"] = glance.tables
        benchmarks["columns"] = columns.tables
        benchmarks["bombs"] = bombs.tables
        benchmarks["groups"] = lambda: small_groups.tables(folder)
        for table in _chosen(benchmarks, options["only"]):
            self.stdout.write(f"{table.text()}\n")
            self.stdout.flush()
            made.append(table)
        if options["out"]:
            options["out"].mkdir(parents=True, exist_ok=True)
            path = options["out"] / FILE
            path.write_text(document(made))
            self.stdout.write(f"Written to {path}.")

    def _benchmarks(self, folder: Path, *, peers: bool) -> dict[str, Callable[[], Iterator[BenchTable]]]:
        return {
            "nist": lambda: nist.tables(folder),
            "orders": orders.tables,
            "noise": noise.tables,
            "designs": lambda: designs.tables(folder),
            "means": lambda: means.tables(folder),
            "quantiles": lambda: quantiles.tables(folder),
            "replicates": lambda: replicates.tables(folder),
            "kernels": kernels.tables,
            "fit": lambda: fit.tables(folder, beside=beside_ours.rows if peers else None),
            "wide": lambda: wide.tables(folder),
            "estimates": lambda: estimates.tables(folder),
            "certificates": lambda: certificates.tables(folder),
            "session": lambda: session.tables(folder),
            "smalldb": lambda: chain(smalldb.tables(), smalldb.nets(folder)),
            "filters": filters.tables,
        }


def _chosen(benchmarks: dict[str, Callable[[], Iterator[BenchTable]]], only: str | None) -> Iterator[BenchTable]:
    if only is not None and only not in benchmarks:
        raise CommandError(f"--only: {only} must be one of {', '.join(benchmarks)}.")
    for name in [only] if only else benchmarks:
        yield from benchmarks[name]()


def document(tables: list[BenchTable]) -> str:
    """The tables as one Markdown file."""
    missed = sum(row.is_met is False for table in tables for row in table.rows)
    met = sum(row.is_met is True for table in tables for row in table.rows)
    head = (
        "# Benchmarks\n\n"
        f"`manage.py bench --out docs`, {timezone.now():%B %Y}, on {machine()}. Times are of the processor. "
        f"{met} targets met, {missed} missed.\n"
    )
    return "\n\n".join([head.strip(), *(table.markdown() for table in tables)]) + "\n"


def machine() -> str:
    """The kind of machine, and how busy it was: nothing that says which one."""
    cores = os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    load = os.getloadavg()[0]
    return f"{cores} cores and {memory:.0f} GiB of memory (load {load:.1f} at the end)"


def _usual_folder() -> Path:
    return Path(settings.BASE_DIR).parent / "shared" / "data"
