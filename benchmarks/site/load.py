"""`manage.py bench --only load`: how many pages a second the site serves, one visitor at a time and eight at once.

gunicorn runs as the image starts it, over an installation of its own on PostgreSQL: 4,000 releases, and 800 entries in
the ledger of one budget. It is made once by the services, as people would make it, and dropped afterwards.
"""

from __future__ import annotations

import http.client
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from benchmarks.tables import BenchRow, BenchTable
from releases.management.processes import Child, free_address, wait_until_answers

TITLE = "Pages under load"
RELEASES, ENTRIES, DATASETS = 4000, 800, 40
#: Visitors at once, the fewest requests in one measurement, and measurements of each kind by turns; the median counts.
VISITORS, REQUESTS, TURNS = 8, 64, 3
#: Seconds that the requests of one visitor take at least: those of a page of 4 ms are over too soon to judge by.
SECONDS = 1.0
#: How many times as many requests a second eight visitors at once shall get as one after the other.
TARGET = 1.5
BUDGET_PAGE, RELEASE_PAGE = "review/budgets/ID/", "releases/ID/ (alice)"


@dataclass(frozen=True, kw_only=True)
class LoadedPage:
    """An address, as whom it is asked for, and how it is named in the table."""

    name: str
    path: str
    cookie: str


@dataclass(frozen=True, kw_only=True)
class Rates:
    """Requests a second of one page."""

    alone: float
    together: float


def tables(server: str, *, processes: int | None = None) -> Iterator[BenchTable]:
    """A table for one process and one for as many as the image starts, or one for so many as are asked for.

    Args:
        server: the URL of a PostgreSQL database from which others may be made.
    """
    import psycopg

    try:
        connection = psycopg.connect(server, autocommit=True, connect_timeout=5)
    except psycopg.Error:
        says = "PostgreSQL does not answer; --postgres names a database from which another may be made."
        yield BenchTable(title=TITLE, says=says, heads=("page",), rows=[])
        return
    name = f"dpweb_bench_{uuid.uuid4().hex[:12]}"
    with connection, tempfile.TemporaryDirectory() as folder:
        connection.execute(f'CREATE DATABASE "{name}"')
        try:
            environment = {
                "DATA_DIR": folder,
                "MARKS_DIR": f"{folder}/marks",
                "DATABASE_URL": urlsplit(server)._replace(path=f"/{name}").geturl(),
                "DJANGO_SETTINGS_MODULE": "dpweb.settings",
                "LOG_LEVEL": "ERROR",
                "HTTPS": "0",
                "REQUIRE_SECOND_FACTOR": "",
                # All visitors are one person here, who would otherwise be asked to wait and who asks for all budgets.
                "PLANNING_SLOTS": str(VISITORS),
                "BUDGET_REQUESTS_PER_PERSON": str(2 * DATASETS),
            }
            (Path(folder) / "static").mkdir()
            pages = _made(environment)
            cores = os.cpu_count() or 1
            for number in [processes] if processes else sorted({1, cores}):
                yield _measured(pages, environment, processes=number)
        finally:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _made(environment: dict[str, str]) -> list[LoadedPage]:
    """Fill the installation in a process of its own, whose settings are the installation's."""
    code = (
        "import django; django.setup(); import json; from django.core.management import call_command\n"
        "from benchmarks.site import load\n"
        "call_command('migrate', verbosity=0)\n"
        f"print('PAGES ' + json.dumps(load.fill(releases={RELEASES}, entries={ENTRIES}, datasets={DATASETS})))"
    )
    done = subprocess.run(  # noqa: S603  our own interpreter
        [sys.executable, "-c", code],
        cwd=settings.BASE_DIR,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    return [LoadedPage(**each) for each in json.loads(done.stdout.rsplit("PAGES ", 1)[1])]


def _measured(pages: list[LoadedPage], environment: dict[str, str], *, processes: int) -> BenchTable:
    address = free_address(19000)
    config = str(settings.BASE_DIR / "deploy" / "gunicorn.conf.py")
    command = [sys.executable, "-m", "gunicorn", "--config", config, "--bind", address, "dpweb.wsgi"]
    given = {**environment, "WEB_CONCURRENCY": str(processes)}
    site = Child("site", command, log_folder=Path(environment["DATA_DIR"]) / "log", environment=given)
    try:
        if not wait_until_answers(address, site):
            raise RuntimeError(site.log.read_text())
        found = {page.name: _rates(address, page) for page in pages}
    finally:
        site.stop()
    rows = [_row(name, rates) for name, rates in found.items()]
    rows.append(_budget_row(found[BUDGET_PAGE], found[RELEASE_PAGE]))
    are = "process" if processes == 1 else "processes"
    return BenchTable(
        title=f"{TITLE}: {processes} {are}",
        says=f"PostgreSQL, {RELEASES:,} releases, {ENTRIES} entries in the ledger of one budget, "
        f"{os.cpu_count()} cores for site, database and visitors. Target: {VISITORS} visitors "
        f"at once get at least {TARGET} times as many pages a second as one; a budget's page takes no longer than a "
        "release's.",
        heads=("page", "ms", "one at a time /s", f"{VISITORS} at once /s", "ratio"),
        rows=rows,
    )


def _row(name: str, rates: Rates) -> BenchRow:
    ratio = rates.together / rates.alone
    cells = (name, f"{1000 / rates.alone:.0f}", f"{rates.alone:.1f}", f"{rates.together:.1f}", f"{ratio:.2f}")
    return BenchRow(cells=cells, is_met=ratio >= TARGET)


def _budget_row(budget: Rates, release: Rates) -> BenchRow:
    """Times one at a time, with a tenth for what a measurement is off."""
    ratio = release.alone / budget.alone
    cells = ("a budget's page beside a release's", f"{1000 / budget.alone:.0f}", "", "", f"{ratio:.2f}")
    return BenchRow(cells=cells, is_met=ratio <= 1.1)


def _rates(address: str, page: LoadedPage) -> Rates:
    """By turns, so that what else the machine does meets both alike."""
    _ask(address, page, VISITORS)
    rate = _per_second(address, page, visitors=1, requests=VISITORS)
    requests = max(REQUESTS, VISITORS * math.ceil(SECONDS * rate / VISITORS))
    alone, together = [], []
    for _ in range(TURNS):
        alone.append(_per_second(address, page, visitors=1, requests=requests))
        together.append(_per_second(address, page, visitors=VISITORS, requests=requests))
    return Rates(alone=median(alone), together=median(together))


def _per_second(address: str, page: LoadedPage, *, visitors: int, requests: int) -> float:
    mistakes: list[Exception] = []

    def visit() -> None:
        try:
            _ask(address, page, requests // visitors)
        except Exception as error:  # noqa: BLE001  told by whoever waits for the visitors
            mistakes.append(error)

    asking = [threading.Thread(target=visit) for _ in range(visitors)]
    started = perf_counter()
    for each in asking:
        each.start()
    for each in asking:
        each.join()
    if mistakes:
        raise mistakes[0]
    return requests // visitors * visitors / (perf_counter() - started)


def _ask(address: str, page: LoadedPage, times: int) -> None:
    """Each time over a connection of its own, as the proxy asks, so that any process may take it."""
    headers = {"Cookie": page.cookie, "Accept-Encoding": "gzip", "Connection": "close"}
    for _ in range(times):
        with closing(http.client.HTTPConnection(address, timeout=120)) as connection:
            connection.request("GET", page.path, headers=headers)
            answer = connection.getresponse()
            answer.read()
        if answer.status != 200:
            raise RuntimeError(f"{page.name}: {answer.status}")


# --- the installation, in a process of its own -----------------------------------------------------------------------


def fill(*, releases: int, entries: int, datasets: int) -> list[dict[str, str]]:
    """People, datasets and releases; returns the pages to ask for, with the cookies of who asks."""
    from django.contrib.auth.models import User
    from django.db import connection, transaction

    from releases import services
    from releases.models import Dataset, LedgerEntry, Release, Role

    alice = User.objects.create_user("alice", "alice@example.org")
    sofia = User.objects.create_user("sofia", "sofia@example.org")
    for person, role in ((alice, Role.CURATOR), (sofia, Role.REVIEWER), (sofia, Role.ADMINISTRATOR)):
        services.roles.give_role(person=person, role=role, by=None)
    made = [_dataset(number, alice, sofia) for number in range(datasets)]
    first = _submitted(made[0], alice)
    if not services.execution.execute_release(release_id=first.pk):
        raise RuntimeError("The first release was not run.")
    first.refresh_from_db()
    services.releases.make_public(release=first, by=alice)
    first.refresh_from_db()
    while LedgerEntry.objects.filter(budget=made[0].budget).count() < entries:
        _submitted(made[0], alice)
    # All show what the first has found; a tenth still waits.
    charged = list(Release.objects.filter(dataset=made[0]).exclude(pk=first.pk))
    done = {
        name: getattr(first, name)
        for name in ("state", "is_public", "plan", "result", "folder", "submitted_at", "started_at", "published_at")
    }
    with transaction.atomic():
        for each in charged[len(charged) // 10 :]:
            Release.objects.filter(pk=each.pk).change(**done)
        for number in range(releases - 1 - len(charged)):
            Release.objects.make(
                dataset=made[number % len(made)],
                title=f"Tables no. {number}",
                workload=first.workload,
                mechanism=first.mechanism,
                epsilon=first.epsilon,
                submitted_by=alice,
                **done,
            )
    _asked_of_reviewers(made, alice)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as PostgreSQL does by itself after a while
    return _pages(alice, sofia, Dataset.objects.get(pk=made[0].pk), first)


def _dataset(number: int, alice: Any, sofia: Any) -> Any:
    from releases import services
    from releases.engine.accounting.filters import Policy
    from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit

    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write("person,age,sex\n")
        # Other people in every survey: of the same rows, one budget would be shared.
        people = range(300 + number)
        file.writelines(f"{number}-{i},{18 + i * 7 % 48},{'female' if i % 3 else 'male'}\n" for i in people)
        file.flush()
        dataset = services.datasets.ingest_dataset(owner=alice, title=f"Survey {number:02}", source=Path(file.name))
    columns: list[dict[str, Any]] = [
        {"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]},
        {"name": "sex", "type": "categorical", "categories": ["female", "male"]},
    ]
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    services.datasets.declare_protection(
        dataset=dataset, unit=PrivacyUnit(), neighbours=NeighbouringRelation.ADD_REMOVE
    )
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="9", delta="0.000001", policy=Policy.ZCDP, reason="For the yearbook.", by=alice
    )
    services.budgets.approve_request(request=asked, by=sofia)
    dataset.refresh_from_db()
    return dataset


def _submitted(dataset: Any, alice: Any) -> Any:
    from releases import services

    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(
        release=release, workload={"version": 1, "queries": [{"marginals": 1}, {"marginals": 2}]}
    )
    services.releases.set_choice(release=release, epsilon="0.005", mechanism_name="laplace-queries")
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice)
    return release


def _asked_of_reviewers(datasets: list[Any], alice: Any) -> None:
    """A larger budget for half of the datasets."""
    from releases import services
    from releases.engine.accounting.filters import Policy

    for dataset in datasets[1 : 1 + len(datasets) // 2]:
        services.budgets.request_budget(
            dataset=dataset, epsilon="12", delta="0.000001", policy=Policy.ZCDP, reason="More years.", by=alice
        )


def _pages(alice: Any, sofia: Any, dataset: Any, release: Any) -> list[dict[str, str]]:
    from django.conf import settings
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

    cookies = {"": ""}
    for person in (alice, sofia):
        session = import_module(settings.SESSION_ENGINE).SessionStore()
        session[SESSION_KEY] = str(person.pk)
        session[BACKEND_SESSION_KEY] = settings.AUTHENTICATION_BACKENDS[0]
        session[HASH_SESSION_KEY] = person.get_session_auth_hash()
        session.save()
        cookies[person.username] = f"{settings.SESSION_COOKIE_NAME}={session.session_key}"
    draft = _draft(dataset, alice)
    listed = [
        ("", "catalogue/"),
        ("", "catalogue/?q=Tables&page=3"),
        ("", f"releases/{release.pk}/"),
        ("", "accounts/login/"),
        *(("alice", path) for path in ("", "datasets/", f"datasets/{dataset.pk}/", f"datasets/{dataset.pk}/budget/")),
        *(("alice", path) for path in ("releases/", "releases/?page=80", f"releases/{release.pk}/")),
        *(("alice", f"releases/{draft.pk}/{step}/") for step in ("questions", "compare", "confirm")),
        *(("alice", path) for path in ("sessions/", "surveys/", "notices/", "tokens/", "api/", "api/datasets")),
        *(("sofia", path) for path in ("", "review/", "review/budgets/", f"review/budgets/{dataset.budget_id}/")),
        *(("sofia", f"review/{path}/") for path in ("ledger", "log", "organisation")),
    ]
    return [
        {
            "name": _named(path, who, is_twice=[other for _, other in listed].count(path) > 1),
            "path": f"/{path}",
            "cookie": cookies[who],
        }
        for who, path in listed
    ]


def _draft(dataset: Any, alice: Any) -> Any:
    from releases import services

    release = services.releases.draft_release(dataset=dataset, by=alice)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": [{"marginals": 2}]})
    services.releases.set_choice(release=release, epsilon="0.1", mechanism_name="laplace-queries")
    return release


def _named(path: str, who: str, *, is_twice: bool) -> str:
    short = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", path) or "/"
    return f"{short} ({who or 'a visitor'})" if is_twice else short
