"""The only way to a table: each job in a confined process of its own, which lives no longer than the job.

    run      a job of ``jobs.py``, within so much time and memory, and without a network unless the table is in a
             registered database or storage
    warm     have the process ready that the jobs' processes are forked from, so that the first job need not wait for it

That process (``reader.py``) is a fresh program rather than a fork of this one: DuckDB, OpenBLAS and numba have threads,
and a fork of a process with threads can hang. It is made by a thread that lasts, ends when this process does, and its
children end with it. What a job sends back is read as plain values and the engine's own classes, and nothing else.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Any

from django.conf import settings

from releases.engine.errors import EngineError
from releases.engine.tables.connection import Limits

logger = logging.getLogger(__name__)

#: Settings that hold secrets: a process that parses other people's files has none of them.
_SECRETS = ("SECRET_KEY", "DIGEST_KEY", "DATABASE_URL", "CELERY_BROKER_URL", "CACHE_URL", "EMAIL_URL", "METRICS_TOKEN")
#: Each job gets the password that it needs, and no other.
_SECRETS_OF_CONNECTIONS = "CONNECTION_"
#: What a library that reaches storage or PostgreSQL would take from the environment, an account's files or a service of
#: the machine: who signs in is in the job alone, and where.
_AMBIENT = ("AWS_", "PG")
_NOTHING_AMBIENT = {
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
#: The usual one reserves a gibibyte at its first use, which counts as memory.
ARROW_POOL = {"ARROW_DEFAULT_MEMORY_POOL": "system"}
#: What an answer may hold beside the engine's classes.
_PLAIN = {
    "builtins": {"set", "frozenset", "slice", "complex"},
    "collections": {"OrderedDict"},
    "copyreg": {"_reconstructor"},
    # What a session keeps of its universe names the declared dates.
    "datetime": {"date", "datetime"},
    "decimal": {"Decimal"},
    "fractions": {"Fraction"},
    "numpy": {"dtype", "ndarray"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
    "pathlib": {"Path", "PosixPath"},
}


class ReaderError(EngineError):
    """A table was not read. The text is the same whatever is in the table."""


class OverLimit(ReaderError):
    """It takes more time or memory than it may."""


class Ended(ReaderError):
    """Its process ended in the middle."""


class Crashed(Ended):
    """A library in its process crashed, or ended it: the same job would end so again."""


class Failed(ReaderError):
    """Reading it failed."""


def run(
    job: Callable[..., Any],
    *,
    limits: Limits,
    memory: int,
    seconds: float,
    report: Callable[[str, float], None] | None = None,
    has_network: bool = False,
    **given: Any,
) -> Any:
    """Run a job in a confined process.

    Args:
        job: one of `jobs.JOBS`.
        limits: of its connection. It gets a folder of its own below the one that is named there.
        memory: bytes that its process may take.
        seconds: how long it may take.
        report: called with each step and the share done; where it raises, the process is ended.
        has_network: for a table in a registered database or storage.
        given: the job's own arguments.

    Raises:
        UnreadableTable: the file is no table that can be read. The text is for the person who has it.
        OverLimit: it takes more time or memory than it may.
        Crashed: a library that it runs did.
        Ended: something else ended the process.
        Failed: something else; the log says where.
    """
    begun = monotonic()
    folder = Path(tempfile.mkdtemp(dir=limits.temp_folder))
    request = {
        "job": job.__name__,
        "memory": memory,
        "seconds": seconds,
        "has_network": has_network,
        "reports": report is not None,
        "given": {**given, "limits": replace(limits, temp_folder=folder)},
    }
    try:
        with _process() as (stream_of, how_it_ended):
            try:
                stream = stream_of(seconds)
                pickle.dump(request, stream, protocol=pickle.HIGHEST_PROTOCOL)
                stream.flush()
                return _follow(stream_of, begun + seconds, report)
            except TimeoutError:
                raise OverLimit("It takes longer than a table may take.") from None
            except (EOFError, ConnectionError):
                raise how_it_ended() from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def warm(*, compiled: bool = False) -> None:
    """Make ready, without waiting for it.

    Args:
        compiled: also compile the loops that no earlier process has left compiled.
    """
    with _lock:
        _running(compiled=compiled)


def _follow(stream_of: Any, until: float, report: Callable[[str, float], None] | None) -> Any:
    from releases.engine.tables.facts import UnreadableTable

    while True:
        stream = stream_of(until - monotonic())
        try:
            kind, *received = _Answers(stream).load()
        except TimeoutError:
            raise
        except Exception:  # noqa: BLE001  whatever comes of an answer that is cut off, or is none
            raise EOFError from None
        if kind == "step":
            if report is not None:
                report(*received)
        elif kind == "done":
            return received[0]
        elif kind == "unreadable":
            raise UnreadableTable(received[0], value=received[1], field=received[2])
        elif kind == "out of memory":
            raise OverLimit("It takes more memory than a table may take.")
        else:
            logger.error("reading a table failed: %s at %s", *received)
            raise Failed("The table cannot be read.")


#: What others send to a process, the kernel where the whole machine has no memory left too: no fault of the file.
_FROM_OTHERS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGALRM)
#: How long the process that forks may take to say how one ended; it does nothing else.
_SECONDS_TO_HEAR = 30


def _ended(code: int) -> Ended:
    """By the code with which a process ended that gave no answer, or the signal, which is below zero."""
    if -code in _FROM_OTHERS:
        return Ended("The process that read the table ended before it was done.")
    return Crashed("The process that read the table crashed.")


class _Answers(pickle.Unpickler):
    """Reads plain values and the engine's classes; what parsed somebody's file is not to name any other code."""

    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        if module.startswith("releases.engine."):
            found = super().find_class(module, name)
            if isinstance(found, type):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of an answer")


@contextmanager
def _process() -> Iterator[tuple[Callable[[float], Any], Callable[[], Ended]]]:
    """A process that waits for its job.

    Returns:
        what gives its stream, which takes as its limit how long an answer may take; and what says how the process
        ended, and ends it if need be.
    """
    (ours, theirs), (end, their_end) = socket.socketpair(), socket.socketpair()
    handle, stream = -1, None
    with ours, end:
        with theirs, their_end:
            _hand_over(theirs, their_end)

        def stream_of(seconds: float) -> Any:
            nonlocal handle, stream
            ours.settimeout(max(seconds, 0.001))
            if stream is None:
                received, descriptors, *_ = socket.recv_fds(ours, 1, 1)
                if not received:
                    raise EOFError
                (handle,) = descriptors
                stream = ours.makefile("rwb")
            return stream

        def kill() -> None:
            if handle >= 0:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)

        def how_it_ended() -> Ended:
            kill()
            end.settimeout(_SECONDS_TO_HEAR)
            # Nothing comes where the process that it was forked from has ended too.
            with suppress(OSError):
                if code := end.recv(16):
                    return _ended(int(code))
            return _ended(-signal.SIGKILL)

        try:
            yield stream_of, how_it_ended
        finally:
            kill()
            if handle >= 0:
                os.close(handle)
            if stream is not None:
                _close(stream)


def _close(stream: Any) -> None:
    # What was not sent yet goes nowhere.
    with suppress(OSError):
        stream.close()


# --- the process that those of jobs are forked from ------------------------------------------------------------------

_lock = threading.Lock()
_reader: subprocess.Popen[bytes] | None = None
_requests: socket.socket | None = None
#: The thread that makes it, and lasts: the kernel ends a process together with the thread that made it.
_maker: ThreadPoolExecutor | None = None


def _hand_over(*of_a_job: socket.socket) -> None:
    handed = [each.fileno() for each in of_a_job]
    with _lock:
        try:
            socket.send_fds(_running(), [b"."], handed)
        except OSError:
            # It ended since it was looked at.
            _end()
            socket.send_fds(_running(), [b"."], handed)


def _running(*, compiled: bool = False) -> socket.socket:
    """The socket of the process that forks; made where there is none."""
    global _reader, _requests, _maker
    if _reader is not None and _reader.poll() is not None:
        _end()
    if _requests is None:
        _maker = _maker or ThreadPoolExecutor(1, thread_name_prefix="makes readers")
        _requests, theirs = socket.socketpair()
        with theirs:
            _reader = _maker.submit(_make, theirs, compiled).result()
    return _requests


def _make(requests: socket.socket, compiled: bool) -> subprocess.Popen[bytes]:
    hidden = {each for name in _SECRETS for each in (name, f"{name}_FILE")}
    hidden |= {name for name in os.environ if name.startswith((_SECRETS_OF_CONNECTIONS, *_AMBIENT))}
    environment = (
        {name: value for name, value in os.environ.items() if name not in hidden} | _NOTHING_AMBIENT | ARROW_POOL
    )
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(settings.BASE_DIR), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(  # noqa: S603  this program itself
        [
            *(sys.executable, "-m", "releases.worker.reader", str(requests.fileno()), str(os.getpid())),
            "warm" if compiled else "as it is",
        ],
        env=environment,
        stdin=subprocess.DEVNULL,
        pass_fds=[requests.fileno()],
        # A key pressed in the terminal ends what waits for the job in good order, and the job with it.
        start_new_session=True,
    )


def _end() -> None:
    global _reader, _requests
    if _requests is not None:
        _requests.close()
    if _reader is not None:
        _reader.kill()
        _reader.wait()
    _reader = _requests = None


def _forget() -> None:
    """In a process that was forked: the reader is that of its parent, and must see it go."""
    global _reader, _requests, _maker, _lock
    if _requests is not None:
        _requests.close()
    if _reader is not None:
        # It is no child of this process, so there is nothing to wait for.
        _reader.returncode = 0
    _reader = _requests = _maker = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_forget)
