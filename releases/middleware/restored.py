"""Looks once in each process, before its first request, whether its database is a restored backup.

Then all sign-ins and tokens of before end, and nobody whose account was closed comes in by one of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from releases import services
from releases.worker.failures import log_failure

logger = logging.getLogger(__name__)
_looked = False


class RestoredBackupMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        look_once()
        return self.get_response(request)


def look_once() -> None:
    global _looked
    if _looked:
        return
    try:
        services.reapplying.notice_restored()
        _looked = True
    except Exception as error:  # noqa: BLE001  whatever is away: a request must not fail for it
        # The database is away, or not migrated yet: the next request looks again.
        log_failure(logger, "looking for a restored backup", error)
