"""`manage.py test`: pytest over everything that can run on this machine, over what a change can touch, or over the
contracts alone."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand

#: What `--fast` runs: the rules of the code, and of every part the tests that hold all of its members to one contract.
#: Tests marked `slow` are left out.
CONTRACTS = [
    # Imports, style, vendored files, locked packages, and the list of mistakes that the tests notice.
    "tests/test_code.py",
    "tests/test_lock.py",
    "tests/test_mutations.py",
    # The engine: numbers, domain, noise, accounting, queries, tables, estimates, mechanisms, what verifies them.
    "tests/engine/bounds/test_intervals.py",
    "tests/engine/domain/test_universe.py",
    "tests/engine/noise/test_self_test.py",
    "tests/engine/accounting/test_events.py",
    "tests/engine/accounting/test_accountant.py",
    "tests/engine/accounting/test_filters.py",
    "tests/engine/workload/test_workload.py",
    "tests/engine/workload/test_sensitivity.py",
    "tests/engine/tables/test_tables.py",
    "tests/engine/bounds/test_rounding.py",
    "tests/engine/mechanisms/test_mechanisms.py",
    "tests/engine/verification/test_statistics_contract.py",
    "tests/engine/verification/test_verification.py",
    # The site: the ledger, what the database refuses, who may see and change what, the audit log, lists and words.
    "tests/web/review/test_ledger.py",
    "tests/web/review/test_append_only.py",
    "tests/web/shared/test_access.py",
    "tests/web/public/test_api_access.py",
    "tests/web/review/test_every_write_is_recorded.py",
    "tests/web/shared/test_query_counts.py",
    "tests/web/shared/test_errors.py",
    "tests/web/shared/test_words.py",
]

#: More processes than these would want more of the services than they are set up for.
MOST_CORES = 8
#: Which test ran which code: written by `--changed`, read by the next.
RECORD = ".testmondata"
#: Files of other kinds than Python, which no record names, and the tests that they can touch.
OTHER_FILES = {"templates": "tests/web", "releases/static": "tests/flows/pages", "docs": "tests/test_docs.py"}
#: These run the product in processes of their own, which no record sees.
OWN_PROCESSES = "tests/flows"
#: What the product is made of.
PRODUCT = ("releases", "dpweb", "benchmarks", "templates")


class Command(BaseCommand):
    help = (
        "Run every test, in a process more than there are cores, since many wait; those that need PostgreSQL, Redis or "
        "Chromium run where these answer. With --fast, run the rules of the code and the contracts of every part "
        "alone, in less than a minute. With --changed, run the tests that a change since the last run with --changed "
        "can touch; the first runs them all. Ends with the twenty slowest. Other options go to pytest."
    )
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        import pytest

        os.chdir(settings.BASE_DIR)
        # Every process of a test run would compile the code for itself.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        processes = min(os.cpu_count() or 1, MOST_CORES) + 1
        options = ["-n", str(processes), "--durations=20", *argv[2:]]
        if "--changed" in options:
            options.remove("--changed")
            ended = [pytest.main([*options, *each]) for each in runs_for_changes(Path(RECORD))]
            sys.exit(max((each for each in ended if each != pytest.ExitCode.NO_TESTS_COLLECTED), default=0))
        if "--fast" in options:
            options.remove("--fast")
            options += ["-m", "not slow", *CONTRACTS]
        sys.exit(pytest.main(options))


def runs_for_changes(record: Path) -> list[list[str]]:
    """What pytest is given, run by run: the tests whose code has changed by the record, and those that it does not
    see, where files that they read are newer than it."""
    since = record.stat().st_mtime if record.exists() else 0.0

    def is_newer(folder: str) -> bool:
        files = (each for each in Path(folder).rglob("*") if each.is_file() and "__pycache__" not in each.parts)
        return any(each.stat().st_mtime > since for each in files)

    others = {tests for folder, tests in OTHER_FILES.items() if is_newer(folder)}
    if any(is_newer(folder) for folder in PRODUCT) or is_newer(OWN_PROCESSES):
        others = {each for each in others if not each.startswith(OWN_PROCESSES)} | {OWN_PROCESSES}
    recorded = ["--testmon", "tests", f"--ignore={OWN_PROCESSES}"]
    return [recorded, *([["--no-testmon", *sorted(others)]] if others else [])]
