"""What a process that parses other people's files is denied by the kernel, from here to its end.

    dies_with_parent   SIGKILL as soon as the process that made it has gone
    limit              memory, time, no core dump
    deny_network       no socket can be made

Memory is bounded by RLIMIT_DATA: private writable memory, counted by the kernel when it is asked for. RLIMIT_AS would
count what DuckDB, OpenBLAS and numba merely reserve, and mapped files. Watching the resident size from outside comes
too late for one large allocation. An allocation that is refused is an error that can be caught; where the kernel runs
out of memory it picks a process to kill, which may be another.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
import struct

_PR_SET_PDEATHSIG, _PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 1, 22, 38
_SECCOMP_MODE_FILTER = 2
#: Of a machine: its number in seccomp's data, and of the calls that make sockets (socket, socketpair, io_uring_setup).
_MACHINES = {"x86_64": (0xC000003E, (41, 53, 425)), "aarch64": (0xC00000B7, (198, 199, 425))}
#: Calls of the 32-bit kind on a 64-bit Intel machine have this bit.
_X32 = 0x40000000
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_KILL, _REFUSE, _ALLOW = 0x80000000, 0x00050000 | 13, 0x7FFF0000
_ROOM_FOR_AN_ANSWER = 16 << 20
#: Where the number of the call and of the machine are in what a filter sees.
_CALL, _MACHINE = 0, 4


class NotConfined(RuntimeError):
    """The kernel does not confine a process, so no table is read."""


def dies_with_parent(parent: int) -> None:
    """Tie this process to the one that made it.

    The signal comes when the thread that made this process ends, so that must be one that lasts.

    Args:
        parent: its number; if it is gone already, this process ends here.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def limit(*, memory: int, seconds: float) -> None:
    """So many bytes of memory, and so many seconds until the kernel ends this process."""
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory + _ROOM_FOR_AN_ANSWER))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def leave_room_for_an_answer() -> None:
    """Of a process that had no memory left: what it says of that takes some."""
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def deny_network() -> None:
    """No socket from here on, in this process and in all that it makes.

    Raises:
        NotConfined: on a machine of which it is not known how, or where the kernel refuses.
    """
    if platform.machine() not in _MACHINES:
        raise NotConfined(f"Machines of the kind {platform.machine()} are not supported.")
    machine, calls = _MACHINES[platform.machine()]
    program = [
        _step(_LOAD, _MACHINE),
        _step(_EQUAL, machine, 1, 0),
        _step(_RETURN, _KILL),
        _step(_LOAD, _CALL),
        _step(_AT_LEAST, _X32, len(calls), 0),
        # To the refusal, and past it where it is none of them.
        *(_step(_EQUAL, call, after, 0 if after else 1) for call, after in zip(calls, (2, 1, 0), strict=True)),
        _step(_RETURN, _REFUSE),
        _step(_RETURN, _ALLOW),
    ]
    code = ctypes.create_string_buffer(b"".join(program))
    # The kernel's sock_fprog: how many steps, and where they are.
    about = ctypes.create_string_buffer(struct.pack("@HP", len(program), ctypes.addressof(code)))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(about))


def _step(code: int, value: int, if_so: int = 0, if_not: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_so, if_not, value)


def _prctl(option: int, first: int, second: int = 0) -> None:
    kernel = ctypes.CDLL(None, use_errno=True)
    arguments = [ctypes.c_ulong(each) for each in (first, second, 0, 0)]
    if kernel.prctl(ctypes.c_int(option), *arguments) != 0:
        raise NotConfined(f"The kernel refuses to confine a process ({os.strerror(ctypes.get_errno())}).")
