"""Releases: the life of one, from draft to published result, and the lists that pages show."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.core.exceptions import ObjectDoesNotExist
from django.db import models, transaction
from django.db.models import Count, F, OuterRef, Prefetch, Q, Subquery
from django.db.models.functions import Coalesce
from django.db.models.signals import post_delete
from django.dispatch import receiver

from releases.models.attempts import Attempt, Ending, next_attempt_text
from releases.models.datasets import Dataset
from releases.models.ledger import EntryKind
from releases.models.release_contents import (
    CONTENTS,
    ReleasePlan,
    ReleaseQuestions,
    ReleaseResult,
    in_rows,
    remove_unused,
)
from releases.models.release_kinds import CERTIFICATE, KindField, ReleaseKind, plain
from releases.models.requests import ReleaseRequest, RequestState
from releases.models.roles import Person
from releases.models.wide_columns import WIDE
from releases.models.workloads import SavedWorkload, WorkloadVersion


class ReleaseState(models.TextChoices):
    """The life of a release. People see the same word and the sentence beside it."""

    DRAFT = "draft", "draft"
    REVIEW = "awaiting review", "awaiting review"
    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    OPEN = "open", "open session"
    #: Of a session alone: what it answered is being published.
    CLOSING = "closing", "closing"
    #: Not yet public: that is a decision of its own, so people see another word.
    PUBLISHED = "published", "finished"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"
    WITHDRAWN = "withdrawn", "withdrawn"

    @property
    def meaning(self) -> str:
        return {
            ReleaseState.DRAFT: "Being put together. Nothing is spent and no data are touched.",
            ReleaseState.REVIEW: "A reviewer must approve it first. Nothing is spent yet.",
            ReleaseState.QUEUED: "The budget is charged and a worker will start it. It can still be cancelled.",
            ReleaseState.RUNNING: "A worker is computing it, and another begins again by itself if that fails. "
            "The charge can no longer be given back.",
            ReleaseState.OPEN: "Questions can be asked. All that they can ever cost is charged already.",
            ReleaseState.CLOSING: "Nobody can ask any more, and a worker is publishing what was answered. "
            "That spends nothing and touches no data.",
            ReleaseState.PUBLISHED: "The result will not change.",
            ReleaseState.FAILED: "Every attempt failed, or a restored backup had lost it. The data may have been "
            "touched, so the charge stays.",
            ReleaseState.CANCELLED: "Cancelled or denied before any data were touched. Nothing is charged for it.",
            ReleaseState.WITHDRAWN: "No longer shown. The budget stays spent.",
        }[self]

    @property
    def is_final(self) -> bool:
        """Whether it moves by itself no more."""
        return self not in (ReleaseState.DRAFT, ReleaseState.REVIEW, ReleaseState.QUEUED, *HELD_BY_A_WORKER)


#: States in which a worker holds a release, by a token and a lease.
HELD_BY_A_WORKER = (ReleaseState.RUNNING, ReleaseState.CLOSING)


class ReleaseQuerySet(models.QuerySet["Release"]):
    def make(self, **values: Any) -> Release:
        """As `create`, where questions, plan or result are given as they are."""
        with transaction.atomic():
            return self.create(**in_rows(values))

    def change(self, **values: Any) -> int:
        """As `update`, in one statement, so that compare and set stays one; questions, plan and result are given as
        they are. None of their rows is left that no release points to: what is pointed to is read under a lock."""
        with transaction.atomic():
            rows = {
                name: list(self.select_for_update().values_list(f"{column}_id", flat=True))
                for name, (column, _) in CONTENTS.items()
                if name in values
            }
            stored = in_rows(values)
            for name, keys in rows.items():
                row = stored[CONTENTS[name][0]]
                keys.append(None if row is None else row.pk)
            number = self.update(**stored)
            remove_unused(rows)
        return number

    def visible_to(self, person: Person) -> ReleaseQuerySet:
        """Public ones for everybody; the rest for whoever may see the dataset."""
        public = Q(is_public=True, state=ReleaseState.PUBLISHED)
        if not person.is_authenticated:
            return self.filter(public)
        return self.filter(public | Q(dataset__in=Dataset.objects.visible_to(person)))

    def editable_by(self, person: Person) -> ReleaseQuerySet:
        """Those whose dataset a person may work on."""
        if not person.is_authenticated:
            return self.none()
        return self.filter(dataset__in=Dataset.objects.visible_to(person))

    def of_kind(self, kind: ReleaseKind) -> ReleaseQuerySet:
        return self.filter(kind=kind)

    def for_catalogue(self) -> ReleaseQuerySet:
        """What everybody may read, with its bound; certificates stand with their release where that is there too."""
        public = Q(is_public__in=[True], state=ReleaseState.PUBLISHED)  # SQLite has no index for a bare truth value
        certificates = Release.objects.filter(public).with_bound().only("title", "certifies").order_by("published_at")
        return (
            self.filter(public)
            .exclude(certifies__is_public=True, certifies__state=ReleaseState.PUBLISHED)
            .with_bound()
            .with_description()
            .select_related("dataset", "submitted_by")
            .prefetch_related(Prefetch("certificates", queryset=certificates, to_attr="listed_certificates"))
            .defer(*WIDE)
            .order_by("-published_at")
        )

    def with_bound(self) -> ReleaseQuerySet:
        """Of a result, which is wide, only what its bound says in short, and its headline."""
        parts = ("alpha", "beta", "says", "proof")
        bound = {f"bound_{part}": F(f"stored_result__content__receipt__bound__{part}") for part in parts}
        counts = F("stored_result__content__receipt__counts")
        return self.annotate(**bound, bound_counts=counts, headline=F("stored_result__content__headline"))

    def with_headline(self) -> ReleaseQuerySet:
        """Of a result, which is wide, only what was found, in one sentence; None where there is none."""
        return self.annotate(headline=F("stored_result__content__headline"))

    def with_description(self) -> ReleaseQuerySet:
        """Of a result, what it says of its table; None where it says nothing."""
        return self.annotate(about=F("stored_result__content__described__table"))

    def with_files(self) -> ReleaseQuerySet:
        """Of a result, which is wide, only which files were published."""
        return self.annotate(published_files=F("stored_result__content__files"))

    def with_cost(self) -> ReleaseQuerySet:
        """Of a result, which is wide, only what it cost."""
        return self.annotate(cost=F("stored_result__content__receipt__cost"))

    def for_list(self, person: Person) -> ReleaseQuerySet:
        return (
            self.editable_by(person)
            .select_related("dataset", "submitted_by")
            .annotate(used_up_at=F("session__used_up_at"))
            .defer(*WIDE)
            .order_by("-created_at")
        )

    def for_workload(self, workload: SavedWorkload, person: Person) -> ReleaseQuerySet:
        """The submitted releases of a workload that a person may read, newest first, with their bounds."""
        return (
            self.visible_to(person)
            .filter(workload_version__workload=workload)
            .exclude(state=ReleaseState.DRAFT)
            .with_bound()
            .select_related("dataset", "workload_version")
            .defer(*WIDE, "workload_version__questions", "workload_version__columns")
            .order_by("-created_at", "-pk")
        )

    def with_review(self) -> ReleaseQuerySet:
        """Each with what a reviewer made of it last: the state, and the epsilon where it was approved."""
        last = ReleaseRequest.objects.filter(release=OuterRef("pk")).order_by("-requested_at")
        return self.annotate(
            review_state=Subquery(last.values("state")[:1]),
            review_epsilon=Subquery(last.values("granted_epsilon")[:1]),
        )

    def not_frozen(self) -> ReleaseQuerySet:
        """Without those whose budget is frozen. No join: a claim compares and sets the release's own row."""
        return self.exclude(dataset__in=Dataset.objects.filter(budget__is_frozen=True))

    def that_read_nothing(self) -> ReleaseQuerySet:
        """Those of which every attempt is on record, and none came to opening the table. Unknown means opened."""
        unopened = Attempt.objects.filter(release=OuterRef("pk"), opened_at=None).order_by().values("release")
        return self.filter(attempts=Coalesce(Subquery(unopened.annotate(number=Count("pk")).values("number")), 0))

    def for_collection(self, person: Person) -> ReleaseQuerySet:
        """Those that a person may see, each with what was found and which files were published."""
        return (
            self.visible_to(person)
            .with_bound()
            .with_files()
            .annotate(bound_sentence=F("stored_result__content__receipt__bound__sentence"))
            .select_related("dataset__budget")
            .defer(*WIDE)
        )

    def for_certified(self, release: Release, person: Person) -> ReleaseQuerySet:
        """The published certificates of a release that a person may read, each with its line in the ledger."""
        readable = self.visible_to(person).filter(certifies=release.pk, state=ReleaseState.PUBLISHED)
        charged = readable.filter(entries__kind=EntryKind.CHARGE).annotate(line=F("entries__sequence"))
        return charged.select_related("stored_result").defer("options").order_by("published_at")


class Release(models.Model):
    """One release of one dataset: from draft to published result. The row is the truth about it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    dataset = models.ForeignKey(Dataset, on_delete=models.PROTECT, related_name="releases")
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=16, choices=ReleaseState, default=ReleaseState.DRAFT, db_index=True)
    is_public = models.BooleanField(default=False)
    kind = KindField(max_length=16, default=plain)
    #: Of a certificate, the published release whose largest error it measures.
    certifies = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="certificates")

    # The draft: what the wizard's steps have gathered so far.
    stored_questions = models.OneToOneField(ReleaseQuestions, on_delete=models.PROTECT, null=True)
    mechanism = models.CharField(max_length=60, blank=True)
    epsilon = models.CharField(max_length=40, blank=True)
    delta = models.CharField(max_length=40, blank=True, default="0")
    beta = models.CharField(max_length=40, default="0.05")
    options = models.JSONField(default=dict, blank=True)
    #: The saved workload that the questions were taken from or saved as; the release is run by its own copy of them.
    workload_version = models.ForeignKey(
        WorkloadVersion, on_delete=models.PROTECT, null=True, blank=True, related_name="releases"
    )

    # The submission.
    stored_plan = models.OneToOneField(ReleasePlan, on_delete=models.PROTECT, null=True)
    submitted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="releases"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    submitted_at = models.DateTimeField(null=True, blank=True)

    # The run.
    attempts = models.PositiveSmallIntegerField(default=0)
    run_token = models.UUIDField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    #: Before then no worker takes it: an attempt has failed.
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    step = models.CharField(max_length=80, blank=True)
    share_done = models.FloatField(default=0.0)

    # The outcome.
    ended_because = models.CharField(max_length=20, choices=Ending, blank=True)
    stored_result = models.OneToOneField(ReleaseResult, on_delete=models.PROTECT, null=True)
    folder = models.CharField(max_length=120, blank=True, help_text="of the published files")
    published_at = models.DateTimeField(null=True, blank=True)
    withdrawn_at = models.DateTimeField(null=True, blank=True)

    objects = ReleaseQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [
            models.Index(  # with all that a search and a count go by, so that neither reads the rows, which are wide
                fields=["is_public", "state", "-published_at", "certifies", "dataset", "title", "id"], name="catalogue"
            ),
            models.Index(fields=["-created_at"], name="releases_by_time"),
            models.Index(fields=["dataset", "-created_at", "id"], name="releases_of_dataset"),
            models.Index(fields=["state", "lease_until"], name="lapsed_leases"),
        ]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="published_has_a_result",
                condition=~Q(state__in=["published", "withdrawn"]) | Q(stored_result__isnull=False),
            ),
            models.CheckConstraint(
                name="certificate_of_a_release",
                condition=Q(kind=CERTIFICATE.name, certifies__isnull=False)
                | (~Q(kind=CERTIFICATE.name) & Q(certifies__isnull=True)),
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def workload(self) -> dict[str, Any] | None:
        """What it asks."""
        return self._content("stored_questions")

    @property
    def plan(self) -> dict[str, Any] | None:
        return self._content("stored_plan")

    @property
    def result(self) -> dict[str, Any] | None:
        return self._content("stored_result")

    def _content(self, column: str) -> dict[str, Any] | None:
        try:
            row = getattr(self, column)
        except ObjectDoesNotExist:
            # Somebody else has changed the draft since it was read here.
            self.refresh_from_db(fields=[column])
            row = getattr(self, column)
        return None if row is None else row.content

    @property
    def status(self) -> ReleaseState:
        return ReleaseState(self.state)

    @property
    def is_held(self) -> bool:
        """Whether no worker begins it because a reviewer has frozen its budget."""
        budget = self.dataset.budget if self.status is ReleaseState.QUEUED else None
        return budget is not None and budget.is_frozen

    @property
    def can_be_cancelled(self) -> bool:
        """Whether it is charged, and its charge can be given back: it waits for a worker, and nothing was read."""
        if self.status is not ReleaseState.QUEUED or not self.attempts:
            return self.status is ReleaseState.QUEUED
        return Release.objects.filter(pk=self.pk).that_read_nothing().exists()

    @property
    def is_under_way(self) -> bool:
        """Whether a worker runs it, or an attempt has failed that may have read the table.

        These two look the same everywhere, and without a step or a share done: when an attempt ends, and how long its
        steps take, may depend on rows or draws.
        """
        if self.status is ReleaseState.QUEUED and self.attempts:
            return not self.can_be_cancelled
        return self.status is ReleaseState.RUNNING

    @property
    def shown_state(self) -> ReleaseState:
        return ReleaseState.RUNNING if self.is_under_way else self.status

    @property
    def shown_step(self) -> str:
        return "In progress" if self.is_under_way else self.step

    @property
    def meaning(self) -> str:
        """What its state means; why it goes no further where it is held, and when where it is tried again."""
        if self.ended_because:
            return Ending(self.ended_because).meaning
        if self.status is ReleaseState.CLOSING and self.next_attempt_at is not None:
            return f"{self.status.meaning} An attempt failed. {next_attempt_text(self.next_attempt_at)}"
        if self.is_under_way:
            budget = self.dataset.budget
            is_frozen = budget is not None and budget.is_frozen
            held = " A reviewer has frozen the budget: no other attempt begins." if is_frozen else ""
            return f"{ReleaseState.RUNNING.meaning}{held}"
        if self.status is not ReleaseState.QUEUED or not (self.is_held or self.attempts):
            return self.status.meaning
        if self.is_held:
            return "A reviewer has frozen the budget; it waits. It can still be cancelled."
        # Nothing was read, so that it failed, and when, says nothing of the rows.
        when = next_attempt_text(self.next_attempt_at)
        return f"An attempt failed, or its worker was lost, before it read the table. {when} It can still be cancelled."

    @property
    def last_review(self) -> ReleaseRequest | None:
        return (
            self.reviews.defer("asked_plan").select_related("first_by", "decided_by").order_by("-requested_at").first()
        )

    @property
    def is_approved_draft(self) -> bool:
        """Whether a reviewer approved it for less, so that it waits to be confirmed with that epsilon."""
        review = self.last_review if self.status is ReleaseState.DRAFT else None
        return review is not None and review.state == RequestState.APPROVED and review.granted_epsilon == self.epsilon


@receiver(post_delete, sender=Release)
def _remove_its_contents(instance: Release, **_: Any) -> None:
    remove_unused({name: [getattr(instance, f"{column}_id")] for name, (column, _) in CONTENTS.items()})
