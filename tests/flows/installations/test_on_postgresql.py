"""Tests of the ledger, surveys, strange input and text in JSON, again on PostgreSQL."""

import os
import subprocess
import sys

import pytest

from tests.stack import ROOT

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    "modules",
    [
        (
            "tests/privacy/test_ledger_machine.py",
            "tests/web/review/test_append_only.py",
            "tests/web/sessions/test_closing.py",
        ),
        ("tests/web/public/test_api.py", "tests/web/public/test_catalogue.py", "tests/web/shared/test_errors.py"),
        ("tests/web/datasets/test_descriptions.py", "tests/web/datasets/test_kept_columns.py"),
        ("tests/web/surveys/test_surveys.py",),
    ],
    ids=["ledger", "api and lists", "columns", "surveys"],
)
def test_what_holds_on_the_embedded_database_holds_on_postgresql(modules, migrated_for_django):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *modules, "-q", "--reuse-db"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": migrated_for_django},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout
