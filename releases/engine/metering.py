"""A place where whoever plans for others can meter it: asked before questions are read and before anything is planned.

The engine knows nothing of who asks. A caller that sets nothing, such as a worker or a command, is not metered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called before work that a plan's author can make long; raises what the caller wants to hear of it.
before_planning: ContextVar[Callable[[], None] | None] = ContextVar("before_planning", default=None)


def meter() -> None:
    """Ask for leave to plan."""
    if (ask := before_planning.get()) is not None:
        ask()


@contextmanager
def unmetered() -> Iterator[None]:
    """For work that nobody can make long any more, such as to read what a release has answered."""
    token = before_planning.set(None)
    try:
        yield
    finally:
        before_planning.reset(token)
