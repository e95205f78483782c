"""`manage.py ways`: four ways of releasing many counts, as a page of Markdown with charts. No data, no database."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from releases.engine.bounds.theory import Numbers
from releases.engine.domain.privacy import NeighbouringRelation, exact
from releases.engine.errors import InvalidInput
from releases.planning import methods

_WHOLE = {
    "rows": "n, rows in the table",
    "cells": "|X|, cells of the universe",
    "queries": "k, answers asked for",
    "changed": "s, how many of them one row changes (k if left out)",
}


#: Options that the page names as it was asked for.
_TOLD = ("neighbours", *_WHOLE, "epsilon", "delta", "beta")


class Command(BaseCommand):
    help = "Set four ways of releasing many counts side by side: writes four_ways.md and its charts."
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        for name, meaning in _WHOLE.items():
            parser.add_argument(f"--{name}", type=int, help=meaning)
        parser.add_argument(
            "--neighbours",
            choices=[each.value for each in NeighbouringRelation],
            help="what one row more or less means (default: replace)",
        )
        for name in ("epsilon", "delta", "beta"):
            parser.add_argument(f"--{name}")
        parser.add_argument("--out", type=Path, default=Path("docs"), help="folder for the files (default: docs)")

    def handle(self, **options: Any) -> None:
        try:
            numbers = _numbers(options)
        except InvalidInput as error:
            raise CommandError(str(error)) from None
        given = "".join(f" --{name} {options[name]}" for name in _TOLD if options[name])
        options["out"].mkdir(parents=True, exist_ok=True)
        for name, content in methods.documents(numbers, command=f"manage.py ways{given}").items():
            (options["out"] / name).write_text(content, encoding="utf-8")
            self.stdout.write(f"Wrote {options['out'] / name}")


def _numbers(options: dict[str, Any]) -> Numbers:
    """The sample's numbers but for those given."""
    given: dict[str, Any] = {name: options[name] for name in _WHOLE if options[name] is not None}
    if "queries" in given and "changed" not in given:
        given["changed"] = given["queries"]
    given |= {
        name: exact(options[name], field=name) for name in ("epsilon", "delta", "beta") if options[name] is not None
    }
    relation = NeighbouringRelation(options["neighbours"] or NeighbouringRelation.REPLACE)
    return replace(methods.sample_numbers(relation), **given)
