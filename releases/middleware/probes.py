"""What machines ask of the site: whether it lives, whether it can work, and its figures.

    /healthz    this process answers; asks nothing of anything else
    /readyz     what the site needs, each part by name; a stranger learns which part fails and no more
    /metrics    figures for Prometheus (see ``metrics.py``), for whoever shows METRICS_TOKEN

They stand before everything else: no cookie, no sign-in, no redirect to HTTPS, and any host name will do, since a
balancer asks by a machine's own address.
"""

from __future__ import annotations

import hmac
import logging
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from celery import current_app
from django.conf import settings
from django.core.cache import cache as shared_cache
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.crypto import get_random_string

from releases.middleware import metrics

logger = logging.getLogger(__name__)

#: Seconds after which a broker that says nothing is taken to be away.
_BROKER_SECONDS = 2


class ProbesMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        asked = request.path_info
        if asked not in ("/healthz", "/readyz", "/metrics") or (asked == "/metrics" and not settings.METRICS_TOKEN):
            return self.get_response(request)
        answer: HttpResponse
        if request.method not in ("GET", "HEAD"):
            answer = HttpResponseNotAllowed(["GET", "HEAD"])
        elif asked == "/healthz":
            answer = JsonResponse({"site": "ok"})
        else:
            answer = readyz() if asked == "/readyz" else show_metrics(request)
        answer["Cache-Control"] = "no-store"
        answer["X-Content-Type-Options"] = "nosniff"
        return answer


def readyz() -> HttpResponse:
    """Every part is looked at, also after one that fails. What went wrong is in the log, by its kind alone."""
    found = {}
    for name, check in CHECKS.items():
        try:
            check()
            found[name] = "ok"
        except Exception as error:  # noqa: BLE001  whatever a client raises when its server is away
            logger.warning("not ready: %s (%s)", name, type(error).__name__)
            found[name] = "failing"
    return JsonResponse(found, status=200 if set(found.values()) == {"ok"} else 503)


def show_metrics(request: HttpRequest) -> HttpResponse:
    shown = request.headers.get("Authorization", "")
    if not hmac.compare_digest(shown.encode(), f"Bearer {settings.METRICS_TOKEN}".encode()):
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer"}, content_type="text/plain")
    text, content_type = metrics.exposed(accept=request.headers.get("Accept", ""))
    return HttpResponse(text, content_type=content_type)


class NotReady(Exception):
    """A part answers, but not as it should."""


def _database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()


def _broker() -> None:
    options = dict(settings.CELERY_BROKER_TRANSPORT_OPTIONS)
    if settings.CELERY_BROKER_URL.startswith("redis"):
        options |= {"socket_connect_timeout": _BROKER_SECONDS, "socket_timeout": _BROKER_SECONDS}
    with current_app.connection_for_write(transport_options=options) as broker:
        broker.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=_BROKER_SECONDS)


def _cache() -> None:
    key, value = f"readyz-{get_random_string(12)}", get_random_string(12)
    shared_cache.set(key, value, timeout=60)
    if shared_cache.get(key) != value:
        raise NotReady
    shared_cache.delete(key)


def _migrations() -> None:
    if _known_migrations() - set(MigrationRecorder(connection).applied_migrations()):
        raise NotReady


@cache
def _known_migrations() -> frozenset[tuple[str, str]]:
    """Those of this version of the software, which do not change while it runs."""
    loader = MigrationLoader(None)
    return frozenset(loader.disk_migrations)


def _marks() -> None:
    """A file without a name can be written there. The folder is not made: one that was lost must stay so."""
    folder = Path(settings.MARKS_DIR)
    while not folder.exists():
        folder = folder.parent
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"1")
        file.flush()


#: What the site needs, by the name under which it is reported.
CHECKS: dict[str, Callable[[], None]] = {
    "database": _database,
    "migrations": _migrations,
    "broker": _broker,
    "cache": _cache,
    "marks": _marks,
}
