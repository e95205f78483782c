"""The site's processes, started as children and stopped as a whole: a Celery worker and gunicorn."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from django.conf import settings


def find_chromium() -> str | None:
    """Chromium on this machine, rather the one without windows, which opens a page in a third of the time."""
    programs = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, programs)), None)


class Child:
    """A child process in a group of its own, with its output in a log file."""

    def __init__(self, name: str, command: list[str], *, log_folder: Path, environment: dict[str, str]) -> None:
        log_folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.log = log_folder / f"{name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(  # noqa: S603  our own interpreter
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=settings.BASE_DIR,
                env={**os.environ, **environment},
                # Ctrl-C goes to this command, which then stops its children in order.
                start_new_session=True,
            )

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, *, grace: float = 10.0) -> None:
        """Ask the child to stop, then end its whole group."""
        if self.is_alive():
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(grace)
        self.kill()

    def kill(self) -> None:
        """End the child and everything it started, at once."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_worker(
    *, log_folder: Path, environment: dict[str, str] | None = None, name: str = "worker", queue: str = ""
) -> Child:
    """A Celery worker that does one thing at a time: releases and uploads, or what waits in one queue."""
    command = [
        *(sys.executable, "-m", "celery", "--app", "dpweb", "worker"),
        *("--concurrency", "1", "--loglevel", "INFO", "--without-gossip", "--without-mingle"),
        *(("--queues", queue, "--hostname", f"{name}@%h") if queue else ()),
    ]
    return Child(name, command, log_folder=log_folder, environment=environment or {})


def start_site(address: str, *, log_folder: Path, environment: dict[str, str] | None = None) -> Child:
    """gunicorn with threads, over static files collected again; its control socket would be one more way in."""
    collect = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    subprocess.run(  # noqa: S603  our own interpreter
        collect, cwd=settings.BASE_DIR, env={**os.environ, **(environment or {})}, check=True
    )
    command = [
        *(sys.executable, "-m", "gunicorn", "dpweb.wsgi", "--bind", address, "--no-control-socket"),
        *("--worker-class", "gthread", "--threads", "8", "--timeout", "120"),
    ]
    return Child("site", command, log_folder=log_folder, environment=environment or {})


def free_address(first: int = 8000, *, last: int | None = None) -> str:
    """The first free port on this machine from `first` on, up to `last`."""
    for port in range(first, (first + 199 if last is None else last) + 1):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return f"127.0.0.1:{port}"
    raise RuntimeError("No free port was found.")


def wait_until_answers(address: str, child: Child, *, seconds: float = 60.0) -> bool:
    """Whether the site answers in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and child.is_alive():
        try:
            with urllib.request.urlopen(f"http://{address}/catalogue/", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return False
