"""`manage.py test`: pytest over everything that can run on this machine."""

from __future__ import annotations

import os
import sys

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = (
        "Run every test, two processes at a time; those that need PostgreSQL, Redis or Chromium run where these "
        "answer. Options go to pytest."
    )
    requires_system_checks: list[str] = []

    def run_from_argv(self, argv: list[str]) -> None:
        import pytest

        os.chdir(settings.BASE_DIR)
        sys.exit(pytest.main(["-n", "2", "--dist", "worksteal", *argv[2:]]))
