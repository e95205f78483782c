"""The other side of ``runner.py``: a process that has everything imported, and forks one confined child a job.

It runs no thread of its own and opens no table, so its children begin with no connection, no lock and no state of
another job. A child does one job and ends. It knows no database, no broker and no secret of the site but the key of the
digests, where a job needs it.

    python -m releases.worker.reader SOCKET PARENT WARM
"""

from __future__ import annotations

import errno
import gc
import os
import pickle
import signal
import socket
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from releases.worker import confinement

#: The kernel's clock rings so much later than the caller's, which says why it ends a job.
_GRACE_SECONDS = 5
#: Reports of one step come at most this often.
_REPORT_SECONDS = 0.05


def serve(requests: socket.socket, *, warm: bool) -> None:
    """Take two sockets a job from `requests` until whoever sends them is gone.

    The child answers on one. How it ended is said on the other, so that nothing follows an answer that was cut off.
    """
    _import_all(warm=warm)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # By the number of the child, of those that have not ended.
    ends: dict[int, socket.socket] = {}
    signal.signal(signal.SIGCHLD, lambda *_: _say_how_they_ended(ends))
    me = os.getpid()
    while True:
        received, descriptors, *_ = socket.recv_fds(requests, 1, 2)
        if not received:
            return
        caller, end = (socket.socket(fileno=each) for each in descriptors)
        # It may end before it is among them.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        if (child := os.fork()) == 0:
            for other in (requests, end, *ends.values()):
                other.close()
            _child(caller, parent=me)
        caller.close()
        ends[child] = end
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _say_how_they_ended(ends: dict[int, socket.socket]) -> None:
    """A child that a library ends says nothing itself. Whoever has an answer already hears nothing of this."""
    while ends:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        with ends.pop(child) as end, suppress(OSError):
            end.send(str(os.waitstatus_to_exitcode(status)).encode())


def _import_all(*, warm: bool) -> None:
    import duckdb
    import numba  # noqa: F401
    import pyarrow.feather
    import pyarrow.parquet  # noqa: F401
    import pyreadstat  # noqa: F401
    import python_calamine  # noqa: F401

    # What a thread keeps of DuckDB is made when the thread first uses it. A process that has no memory for that is
    # aborted.
    duckdb.tokenize("SELECT 1")

    from releases.engine.estimation import warmup
    from releases.worker import jobs  # noqa: F401

    if warm or warmup.are_compiled():
        warmup.compile_loops()
    # What is there is left alone, so that the children share it.
    gc.collect()
    gc.freeze()


def _child(caller: socket.socket, *, parent: int) -> None:
    """Never returns."""
    status = 1
    try:
        confinement.dies_with_parent(parent)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        # What a library prints as it dies can hold rows.
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)
        handle = os.pidfd_open(os.getpid())
        socket.send_fds(caller, [b"."], [handle])
        os.close(handle)
        with caller.makefile("rwb") as stream:
            request = pickle.load(stream)  # noqa: S301  from the process that made this one
            _say(stream, _outcome(request, stream))
        status = 0
    finally:
        os._exit(status)


def _outcome(request: dict[str, Any], stream: Any) -> tuple[Any, ...]:
    from releases.engine.tables.connection import this_process_is_confined
    from releases.engine.tables.facts import UnreadableTable
    from releases.worker.jobs import JOBS

    try:
        confinement.limit(memory=request["memory"], seconds=request["seconds"] + _GRACE_SECONDS)
        if not request["has_network"]:
            confinement.deny_network()
        this_process_is_confined()
        given = request["given"] | ({"report": _Report(stream)} if request["reports"] else {})
        return "done", JOBS[request["job"]](**given)
    except BaseException as error:  # noqa: BLE001  whatever a library raises; its text can hold rows
        confinement.leave_room_for_an_answer()
        if isinstance(error, UnreadableTable):
            return "unreadable", error.rule, str(error.value), error.field
        if _is_short_of_memory(error):
            return ("out of memory",)
        return "failed", type(error).__name__, _places(error)


def _is_short_of_memory(error: BaseException) -> bool:
    """Whether the limit of memory is behind it: Python, DuckDB and the system each have their own error for that, and
    Python has a fourth where there is no room for the stack of a thread."""
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryException"
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or (isinstance(error, RuntimeError) and str(error) == "can't start new thread")
    )


class _Report:
    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.step, self.said_at = "", 0.0

    def __call__(self, step: str, share: float) -> None:
        if step != self.step or monotonic() - self.said_at >= _REPORT_SECONDS:
            self.step, self.said_at = step, monotonic()
            _say(self.stream, ("step", step, float(share)))


def _say(stream: Any, message: tuple[Any, ...]) -> None:
    pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
    stream.flush()


def _places(error: BaseException) -> str:
    """Where it failed, never with which values."""
    frames = traceback.extract_tb(error.__traceback__)[::-1]
    return " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames)


if __name__ == "__main__":
    confinement.dies_with_parent(int(sys.argv[2]))
    serve(socket.socket(fileno=int(sys.argv[1])), warm=sys.argv[3] == "warm")
