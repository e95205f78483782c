"""An installation of its own for a measurement of pages: on the embedded database, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

from releases.worker.runner import ARROW_POOL


def measured(module: str, **given: int) -> dict[str, Any]:
    """What `measure` of a module of this folder finds in an installation that is empty, given a folder for files."""
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import django; django.setup(); import json; from django.core.management import call_command\n"
            "from celery import current_app; from django.test.utils import setup_test_environment\n"
            # So the pages' own values can be read, and not only their words.
            "setup_test_environment(); current_app.send_task = lambda *arguments, **options: None\n"
            f"from benchmarks.site import {module}\n"
            "call_command('migrate', verbosity=0)\n"
            f"print('FOUND ' + json.dumps({module}.measure({folder!r}, **{given!r})))"
        )
        environment = {
            "DATA_DIR": folder,
            "MARKS_DIR": f"{folder}-marks",
            "DJANGO_SETTINGS_MODULE": "dpweb.settings",
            "LOG_LEVEL": "ERROR",
            "HTTPS": "0",
            "REQUIRE_SECOND_FACTOR": "",
            "ALLOWED_HOSTS": "testserver",
        }
        inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
        done = subprocess.run(  # noqa: S603  our own interpreter
            [sys.executable, "-c", code],
            env={**inherited, **environment, **ARROW_POOL},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.rsplit("FOUND ", 1)[1])
    return found
