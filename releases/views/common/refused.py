"""What a service refuses, shown as a message on the page that follows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.http import HttpRequest

from releases.display.error_messages import in_words
from releases.services.release_inputs import Refusal


@contextmanager
def refusals_shown(request: HttpRequest, *kinds: type[Exception]) -> Iterator[None]:
    """What comes after a refusal within it is not done; other errors than these and `Refusal` go on."""
    shown: tuple[type[Exception], ...] = (Refusal, *kinds)
    try:
        yield
    except shown as error:
        messages.error(request, in_words(error))
