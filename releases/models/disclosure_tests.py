"""What is stored of disclosure tests that somebody asked for. Imported through `models`."""

from __future__ import annotations

from django.conf import settings
from django.db import models


class DisclosureState(models.TextChoices):
    """The life of a disclosure test."""

    WAITING = "waiting", "waiting"
    RUNNING = "running", "running"
    DONE = "done", "done"
    FAILED = "failed", "failed"

    @property
    def is_final(self) -> bool:
        return self in (DisclosureState.DONE, DisclosureState.FAILED)


class DisclosureTest(models.Model):
    """An attack on synthetic rows that the plan of a release makes of invented tables. A worker runs it (see
    ``worker/leases.py``); what it finds is a file beside those of the release."""

    release = models.OneToOneField(
        "releases.Release", on_delete=models.CASCADE, primary_key=True, related_name="disclosure_test"
    )
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(auto_now=True)
    state = models.CharField(max_length=10, choices=DisclosureState, default=DisclosureState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    run_token = models.UUIDField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    step = models.CharField(max_length=80, blank=True)
    share_done = models.FloatField(default=0.0)
    #: Why it failed, where the plan says so. It follows from public inputs and from chance alone.
    refusal = models.TextField(blank=True)

    def __str__(self) -> str:
        return f"disclosure test of {self.release}"
