"""What is stored of the attempts at a release, and how a release can end without one. Imported through `models`."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.utils import timezone

#: What `Attempt.failure` says of one whose worker never came back.
LOST = "lost"


class Ending(models.TextChoices):
    """Why a release ended without touching data, where a worker ended it. The sentence is for its people."""

    PLAN_CHANGED = "plan changed", "plan changed"
    NOTHING_READ = "nothing read", "nothing read"
    AWAY = "database away", "database away"

    @property
    def meaning(self) -> str:
        return {
            Ending.PLAN_CHANGED: "The software was updated since it was charged and would plan it differently now. No "
            "data were touched, and the charge was given back. Plan another like it, and compare again.",
            Ending.NOTHING_READ: "Every attempt failed before the table was opened. No data were touched, and the "
            "charge was given back. The server's log says what was in the way.",
            Ending.AWAY: "The database or storage of the table did not answer, or lists it otherwise than when it was "
            "registered. No data were touched, and the charge was given back.",
        }[self]


class Attempt(models.Model):
    """One worker's attempt at a release. It is recorded with the claim, and that it is about to open the table is
    recorded, and committed, before the table is opened. So `opened_at` is empty only where nothing was read."""

    id = models.BigAutoField(primary_key=True)
    release = models.ForeignKey("releases.Release", on_delete=models.PROTECT, related_name="tried")
    #: The release's `run_token` during this attempt.
    token = models.UUIDField(unique=True)
    started_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    #: The kind of error; of an attempt that opened the table no more than that it failed.
    failure = models.CharField(max_length=80, blank=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["release", "opened_at"], name="attempts_by_release")]

    def __str__(self) -> str:
        return f"attempt at {self.release_id}"


def next_attempt_text(at: datetime | None) -> str:
    """When work that failed is tried again, for the people who wait for it."""
    if at is None or at <= timezone.now():
        return "It is about to be tried again."
    return f"It is waiting to try again at {timezone.localtime(at):%H:%M}."
