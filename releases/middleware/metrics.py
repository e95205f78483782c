"""Figures for Prometheus, all read from the database when they are asked for, so that every process tells the same.

Nothing here depends on what is in a table: no number of rows, no size, no running time, and not whether a file could be
read. How often work was begun, and how long it has waited to begin, says what the workers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Count, Min, Q, Sum
from django.utils import timezone
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from releases.models import (
    AuditAction,
    AuditEvent,
    BudgetRequest,
    Release,
    ReleaseRequest,
    ReleaseState,
    Session,
    Upload,
    UploadState,
)
from releases.models.requests import RequestState


def exposed(*, accept: str) -> tuple[bytes, str]:
    """All figures in the form that the asking program prefers, and the name of that form."""
    registry = CollectorRegistry()
    registry.register(Figures())
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class Figures(Collector):
    def describe(self) -> list[Metric]:
        """Nothing, so that registering asks the database nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        queued = Release.objects.filter(state=ReleaseState.QUEUED)
        ready = queued.not_frozen().aggregate(number=Count("pk"), oldest=Min("submitted_at"))
        yield _gauge("queue_length", "Releases that a worker may begin", ready["number"])
        yield _gauge(
            "queue_oldest_seconds",
            "How long the oldest of them has waited since it was submitted; 0 where none waits",
            _age(ready["oldest"]),
        )
        held = queued.count() - ready["number"]
        yield _gauge("queue_held", "Releases that wait because their budget is frozen", held)
        waiting = Upload.objects.filter(state=UploadState.WAITING).aggregate(
            number=Count("pk"), oldest=Min("created_at")
        )
        yield _gauge(
            "uploads_waiting", "Tables that were received and that no worker has begun to read", waiting["number"]
        )
        yield _gauge(
            "uploads_oldest_seconds",
            "How long the oldest of them has waited since it arrived; 0 where none waits",
            _age(waiting["oldest"]),
        )
        undecided = Q(state=RequestState.WAITING)
        reviews = GaugeMetricFamily("dpweb_reviews_waiting", "Requests that no reviewer has decided", labels=["kind"])
        reviews.add_metric(["budget"], BudgetRequest.objects.filter(undecided).count())
        reviews.add_metric(["release"], ReleaseRequest.objects.filter(undecided).count())
        yield reviews
        attempts = CounterMetricFamily("dpweb_attempts", "How often workers have begun something", labels=["kind"])
        attempts.add_metric(["release"], Release.objects.aggregate(sum=Sum("attempts", default=0))["sum"])
        attempts.add_metric(["closing"], Session.objects.aggregate(sum=Sum("closing_attempts", default=0))["sum"])
        attempts.add_metric(["upload"], Upload.objects.aggregate(sum=Sum("attempts", default=0))["sum"])
        yield attempts
        denied = Q(state=RequestState.DENIED)
        refusals = CounterMetricFamily("dpweb_refusals", "What was refused", labels=["kind"])
        refusals.add_metric(["budget"], BudgetRequest.objects.filter(denied).count())
        refusals.add_metric(["release"], ReleaseRequest.objects.filter(denied).count())
        refusals.add_metric(["sign-in"], AuditEvent.objects.filter(action=AuditAction.SIGN_IN_FAILED).count())
        yield refusals


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"dpweb_{name}", meaning, value=value)


def _age(begun: datetime | None) -> float:
    return 0.0 if begun is None else max(0.0, (timezone.now() - begun).total_seconds())
