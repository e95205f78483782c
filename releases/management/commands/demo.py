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
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.schema import Schema
from releases.engine.mechanisms.base import mechanism
from releases.management import scale
from releases.management.database import ensure_database
from releases.management.processes import Child, free_address, start_site, start_worker, wait_until_answers
from releases.models import AuditAction, AuditEvent, Dataset, RegisteredConnection, Release, ReleaseState, Role
from releases.planning.row_methods import options_for_rows
from releases.publication import files

SAMPLE = Path(__file__).resolve().parents[2] / "samples" / "health_insurance.csv"
TITLE = "Health insurance survey 1996"
EPSILON = "1"
BUDGET = "5"
ACCOUNTS = ("curator", "analyst", "reviewer")
#: A process that ends so soon after its start, so many times in a row, is not started again.
EARLY_SECONDS = 20
MAX_EARLY_ENDS = 3
MECHANISMS = ("laplace-queries", "laplace-histogram", "pmw")
#: Of --scale: what the two databases are called on the site.
POSTGRESQL, SPARK = "survey_postgresql", "survey_spark"
SPARK_PORT = 15002


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


def _password_file() -> Path:
    return settings.DATA_DIR / "demo_passwords.json"


def _kept_passwords() -> dict[str, str]:
    """By user name, made at the first start and readable by the owner of the installation alone."""
    try:
        with os.fdopen(os.open(_password_file(), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            json.dump({name: secrets.token_urlsafe(9) for name in ACCOUNTS}, file)
    except FileExistsError:
        pass
    passwords: dict[str, str] = json.loads(_password_file().read_text())
    return passwords


class _Kept:
    """A process of the demo, which is started again when it ends."""

    def __init__(self, name: str, start: Callable[[], Child], *, say: Callable[[str], object]) -> None:
        self._name, self._start, self._say = name, start, say
        self._early_ends = 0
        self._begin()

    def _begin(self) -> None:
        self.child, self._since = self._start(), time.monotonic()

    def keep(self) -> None:
        """Start it again where it has ended.

        Raises:
            CommandError: it ends each time as soon as it was started.
        """
        if self.child.is_alive():
            return
        # Ended with it: what it had started itself.
        self.child.kill()
        self._early_ends = self._early_ends + 1 if time.monotonic() - self._since < EARLY_SECONDS else 0
        if self._early_ends > MAX_EARLY_ENDS:
            raise CommandError(f"The {self._name} ends whenever it is started; see {self.child.log}.")
        self._begin()
        self._say(f"The {self._name} ended and was started again; see {self.child.log}.")

    def stop(self) -> None:
        self.child.stop()


class Command(BaseCommand):
    help = (
        "Release the sample survey through a real worker and leave the site running; --exit stops after it. With "
        "--scale the survey is loaded into PostgreSQL and Spark too and released from there, which needs a PostgreSQL "
        "server, Java 17 and the packages of dpweb[spark]."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--exit", action="store_true", help="stop after the releases")
        parser.add_argument("--scale", action="store_true", help="release the survey from PostgreSQL and Spark too")
        parser.add_argument(
            "--postgres",
            metavar="URL",
            default="postgresql://postgres@127.0.0.1:5432/postgres",
            help="with --scale: a database whose role may make a database and a role for the survey",
        )
        parser.add_argument("--port", type=_port, help="of the site; by default the first free one from 8000 on")

    def handle(self, **options: Any) -> None:
        # First: whoever names a port that is taken need not wait for the releases to hear of it.
        address = free_address() if options["port"] is None else _address_at(options["port"])
        ensure_database()
        log_folder = settings.DATA_DIR / "log"
        children: list[_Kept] = []
        if settings.EMAIL_BACKEND.endswith("console.EmailBackend"):
            # Nobody has set up a server for them: beside the logs, not between the lines of this command.
            settings.EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
            settings.EMAIL_FILE_PATH = log_folder / "mail"
        databases: list[Child] = []
        # Whoever ends this command ends what it started.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            # E-mails name addresses in full.
            environment = {"SITE_ADDRESS": os.environ.get("SITE_ADDRESS", f"http://{address}")}
            # Its people are invented, and nobody should have to fetch a telephone to look around.
            environment["REQUIRE_SECOND_FACTOR"] = os.environ.get("REQUIRE_SECOND_FACTOR", "")
            sources = self._start_databases(options["postgres"], log_folder, databases) if options["scale"] else {}
            worker = partial(start_worker, log_folder=log_folder, environment=environment)
            site = partial(start_site, address, log_folder=log_folder, environment=environment)
            for name, start in (
                ("worker", partial(worker, name="worker", queue=settings.CELERY_TASK_DEFAULT_QUEUE)),
                ("site", site),
                ("worker for uploads", partial(worker, name="uploads", queue=settings.UPLOADS_QUEUE)),
            ):
                children.append(_Kept(name, start, say=self.stdout.write))
            passwords = self._make_accounts()
            curator, reviewer = User.objects.get(username="curator"), User.objects.get(username="reviewer")
            releases = self._submit(curator, reviewer)
            releases += self._submit_from(sources, releases[0].dataset, curator, reviewer)
            self._wait(releases, children)
            self._print_table(releases)
            self._make_public(releases[len(MECHANISMS) - 1])
            if not wait_until_answers(address, children[1].child):
                raise CommandError(f"The site did not start; see {children[1].child.log}.")
            if options["exit"]:
                return
            self._print_address(address, passwords)
            while True:
                for child in children:
                    child.keep()
                time.sleep(0.5)
        except KeyboardInterrupt:
            self.stdout.write("\nStopping the site and the worker.")
        finally:
            for child in reversed(children):
                child.stop()
            for database in databases:
                database.stop()

    def _make_accounts(self) -> dict[str, str]:
        """Curator, analyst and reviewer. Their passwords are random, and the same at every start."""
        passwords = _kept_passwords()
        group, _ = Group.objects.get_or_create(name="Survey team")
        roles = {
            "curator": [Role.CURATOR],
            "analyst": [Role.ANALYST],
            "reviewer": [Role.REVIEWER, Role.ADMINISTRATOR],
        }
        for name, held in roles.items():
            account, _ = User.objects.get_or_create(username=name, defaults={"email": f"{name}@example.org"})
            if not account.check_password(passwords[name]):
                account.set_password(passwords[name])
            account.save()
            for role in held:
                services.roles.give_role(person=account, role=role, by=None)
            if name == "curator":
                account.groups.add(group)
        return passwords

    def _make_public(self, release: Release) -> None:
        """Once: whoever makes it private again is not overruled at the next start."""
        made = AuditEvent.objects.filter(object_id=str(release.pk), action=AuditAction.MAKE_PUBLIC)
        if not made.exists():
            services.releases.make_public(release=release, by=release.submitted_by)

    def _submit(self, curator: User, reviewer: User) -> list[Release]:
        """The sample with its budget and three releases, made once; a second run finds them."""
        dataset = Dataset.objects.filter(owner=curator, title=TITLE).order_by("created_at").first()
        if dataset is None:
            dataset = services.datasets.ingest_dataset(owner=curator, title=TITLE, source=SAMPLE)
        schema = Schema.from_json(json.loads(SAMPLE.with_suffix(".json").read_text()))
        services.datasets.declare_universe(dataset=dataset, columns=schema.to_json()["columns"])
        budget = services.datasets.declare_protection(dataset=dataset, unit=schema.unit, neighbours=schema.neighbours)
        if not budget.is_granted:
            # In one transaction, so that no e-mail asks for what is decided already.
            with transaction.atomic():
                asked = services.budgets.request_budget(
                    dataset=dataset,
                    epsilon=BUDGET,
                    delta=settings.DEFAULT_BUDGET_DELTA,
                    policy=Policy.ZCDP,
                    reason="All two-way tables of the survey, for the public.",
                    by=curator,
                )
                services.budgets.approve_request(request=asked, by=reviewer, note="Fine for a public-use file.")
            # Where the sample is somebody else's too, it shares the budget that it has there.
            dataset.refresh_from_db()
        return [self._release(dataset, name, curator) for name in MECHANISMS]

    def _start_databases(self, server: str, log_folder: Path, started: list[Child]) -> dict[str, str]:
        """The survey in PostgreSQL and in Spark: the address of each, by its name.

        Raises:
            CommandError: one of them is missing.
        """
        schema = Schema.from_json(json.loads(SAMPLE.with_suffix(".json").read_text()))
        kept = RegisteredConnection.objects.filter(name=SPARK).first()
        port = urlsplit(kept.address).port if kept is not None else None
        address = free_address(SPARK_PORT) if port is None else _address_at(port)
        port, folder = int(address.rpartition(":")[2]), settings.DATA_DIR / "spark"
        # The worker and the site, which are started later, have it from this process.
        password = os.environ[f"CONNECTION_{POSTGRESQL.upper()}_PASSWORD"] = secrets.token_urlsafe(12)
        try:
            scale.refuse_without_spark()
            on_postgresql = scale.load_into_postgresql(SAMPLE, schema, server=server, password=password)
            started.append(scale.start_spark(folder, port=port, log_folder=log_folder))
            on_spark = scale.load_into_spark(SAMPLE, schema, folder=folder / "people", port=port)
        except scale.NotInstalled as error:
            raise CommandError(f"--scale: {error}") from None
        return {POSTGRESQL: on_postgresql, SPARK: on_spark}

    def _submit_from(self, sources: dict[str, str], survey: Dataset, curator: User, reviewer: User) -> list[Release]:
        """A release from each database. All hold the people of the survey, who have one budget."""
        releases = []
        for name, address in sources.items():
            if not RegisteredConnection.objects.filter(name=name).exists():
                services.connections.register_connection(
                    name=name, address=address, by=reviewer, reads_only=name == SPARK
                )
            location = f"connection://{name}#{scale.TABLE}"
            dataset = Dataset.objects.filter(owner=curator, location=location).order_by("created_at").first()
            if dataset is None:
                listed = services.connections.tables_of(services.connections.connection_named(name))
                dataset = services.connections.register_table(
                    owner=curator, title=f"{TITLE}, {name}", listed=listed, table=scale.TABLE
                )
                services.datasets.declare_universe(dataset=dataset, columns=survey.declared or [])
                services.datasets.join_population(dataset=dataset, other=survey, by=curator)
                dataset.refresh_from_db()
            releases.append(self._release(dataset, MECHANISMS[0], curator))
        return releases

    def _release(self, dataset: Dataset, mechanism_name: str, curator: User) -> Release:
        title = f"All two-way tables: {mechanism(mechanism_name).title}"
        begun = dataset.releases.filter(mechanism=mechanism_name, title__startswith="All two-way tables")
        made = begun.exclude(state=ReleaseState.DRAFT).first()
        if made is not None:
            return made
        release = services.releases.draft_release(dataset=dataset, by=curator, title=title)
        services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginals": 2}]})
        options = options_for_rows({}).get(mechanism_name)
        services.releases.set_choice(release=release, epsilon=EPSILON, mechanism_name=mechanism_name, options=options)
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=curator)
        return release

    def _wait(self, releases: list[Release], children: list[_Kept]) -> None:
        """A progress bar over all releases, from what their rows say."""
        while True:
            for child in children:
                child.keep()
            for release in releases:
                release.refresh_from_db()
            done = sum(1.0 if each.status.is_final else each.share_done for each in releases)
            step = next((each.shown_step for each in releases if not each.status.is_final), "Done")
            filled = int(30 * done / len(releases))
            if sys.stdout.isatty():
                self.stdout.write(f"\r[{'#' * filled}{'.' * (30 - filled)}] {step[:40]:40}", ending="")
                self.stdout.flush()
            if all(each.status.is_final for each in releases):
                self.stdout.write("")
                return
            time.sleep(0.3)

    def _print_table(self, releases: list[Release]) -> None:
        line = "{:20} {:>16} {:>9} {:>15}  {}"
        self.stdout.write(line.format("mechanism", "bound (95%), all", "epsilon", "synthetic rows", "source").rstrip())
        for release in releases:
            if release.status is not ReleaseState.PUBLISHED or release.result is None:
                raise CommandError(f"{release.title} is {release.state}: {release.status.meaning}")
            receipt = release.result["receipt"]
            self.stdout.write(
                line.format(
                    receipt["mechanism"]["name"],
                    f"{receipt['bound']['alpha']:,.0f} rows",
                    receipt["cost"]["pure"]["epsilon"],
                    f"{receipt['synthetic_rows']:,}",
                    receipt.get("source", {}).get("database", "the file"),
                )
            )
        for release in releases:
            self.stdout.write(f"{release.result['receipt']['mechanism']['name']}: {files.folder_of(release)}")  # type: ignore[index]

    def _print_address(self, address: str, passwords: dict[str, str]) -> None:
        self.stdout.write(f"\nThe site is at http://{address}/ (Ctrl-C stops it). Sign in as")
        for name, password in passwords.items():
            self.stdout.write(f"  {name:10} {password}")
        self.stdout.write(f"The passwords stay the same; they are in {_password_file()}.")
        self.stdout.write(
            f"E-mails are not sent; they are in {settings.DATA_DIR / 'log'}: site.log, worker.log and uploads.log."
        )
