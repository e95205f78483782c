"""`manage.py test`: pytest over everything that can run on this machine, or over the contracts alone."""

from __future__ import annotations

import os
import sys

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
    "tests/engine/smalldb/test_smalldb_shapes.py",
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


class Command(BaseCommand):
    help = (
        "Run every test, two processes at a time; those that need PostgreSQL, Redis or Chromium run where these "
        "answer. With --fast, run the rules of the code and the contracts of every part alone, in less than a minute. "
        "Ends with the twenty slowest. Other options go to pytest."
    )
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        import pytest

        os.chdir(settings.BASE_DIR)
        # Every process of a test run would compile the code for itself.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        sys.dont_write_bytecode = False
        options = argv[2:]
        if "--fast" in options:
            options.remove("--fast")
            options = ["-m", "not slow", *CONTRACTS, *options]
        sys.exit(pytest.main(["-n", "2", "--dist", "worksteal", "--durations=20", *options]))
