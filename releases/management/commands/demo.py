"""`manage.py demo`: the real sample, released by a real worker, in a site that stays up until Ctrl-C."""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import time
import uuid
from argparse import ArgumentParser, ArgumentTypeError
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from releases import files, services
from releases.engine.filters import Policy
from releases.engine.mechanisms.base import mechanism
from releases.engine.universe import Schema
from releases.management.database import ensure_database
from releases.management.processes import Child, free_address, start_site, start_worker, wait_until_answers
from releases.models import Dataset, Release, ReleaseState

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "health_insurance.csv"
TITLE = "Health insurance survey 1996"
EPSILON = "1"
BUDGET = "5"
MECHANISMS = ("laplace-queries", "laplace-histogram", "pmw")


def _port(typed: str) -> int:
    port = int(typed) if typed.isascii() and typed.isdecimal() and len(typed) < 6 else 0
    if not 0 < port < 2**16:
        raise ArgumentTypeError(f"{typed!r} must be a port, a whole number from 1 to 65535")
    return port


def _address_at(port: int) -> str:
    try:
        return free_address(port, last=port)
    except RuntimeError:
        raise CommandError(f"Port {port} cannot be had: another program has it, or it needs rights.") from None


class Command(BaseCommand):
    help = "Release the sample survey through a real worker and leave the site running; --exit stops after it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--exit", action="store_true", help="stop after the releases")
        parser.add_argument("--port", type=_port, help="of the site; by default the first free one from 8000 on")

    def handle(self, **options: Any) -> None:
        # First: whoever names a port that is taken need not wait for the releases to hear of it.
        address = free_address() if options["port"] is None else _address_at(options["port"])
        ensure_database()
        log_folder = settings.DATA_DIR / "log"
        if settings.EMAIL_BACKEND.endswith("console.EmailBackend"):
            # Nobody has set up a server for them: beside the logs, not between the lines of this command.
            settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
            settings.EMAIL_FILE_PATH = log_folder / "mail"
        children: list[Child] = []
        # Whoever ends this command ends what it started.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            # E-mails name addresses in full.
            environment = {"SITE_ADDRESS": os.environ.get("SITE_ADDRESS", f"http://{address}")}
            children.append(start_worker(log_folder=log_folder, environment=environment))
            children.append(start_site(address, log_folder=log_folder, environment=environment))
            passwords = self._make_accounts()
            releases = self._submit(User.objects.get(username="curator"), User.objects.get(username="reviewer"))
            self._wait(releases, children[0])
            self._print_table(releases)
            if not wait_until_answers(address, children[1]):
                raise CommandError(f"The site did not start; see {children[1].log}.")
            if options["exit"]:
                return
            self._print_address(address, passwords)
            while all(child.is_alive() for child in children):
                time.sleep(0.5)
            raise CommandError(f"A process has ended; see {log_folder}.")
        except KeyboardInterrupt:
            self.stdout.write("\nStopping the site and the worker.")
        finally:
            for child in reversed(children):
                child.stop()

    def _make_accounts(self) -> dict[str, str]:
        """Curator, analyst and reviewer, each with a new random password."""
        passwords = {}
        group, _ = Group.objects.get_or_create(name="Survey team")
        for name in ("curator", "analyst", "reviewer"):
            account, _ = User.objects.get_or_create(username=name, defaults={"email": f"{name}@example.org"})
            account.is_staff = name == "reviewer"
            passwords[name] = secrets.token_urlsafe(9)
            account.set_password(passwords[name])
            account.save()
            if name == "curator":
                account.groups.add(group)
        return passwords

    def _submit(self, curator: User, reviewer: User) -> list[Release]:
        """The sample with its budget and three releases, made once; a second run finds them."""
        dataset = Dataset.objects.filter(owner=curator, title=TITLE).order_by("created_at").first()
        if dataset is None:
            dataset = services.ingest_dataset(owner=curator, title=TITLE, source=SAMPLE)
        schema = Schema.from_json(json.loads(SAMPLE.with_suffix(".json").read_text()))
        services.declare_universe(dataset=dataset, columns=schema.to_json()["columns"])
        budget = services.declare_protection(dataset=dataset, unit=schema.unit, neighbours=schema.neighbours)
        if not budget.is_granted:
            # In one transaction, so that no e-mail asks for what is decided already.
            with transaction.atomic():
                asked = services.request_budget(
                    dataset=dataset,
                    epsilon=BUDGET,
                    delta=settings.DEFAULT_BUDGET_DELTA,
                    policy=Policy.ZCDP,
                    reason="All two-way tables of the survey, for the public.",
                    by=curator,
                )
                services.approve_request(request=asked, by=reviewer, note="Fine for a public-use file.")
            # Where the sample is somebody else's too, it shares the budget that it has there.
            dataset.refresh_from_db()
        return [self._release(dataset, name, curator) for name in MECHANISMS]

    def _release(self, dataset: Dataset, mechanism_name: str, curator: User) -> Release:
        title = f"All two-way tables: {mechanism(mechanism_name).title}"
        begun = dataset.releases.filter(mechanism=mechanism_name, title__startswith="All two-way tables")
        made = begun.exclude(state=ReleaseState.DRAFT).first()
        if made is not None:
            return made
        release = services.draft_release(dataset=dataset, by=curator, title=title)
        services.set_questions(release=release, workload={"version": 1, "queries": [{"marginals": 2}]})
        services.set_choice(release=release, epsilon=EPSILON, mechanism_name=mechanism_name)
        services.submit_release(release=release, key=uuid.uuid4(), by=curator)
        return release

    def _wait(self, releases: list[Release], worker: Child) -> None:
        """A progress bar over all releases, from what their rows say."""
        while True:
            for release in releases:
                release.refresh_from_db()
            done = sum(1.0 if each.status.is_final else each.share_done for each in releases)
            step = next((each.step for each in releases if not each.status.is_final), "Done")
            filled = int(30 * done / len(releases))
            if sys.stdout.isatty():
                self.stdout.write(f"\r[{'#' * filled}{'.' * (30 - filled)}] {step[:40]:40}", ending="")
                self.stdout.flush()
            if all(each.status.is_final for each in releases):
                self.stdout.write("")
                return
            if not worker.is_alive():
                raise CommandError(f"The worker has ended; see {worker.log}.")
            time.sleep(0.3)

    def _print_table(self, releases: list[Release]) -> None:
        line = "{:20} {:>16} {:>9} {:>9} {:>15}"
        self.stdout.write(line.format("mechanism", "bound (95%), all", "epsilon", "seconds", "synthetic rows"))
        for release in releases:
            if release.status is not ReleaseState.PUBLISHED or release.result is None:
                raise CommandError(f"{release.title} is {release.state}: {release.status.meaning}")
            receipt = release.result["receipt"]
            assert release.published_at is not None
            assert release.started_at is not None
            self.stdout.write(
                line.format(
                    receipt["mechanism"]["name"],
                    f"{receipt['bound']['alpha']:,.0f} rows",
                    receipt["cost"]["pure"]["epsilon"],
                    f"{(release.published_at - release.started_at).total_seconds():.1f}",
                    f"{receipt['synthetic_rows']:,}",
                )
            )
        for release in releases:
            self.stdout.write(f"{release.result['receipt']['mechanism']['name']}: {files.folder_of(release)}")  # type: ignore[index]

    def _print_address(self, address: str, passwords: dict[str, str]) -> None:
        self.stdout.write(f"\nThe site is at http://{address}/ (Ctrl-C stops it). Sign in as")
        for name, password in passwords.items():
            self.stdout.write(f"  {name:10} {password}")
        self.stdout.write(f"E-mails are not sent; they stand in {settings.DATA_DIR / 'log'}: site.log and worker.log.")
