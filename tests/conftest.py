"""What every test may use: services where they answer, and the four people of the web tests."""

from __future__ import annotations

import gc
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, cached_property
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest import runner as runner_of_tests
from django.test import override_settings
from xdist.scheduler import LoadScopeScheduling

from releases.engine.errors import Cancelled
from releases.engine.tables import connection
from releases.worker import runner
from tests.stack import MIGRATED, ROOT, Stack

# How long an example takes says how busy the machine is.
hypothesis.settings.register_profile("dpweb", deadline=None)
hypothesis.settings.load_profile("dpweb")

#: CI sets this: there a service or browser that is missing is a failure, not a skip.
REQUIRED = os.environ.get("REQUIRE_SERVICES") == "1"
POSTGRES_URL = os.environ.get("TEST_POSTGRES_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
REDIS_URL = os.environ.get("TEST_REDIS_URL", "redis://127.0.0.1:6379/9")


#: What takes longest starts first, so that all processes end together: files, and folders of them. After these come the
#: files of most tests.
SLOWEST = (
    "tests/flows/installations/test_on_postgresql.py",
    "tests/web/results/test_neighbours.py",
    "tests/flows/pages/test_every_page.py",
    "tests/web/shared/test_who_learns_what.py",
    "tests/engine/mechanisms/test_mechanisms.py",
    "tests/engine/tables/test_contract.py",
    "tests/engine/tables/test_dates.py",
    "tests/engine/tables/test_typed.py",
    "tests/flows/journeys",
    "tests/flows",
    "tests/privacy",
    "tests/web/shared/test_access.py",
    "tests/web/results/test_hardly_any_rows.py",
    "tests/web/account/test_principals.py",
    "tests/web/shared/test_paid_for_alone.py",
    "tests/web/databases",
)
#: These need one server that takes long to start, so one process runs them all.
ONE_SERVER = SLOWEST[5:8]
#: Tests of one file go to one process, which makes once what they share; of a long file, this many at a time.
MOST_AT_ONCE = 100


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
    except OSError:
        return False


def _postgres_answers() -> bool:
    import psycopg

    try:
        with psycopg.connect(POSTGRES_URL, connect_timeout=2) as connection:
            connection.execute("SELECT 1")
    except psycopg.Error:
        return False
    return True


def _chromium() -> str | None:
    # Django's settings are read by then.
    from releases.management.processes import find_chromium

    return find_chromium()


def find_nginx() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def _mariadb_program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


_CHECKS = {
    "postgres": ("PostgreSQL does not answer", _postgres_answers),
    "redis": ("Redis does not answer", lambda: _answers(6379)),
    "nginx": ("nginx is not installed", lambda: find_nginx() is not None),
    "mariadb": ("MariaDB is not installed", lambda: _mariadb_program("mariadbd") is not None),
    "spark": ("Java is not installed", lambda: shutil.which("java") is not None),
    "browser": ("Chromium is not installed", lambda: _chromium() is not None),
}


@cache
def _place(path: Path) -> int:
    """Where a file comes among all: the place of the first of SLOWEST that it is in, or after them."""
    within = path.relative_to(ROOT)
    return next((place for place, each in enumerate(SLOWEST) if within.is_relative_to(each)), len(SLOWEST))


class _Files(LoadScopeScheduling):
    """Gives each process that has nothing to do the next file."""

    @cached_property
    def _units(self) -> dict[str, str]:
        """The name of what is given as a whole, by test."""
        seen: Counter[str] = Counter()
        units = {}
        for test in self.collection or ():
            file = test.partition("::")[0]
            units[test] = ONE_SERVER[0] if file in ONE_SERVER else f"{file} {seen[file] // MOST_AT_ONCE}"
            seen[file] += 1
        return units

    def _split_scope(self, nodeid: str) -> str:
        return self._units[nodeid]


@pytest.hookimpl(tryfirst=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _Files:
    # They are in order already.
    config.option.loadscopereorder = False
    return _Files(config, log)


def pytest_sessionstart() -> None:
    """Modules and tests are there until the end, so nothing among them is looked through for what can be thrown away:
    not while they are collected, and not in each of the thousands of times after."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.collect()
    gc.freeze()
    # What is thrown away needs no search but where things refer to each other in a circle.
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def _with_room(call: Callable[..., object]) -> Callable[..., object]:
    """The same call, on a large piece of stack.

    Python takes its stack from the system in pieces of 16 kB and gives each back at once: where a loop happens to call
    at the end of a piece, each of its calls takes and returns one, which was a quarter of the time of all tests. A
    piece is at least as large as the frame that it is taken for, in powers of two, and those that follow have the rest.
    """

    def room(*given: object) -> object:
        return call(*given)

    room.__code__ = room.__code__.replace(co_stacksize=2**17)
    return room


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    return _with_room(runner_of_tests.pytest_runtest_protocol)(item, nextitem)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the slowest first. Skip what needs a service that is not there; in CI let it run and fail."""
    tests = Counter(item.path for item in items)
    items.sort(key=lambda item: (_place(item.path), -tests[item.path]))
    if REQUIRED:
        return
    missing = {
        mark: reason
        for mark, (reason, check) in _CHECKS.items()
        if any(item.get_closest_marker(mark) for item in items) and not check()
    }
    for item in items:
        for mark, reason in missing.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True, scope="session")
def _no_wait_for_discs():
    """No test cuts the power, so none needs what it wrote to have reached the disc."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings):
    """Requested before the test database is made: it is a copy of one that was migrated before."""
    import django.test.utils

    really = django.test.utils.setup_databases

    def setup_databases(*args, **options):
        from tests.migrated import migrated_once

        with migrated_once():
            return really(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(django.test.utils, "setup_databases", setup_databases)
        yield


@pytest.fixture(scope="session")
def _folders(tmp_path_factory):
    """A new folder each time: pytest looks through all that there are for the number of the next."""
    base = tmp_path_factory.mktemp("tests")
    return (base / str(number) for number in count())


@pytest.fixture
def tmp_path(_folders):
    path = next(_folders)
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def _own_folders(tmp_path):
    """Every test writes its tables, releases and marks to folders of its own, and none waits."""
    with override_settings(
        TABLES_DIR=tmp_path / "tables",
        RELEASES_DIR=tmp_path / "releases",
        MARKS_DIR=tmp_path / "marks",
        DATA_DIR=tmp_path / "var",
        # What fails is due again at once, but in the tests of the waiting.
        RETRY_SECONDS=0,
        # Tests of the rule set it themselves.
        REQUIRE_SECOND_FACTOR=[],
        # Slow hashing protects real passwords, not those of tests.
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    ):
        yield


@contextmanager
def _database(template: str = "template1", *, prefix: str = "") -> Iterator[str]:
    """The name of a PostgreSQL database that is a copy of another, dropped afterwards."""
    import psycopg

    name = f"{prefix}dpweb_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        # No test cuts the power.
        connection.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    try:
        yield name
    finally:
        with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _address(name: str) -> str:
    return POSTGRES_URL.rsplit("/", 1)[0] + f"/{name}"


@pytest.fixture
def postgres_database():
    """The URL of an empty PostgreSQL database, dropped afterwards."""
    with _database() as name:
        yield _address(name)


@pytest.fixture(scope="session")
def _migrated(tmp_path_factory):
    """A PostgreSQL database with the site's tables, to be copied: migrating takes longer than many a test."""
    with _database() as name:
        stack = Stack(tmp_path_factory.mktemp("migrated"), database_url=_address(name))
        stack.migrate()
        stack.stop()
        yield name


@pytest.fixture
def migrated_postgres(_migrated):
    """The URL of a PostgreSQL database that has the site's tables and nothing in them, dropped afterwards."""
    with _database(_migrated) as name:
        MIGRATED.add(_address(name))
        yield _address(name)


@pytest.fixture
def migrated_for_django(_migrated):
    """The same for tests that run against it: its URL without the `test_` that Django puts before its name."""
    with _database(_migrated, prefix="test_") as name:
        yield _address(name.removeprefix("test_"))


@pytest.fixture(scope="session")
def mariadb_server():
    """The port of a MariaDB server of these tests alone, whose settings are not those that anybody would expect; and
    its certificate."""
    import pymysql

    with tempfile.TemporaryDirectory(prefix="mariadb-") as folder, socket.create_server(("127.0.0.1", 0)) as probe:
        port, own = probe.getsockname()[1], ["--no-defaults", f"--datadir={folder}/data", f"--user={getpass.getuser()}"]
        install = [_mariadb_program("mariadb-install-db"), *own, "--auth-root-authentication-method=normal"]
        subprocess.run([*install, "--skip-test-db"], check=True, capture_output=True)
        probe.close()
        certificate, key = f"{folder}/certificate", f"{folder}/key"
        names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, *names]
        subprocess.run(made, check=True, capture_output=True)
        options = {
            "ssl-cert": certificate,
            "ssl-key": key,
            "socket": f"{folder}/socket",
            "port": port,
            "bind-address": "127.0.0.1",
            # A server deletes what it finds of others in the folder of temporary tables.
            "tmpdir": folder,
            "innodb-buffer-pool-size": "32M",
            "innodb-flush-log-at-trx-commit": "0",
            "performance-schema": "OFF",
            "sql-mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT",
            "default-time-zone": "+09:00",
            "character-set-server": "latin1",
            "default-regex-flags": "EXTENDED",
        }
        given = [f"--{name}={value}" for name, value in options.items()]
        server = subprocess.Popen(
            [_mariadb_program("mariadbd"), *own, *given], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            while True:
                assert server.poll() is None, "MariaDB does not start"
                with suppress(pymysql.OperationalError), pymysql.connect(host="127.0.0.1", port=port, user="root"):
                    break
            yield port, certificate
        finally:
            server.terminate()
            server.wait()


@pytest.fixture
def mariadb_database(mariadb_server):
    """The URL of an empty database of MariaDB."""
    import pymysql

    name, (port, _) = f"clinic_{uuid.uuid4().hex[:12]}", mariadb_server
    with pymysql.connect(host="127.0.0.1", port=port, user="root") as connection:
        connection.cursor().execute(f"CREATE DATABASE {name}")
    return f"mariadb://root@127.0.0.1:{port}/{name}?sslmode=disable"


def _read_here(job, *, limits, report=None, memory=0, seconds=0, has_network=False, **given):
    """A job of the runner in this process: without its limits, and without the time a process takes."""
    from releases.engine.tables.facts import UnreadableTable
    from releases.worker import jobs

    told = given if report is None else {**given, "report": report}
    folder = Path(tempfile.mkdtemp(dir=limits.temp_folder))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "_is_confined", True)
        try:
            return jobs.JOBS[job.__name__](**told, limits=replace(limits, temp_folder=folder))
        except (UnreadableTable, Cancelled):
            raise
        except MemoryError:
            raise runner.OverLimit("It takes more memory than a table may take.") from None
        except Exception as error:
            raise runner.Failed("The table cannot be read.") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def _reads_here(request, monkeypatch):
    """Tables are read in the test's own process, except in tests of the confined one. Journeys have real workers."""
    if not request.node.get_closest_marker("confined"):
        monkeypatch.setattr(runner, "run", _read_here)
        monkeypatch.setattr(runner, "warm", lambda **_: None)


@pytest.fixture(autouse=True)
def _draws_at_once(request, monkeypatch):
    """The program that draws charts takes a second to start: it draws in tests of reports alone, and in journeys.

    Patched by itself, so that what is set up for many tests is still played from its recording.
    """
    from releases.publication import drawing, report

    assert report.draw.__module__ == report.__name__, "an earlier test left what draws charts patched"
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("draws"):
            # How long it takes says how busy the machine is.
            patch.setattr(report, "_TIMEOUT", None)
        else:
            patch.setattr(report, "draw", lambda work: (work / drawing.PDF).write_bytes(b"%PDF-1.7 of a test"))
        yield
        # What the test patched itself comes off first: it holds what is patched here as what was there before.
        monkeypatch.undo()


@pytest.fixture
def opens_tables(monkeypatch):
    """For tests that compare with what is in a table: it may be opened in this process too."""
    monkeypatch.setattr(connection, "_is_confined", True)


@pytest.fixture
def unread(monkeypatch):
    """No table is read from here on."""
    monkeypatch.setattr(runner, "run", lambda job, **_: pytest.fail(f"a table was read ({job.__name__})"))
