"""`manage.py docs`: the documentation as a site, with no broken link."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError


class Command(BaseCommand):
    help = "Build the documentation into build/docs; a broken link or a missing picture is an error."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--out", type=Path, default=settings.BASE_DIR / "build" / "docs", help="the folder")

    def handle(self, **options: Any) -> None:
        from sphinx.cmd.build import build_main

        out = options["out"].resolve()
        # Pages are made from the code too, so none is kept from the last time.
        strict = ["--quiet", "--fail-on-warning", "--fresh-env"]
        if build_main([*strict, str(settings.BASE_DIR / "docs"), str(out)]) != 0:
            raise CommandError("The documentation was not built; the lines above say why.")
        self.stdout.write(f"Open {out / 'index.html'}")
