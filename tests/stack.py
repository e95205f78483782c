"""A whole installation of its own for one test: database, broker, worker, site, as processes that can be killed."""

from __future__ import annotations

import atexit
import json
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import chdir
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]

PREPARE = """
import json, uuid
from pathlib import Path
from django.contrib.auth.models import User
from releases import services
from releases.engine.accounting.filters import Policy
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.models import Budget, Dataset, HeldRole, LedgerEntry, Release

def people():
    alice, _ = User.objects.get_or_create(username="alice", defaults={"email": "alice@example.org"})
    sofia, _ = User.objects.get_or_create(username="sofia")
    for person, role in ((alice, "curator"), (sofia, "reviewer"), (sofia, "administrator")):
        HeldRole.objects.get_or_create(person=person, role=role)
    return alice, sofia

def budgeted(epsilon, columns, table, delta="0.000001"):
    alice, sofia = people()
    dataset = services.datasets.ingest_dataset(owner=alice, title="Survey", source=Path(table))
    services.datasets.declare_universe(dataset=dataset, columns=columns)
    services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(),
        neighbours=NeighbouringRelation.ADD_REMOVE)
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon=epsilon, delta=delta, policy=Policy.ZCDP, reason="", by=alice)
    services.budgets.approve_request(request=asked, by=sofia)
    dataset.refresh_from_db()
    return dataset

def draft(dataset, epsilon="1", mechanism="laplace-queries", queries=({"marginals": 1},)):
    release = services.releases.draft_release(dataset=dataset, by=dataset.owner)
    services.releases.set_questions(release=release, workload={"version": 1, "queries": list(queries)})
    services.releases.set_choice(release=release, epsilon=epsilon, mechanism_name=mechanism)
    return release
"""


#: The processes that run scripts are forked from one that has imported what depends on no settings.
_FORKED = multiprocessing.get_context("forkserver")
_FORKED.set_forkserver_preload(
    [
        *("celery", "django.contrib.auth.hashers", "django.db.models", "django.forms", "mpmath", "numba", "pydantic"),
        *("pyarrow.compute", "pyarrow.parquet", "xlsxwriter", "latex2mathml.converter", "markdown_it"),
        *("releases.engine.mechanisms.base", "releases.engine.run"),
        *("releases.engine.tables.files.ingest", "releases.engine.tables.query"),
    ]
)


def _serve(environment: dict[str, str], asked: Connection) -> None:
    """Set Django up once, and the process that reads tables. Get lists of paths of scripts, run those of one list at
    once, each in a fork of its own with its output in files beside it, and send how each ended."""
    os.setsid()
    os.chdir(ROOT)
    os.environ.clear()
    os.environ.update(environment)
    import django

    django.setup()
    # What most scripts need, imported once.
    import allauth.mfa.models  # noqa: F401

    import releases.publication.files
    import releases.services
    import releases.urls  # noqa: F401
    from releases.engine.mechanisms.base import mechanisms
    from releases.worker import runner

    mechanisms()
    # A fork forgets the process of its parent, and would import everything into one of its own.
    runner.warm()
    reader = os.dup(runner._requests.fileno())
    while True:
        children = []
        for path in asked.recv():
            children.append(os.fork())
            if children[-1] == 0:
                runner._requests = socket.socket(fileno=reader)
                _run(path)
        asked.send([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])


def _run(path: str) -> NoReturn:
    code = 1
    try:
        for name, number in (("out", 1), ("err", 2)):
            os.dup2(os.open(f"{path}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        exec(compile(Path(path).read_text(), path, "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
    except BaseException:  # noqa: BLE001  its output is what a test reads
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


#: Seconds after which a script hangs, on however busy a machine.
_PATIENCE = 600
#: Addresses of databases that were made as copies of a migrated one.
MIGRATED: set[str] = set()
#: What `migrate` leaves behind, once for this process.
_MADE = Path(tempfile.mkdtemp(prefix="dpweb-migrated-"))
atexit.register(shutil.rmtree, _MADE, ignore_errors=True)


class Stack:
    """Environment and processes of one installation below `folder`."""

    def __init__(self, folder: Path, *, database_url: str = "", broker_url: str = "", lease: int = 3) -> None:
        self.folder = folder
        self.environment = {
            **os.environ,
            "DATA_DIR": str(folder / "var"),
            "LEASE_SECONDS": str(lease),
            "REQUIRE_SECOND_FACTOR": "",
            "RETRY_SECONDS": "0",
            "DJANGO_SETTINGS_MODULE": "dpweb.settings",
            "PYTHONPATH": str(ROOT),
        }
        for name, value in (("DATABASE_URL", database_url), ("CELERY_BROKER_URL", broker_url)):
            self.environment.pop(name, None)
            if value:
                self.environment[name] = value
        self.processes: list[subprocess.Popen[bytes]] = []
        self._server: tuple[BaseProcess, Connection] | None = None
        self._served: dict[str, str] = {}
        self._asking = threading.Lock()

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `manage.py` in a process of its own."""
        return self._fork(
            [
                f"""
from django.core.management import execute_from_command_line
execute_from_command_line({["manage.py", *arguments]!r})
"""
            ]
        )[0]

    def migrate(self) -> None:
        """Make the database; an embedded one as a copy of the first that this test run made."""
        migrated = _MADE / "db.sqlite3"
        folder = self.folder / "var"
        if (url := self.environment.get("DATABASE_URL")) is not None:
            if url not in MIGRATED:
                self._migrate()
        elif migrated.exists() and not folder.exists():
            shutil.copytree(_MADE, folder)
        else:
            self._migrate()
            if not migrated.exists():
                shutil.copytree(folder, _MADE, dirs_exist_ok=True)

    def _migrate(self) -> None:
        done = self.manage("migrate", "--verbosity", "0")
        assert done.returncode == 0, done.stderr

    def script(self, code: str) -> list[str]:
        """The command line that runs `code` inside this installation, after PREPARE."""
        return [sys.executable, self._written("import django\ndjango.setup()\n" + PREPARE + textwrap.dedent(code))]

    def _written(self, code: str) -> str:
        path = self.folder / f"script-{time.monotonic_ns()}.py"
        path.write_text(code)
        return str(path)

    def run(self, code: str) -> object:
        """Run `code`; what it assigns to `answer` comes back through JSON."""
        asked = textwrap.dedent(code) + "\nprint('ANSWER ' + json.dumps(answer if 'answer' in globals() else None))"
        (done,) = self.run_at_once([asked])
        assert done.returncode == 0, done.stderr or f"the script ended with {done.returncode}"
        return json.loads(done.stdout.rsplit("ANSWER ", 1)[1])

    def run_at_once(self, codes: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
        """Run each code after PREPARE at the same time in a process of its own, which may fail or be killed."""
        return self._fork([PREPARE + textwrap.dedent(code) for code in codes])

    def _fork(self, codes: Sequence[str]) -> list[subprocess.CompletedProcess[str]]:
        paths = [self._written(code) for code in codes]
        with self._asking:
            server, asking = self._running_server()
            # A script that hangs is a failure, not a test run without end.
            alarm = threading.Timer(_PATIENCE, lambda: os.killpg(server.pid, signal.SIGKILL))
            alarm.start()
            try:
                asking.send(paths)
                ended = asking.recv()
            except (EOFError, OSError):
                ended = [-signal.SIGKILL] * len(paths)
            finally:
                alarm.cancel()
        said = [[Path(f"{path}.{name}") for name in ("out", "err")] for path in paths]
        return [
            subprocess.CompletedProcess(path, code, *(each.read_text() if each.exists() else "" for each in files))
            for path, code, files in zip(paths, ended, said, strict=True)
        ]

    def _running_server(self) -> tuple[BaseProcess, Connection]:
        """The process that runs scripts, and how it is asked; a new one where the environment is another by now."""
        if self._server is None or not self._server[0].is_alive() or self._served != self.environment:
            self._end_server()
            self._served = dict(self.environment)
            asking, asked = _FORKED.Pipe()
            with chdir(ROOT):
                server = _FORKED.Process(target=_serve, args=(self._served, asked), daemon=True)
                server.start()
            asked.close()
            self._server = server, asking
        return self._server

    def _end_server(self) -> None:
        if self._server is not None:
            server, asking = self._server
            if server.is_alive():
                os.killpg(server.pid, signal.SIGKILL)
            server.join()
            asking.close()

    def start(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("ab") as file:
            process = subprocess.Popen(
                command, cwd=ROOT, env=self.environment, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
        self.processes.append(process)
        return process

    def start_worker(self, log: str = "worker.log", *, queue: str = "") -> subprocess.Popen[bytes]:
        """A worker of both queues, or of one."""
        command = [sys.executable, "-m", "celery", "--app", "dpweb", "worker", "--concurrency", "1"]
        command += ["--queues", queue, "--hostname", f"{queue}@%h"] if queue else []
        return self.start([*command, "--loglevel", "INFO", "--without-gossip", "--without-mingle"], log)

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """SIGKILL to the whole tree, at once."""
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def wait_for(self, code: str, *, seconds: float = 240) -> object:
        """Run `code` again and again until it assigns something true to `answer`."""
        waiting = (
            "import time\nfrom django.db import connection\n"
            f"deadline = time.monotonic() + {seconds}\nanswer = None\n"
            "while not answer and time.monotonic() < deadline:\n"
            + textwrap.indent(textwrap.dedent(code), "    ")
            + "\n    connection.close()\n    time.sleep(0.05)\n"
        )
        found = self.run(waiting)
        assert found, f"nothing came within {seconds} s:\n{self.logs()}"
        return found

    def logs(self) -> str:
        return "\n".join(f"== {path.name}\n{path.read_text()[-4000:]}" for path in self.folder.glob("*.log"))

    def stop(self) -> None:
        self._end_server()
        for process in self.processes:
            if process.poll() is None:
                self.kill(process)
