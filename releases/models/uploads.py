"""What is stored of tables on their way in. Imported through `models`."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.db import models
from django.db.models import Q

from releases.models.attempts import next_attempt_text


class UploadState(models.TextChoices):
    """The life of an upload. People see the same word and the sentence beside it."""

    WAITING = "waiting", "waiting"
    READING = "reading", "reading"
    STORED = "stored", "stored"
    REFUSED = "refused", "refused"
    FAILED = "failed", "failed"

    @property
    def meaning(self) -> str:
        return {
            UploadState.WAITING: "The file has arrived whole. A worker reads it once it is done with what came before.",
            UploadState.READING: "A worker reads it.",
            UploadState.STORED: "It is a dataset now. Next is what its columns can hold.",
            UploadState.REFUSED: "The file is not a table that can be read. It was deleted.",
            UploadState.FAILED: "Every attempt to read it failed, through no fault of the file that is known. "
            "It was deleted.",
        }[self]

    @property
    def is_final(self) -> bool:
        return self not in (UploadState.WAITING, UploadState.READING)


class UploadQuerySet(models.QuerySet["Upload"]):
    def visible_to(self, person: AbstractBaseUser | AnonymousUser) -> UploadQuerySet:
        """A person's own. How far a file is, and why it was refused, is for nobody else."""
        return self.filter(owner=person.pk) if person.is_authenticated else self.none()

    def for_list(self, person: AbstractBaseUser | AnonymousUser) -> UploadQuerySet:
        """Those that are no dataset yet."""
        return self.visible_to(person).exclude(state=UploadState.STORED).order_by("-created_at")

    def taking_room(self, person: AbstractBaseUser) -> UploadQuerySet:
        """A person's, as long as there is a file of them: on its way, or a table whose rows are here."""
        on_its_way = Q(state__in=(UploadState.WAITING, UploadState.READING))
        return self.filter(on_its_way | Q(state=UploadState.STORED, dataset__rows_deleted_at=None), owner=person.pk)


class Upload(models.Model):
    """A file that was received and is to become a dataset, which gets the same identifier. The row is the truth."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=200)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="uploads")
    #: Name of the received file in the folder of incoming files; empty once it is deleted.
    location = models.CharField(max_length=100, blank=True)
    size = models.BigIntegerField(help_text="of the received file, in bytes")
    is_parquet = models.BooleanField(default=False)
    #: How the file is written, as declared or proposed (see ``engine/tables/facts.py``).
    file_facts = models.JSONField(default=dict, blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    # The reading.
    state = models.CharField(max_length=10, choices=UploadState, default=UploadState.WAITING)
    attempts = models.PositiveSmallIntegerField(default=0)
    run_token = models.UUIDField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    step = models.CharField(max_length=80, blank=True)
    share_done = models.FloatField(default=0.0)
    #: Never more than before in one attempt; empty where that is not known.
    seconds_left = models.FloatField(null=True, blank=True)

    # The outcome.
    refusal = models.TextField(blank=True, help_text="in words that quote the header alone")
    dataset = models.OneToOneField("Dataset", on_delete=models.CASCADE, null=True, blank=True, related_name="upload")

    objects = UploadQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["owner", "-created_at"], name="uploads_by_owner"),
            models.Index(fields=["state", "lease_until"], name="lapsed_uploads"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="stored_has_a_dataset",
                condition=~Q(state="stored") | Q(dataset__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def status(self) -> UploadState:
        return UploadState(self.state)

    @property
    def is_being_read(self) -> bool:
        return self.status is UploadState.READING

    @property
    def meaning(self) -> str:
        """What its state means, and when it is tried again."""
        if self.status is not UploadState.WAITING or not self.attempts:
            return self.status.meaning
        return f"An attempt to read it failed, or its worker was lost. {next_attempt_text(self.next_attempt_at)}"
