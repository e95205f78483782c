"""What is stored. Only `services` and `ledger` write it; pages read through the querysets named after them."""

from __future__ import annotations

import uuid
from fractions import Fraction
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.db import models
from django.db.models import Case, Exists, ExpressionWrapper, F, OuterRef, Prefetch, Q, Subquery, When
from django.utils import timezone
from django.utils.functional import cached_property

from releases.catalogue_models import Searchable
from releases.codebook_models import Codebook, KeptColumns
from releases.engine.filters import Branch, Caps, Policy, Totals
from releases.engine.privacy import NeighbouringRelation, PrivacyUnit, exact
from releases.engine.universe import Schema, Universe
from releases.ledger_models import EntryKind, LedgerEntry
from releases.notice_models import MailChoice, Notice
from releases.review_models import (
    AuditAction,
    AuditEvent,
    BudgetAlert,
    BudgetRequest,
    Organisation,
    ReleaseRequest,
    RequestState,
)
from releases.survey_models import Survey, SurveyState, SurveyTally
from releases.upload_models import Upload, UploadState

__all__ = [
    "AuditAction",
    "AuditEvent",
    "BudgetAlert",
    "BudgetRequest",
    "Codebook",
    "EntryKind",
    "KeptColumns",
    "LedgerEntry",
    "MailChoice",
    "Notice",
    "Organisation",
    "ReleaseRequest",
    "RequestState",
    "Searchable",
    "Survey",
    "SurveyState",
    "SurveyTally",
    "Upload",
    "UploadState",
]

Person = AbstractBaseUser | AnonymousUser

#: What each policy means for a person; the rules themselves stand in ``engine/filters.py``.
POLICY_MEANING = {
    Policy.PURE: "Epsilons add up; only mechanisms without a delta are allowed. The strictest promise.",
    Policy.APPROX: "Epsilons add up and deltas add up. Simple, but costly for many Gaussian releases.",
    Policy.ZCDP: "Gaussian noise adds up at its true rate, so many releases fit; "
    "the epsilons of other releases add up as usual.",
}


class Budget(models.Model):
    """What may be spent on one population, however many tables, versions and copies describe it.

    Amounts are whole numbers of 10^-12 (epsilon, rho) or 10^-18 (delta). Caps are those of the policy's branches, set
    by a grant in the ledger; the spent columns are a copy of the ledger's sums, kept so that one conditional UPDATE
    can decide a charge.
    """

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField("population", max_length=200)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="budgets")
    unit = models.JSONField()
    neighbours = models.CharField(
        max_length=20, choices=[(each.value, each.value.replace("_", " ")) for each in NeighbouringRelation]
    )
    policy = models.CharField(max_length=10, choices=[(each.value, each.value) for each in Policy])
    epsilon = models.CharField(max_length=40, blank=True, help_text="granted, as a decimal; empty before a grant")
    delta = models.CharField(max_length=40, blank=True)
    cap_epsilon = models.BigIntegerField(default=0)
    cap_delta = models.BigIntegerField(default=0)
    cap_rho = models.BigIntegerField(default=0)
    cap_rho_delta = models.BigIntegerField(default=0)
    spent_epsilon = models.BigIntegerField(default=0)
    spent_delta = models.BigIntegerField(default=0)
    spent_rho = models.BigIntegerField(default=0)
    spent_rho_delta = models.BigIntegerField(default=0)
    #: Number and hash of the last ledger entry of this budget.
    sequence = models.PositiveIntegerField(default=0)
    head = models.CharField(max_length=64, default="", blank=True)
    is_frozen = models.BooleanField(default=False)
    frozen_reason = models.TextField(blank=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                name="spent_is_not_negative",
                condition=Q(spent_epsilon__gte=0, spent_delta__gte=0, spent_rho__gte=0, spent_rho_delta__gte=0),
            ),
            models.CheckConstraint(
                name="spent_is_within_the_caps",
                condition=(
                    Q(spent_epsilon__lte=F("cap_epsilon"), spent_delta__lte=F("cap_delta"))
                    | Q(policy="zcdp", spent_rho__lte=F("cap_rho"), spent_rho_delta__lte=F("cap_rho_delta"))
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def locked(self) -> Budget:
        """As it stands now, kept from others until the transaction ends: what a page has read may be old."""
        return Budget.objects.select_for_update().get(pk=self.pk)

    @property
    def is_granted(self) -> bool:
        return bool(self.epsilon)

    @property
    def is_settled(self) -> bool:
        """Whether protection and rule stand: a reviewer has them to decide on, or has decided."""
        return self.is_granted or self.requests.exclude(state=RequestState.TAKEN_BACK).exists()

    @property
    def privacy_unit(self) -> PrivacyUnit:
        return PrivacyUnit.from_json(self.unit)

    @property
    def relation(self) -> NeighbouringRelation:
        return NeighbouringRelation(self.neighbours)

    @property
    def caps(self) -> Caps:
        """The granted budget in the ledger's units. Only of a granted budget."""
        return Caps.of(
            Policy(self.policy),
            epsilon=exact(self.epsilon, field="epsilon"),
            delta=exact(self.delta or "0", field="delta"),
        )

    @property
    def totals(self) -> Totals:
        return Totals(**{column: getattr(self, column) for column in Totals().columns()})

    @property
    def share_used(self) -> Fraction:
        """How much of the budget is used, from 0 to 1."""
        return share_of(self.totals, self.caps) if self.is_granted else Fraction(0)


def share_of(spent: Totals, caps: Caps) -> Fraction:
    """How much of the caps these sums use up, from 0 to 1, in the branch that has most left.

    A branch's epsilon or rho is what runs down. Its delta is a condition: once passed, the branch is shut; a release
    that needs no delta still fits where it is just used up.
    """
    branch = counting_branch(spent, caps)
    return share_in(branch, spent) if branch.holds(spent) else Fraction(1)


def counting_branch(spent: Totals, caps: Caps) -> Branch:
    """The branch that has most left; of plain sums and finer ones that have as much, the plain."""
    return min(
        reversed(caps.branches),
        key=lambda branch: share_in(branch, spent) if branch.holds(spent) else Fraction(1),
    )


def share_in(branch: Branch, amounts: Totals) -> Fraction:
    """What some amounts are of one branch's cap on epsilon or rho."""
    limit = next(limit for limit in branch.limits if not limit.column.endswith("delta"))
    return Fraction(getattr(amounts, limit.column), limit.cap) if limit.cap else Fraction(1)


def groups_of(person: Person) -> models.QuerySet[Group, Any]:
    """As a subquery: a join would need a DISTINCT over whole rows, and releases are large."""
    return Group.objects.filter(user=person.pk).values("pk")


class DatasetQuerySet(models.QuerySet["Dataset"]):
    def visible_to(self, person: Person) -> DatasetQuerySet:
        """Those a person owns or shares a group with. Nobody else learns that a dataset exists."""
        if not person.is_authenticated:
            return self.none()
        return self.filter(Q(owner=person.pk) | Q(group__in=groups_of(person)))

    def of_population(self, budget: Budget) -> DatasetQuerySet:
        """The tables of one population, the one that it is named after first."""
        named = Case(When(title=budget.name, then=0), default=1)
        return self.filter(budget=budget).order_by(named, "created_at")

    def for_list(self, person: Person) -> DatasetQuerySet:
        return (
            self.visible_to(person)
            .select_related("budget", "owner", "group")
            .defer("declared", "columns", "description", "column_notes")
            .order_by("-created_at")
        )


class Dataset(models.Model):
    """One stored table with what its curator declared about it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=200)
    #: What the table is, for readers of its releases.
    description = models.TextField(blank=True)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="datasets")
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="datasets")
    #: Keyed fingerprint of the rows (see ``engine/ingest.py``); equal for equal content.
    digest = models.CharField(max_length=64, db_index=True)
    columns = models.JSONField(help_text="names in the table's header")
    location = models.CharField(max_length=500, help_text="Parquet file below the tables folder, or a database URL")
    #: Declared columns as in the schema format, null until declared.
    declared = models.JSONField(null=True, blank=True)
    #: By column its description and its unit, where there are any: for readers, and no part of the schema.
    column_notes = models.JSONField(default=dict, blank=True)
    budget = models.ForeignKey(Budget, on_delete=models.PROTECT, null=True, blank=True, related_name="datasets")
    created_at = models.DateTimeField(auto_now_add=True)
    #: Since when the table's file is gone for good; what was released of it, and its fingerprint, stay.
    rows_deleted_at = models.DateTimeField(null=True, blank=True)

    objects = DatasetQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["-created_at"], name="datasets_by_time")]

    def __str__(self) -> str:
        return self.title

    @cached_property
    def universe(self) -> Universe | None:
        if self.declared is None:
            return None
        columns = {"version": 1, "columns": self.declared}
        return Schema.from_json(columns).universe

    @property
    def schema(self) -> Schema | None:
        """The full schema, once columns and protection are both declared."""
        if self.universe is None or self.budget is None:
            return None
        return Schema(universe=self.universe, unit=self.budget.privacy_unit, neighbours=self.budget.relation)


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
            ReleaseState.RUNNING: "A worker is computing it. The charge can no longer be given back.",
            ReleaseState.OPEN: "Questions can be asked. All that they can ever cost is charged already.",
            ReleaseState.CLOSING: "Nobody can ask any more, and a worker is publishing what was answered. "
            "That spends nothing and touches no data.",
            ReleaseState.PUBLISHED: "The result is there and will not change.",
            ReleaseState.FAILED: "It failed three times. The data may have been touched, so the charge stays.",
            ReleaseState.CANCELLED: "Cancelled or denied before any data were touched. Nothing is charged for it.",
            ReleaseState.WITHDRAWN: "No longer shown. The budget stays spent.",
        }[self]

    @property
    def is_final(self) -> bool:
        """Whether it moves by itself no more."""
        return self not in (ReleaseState.DRAFT, ReleaseState.REVIEW, ReleaseState.QUEUED, *HELD_BY_A_WORKER)


#: States in which a worker holds a release, by a token and a lease.
HELD_BY_A_WORKER = (ReleaseState.RUNNING, ReleaseState.CLOSING)


#: Columns of a release and its dataset that take much room and that no list shows.
_WIDE = (
    "plan",
    "result",
    "workload",
    "options",
    "dataset__declared",
    "dataset__columns",
    "dataset__column_notes",
)


class ReleaseQuerySet(models.QuerySet["Release"]):
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
            .defer(*_WIDE)
            .order_by("-published_at")
        )

    def with_bound(self) -> ReleaseQuerySet:
        """Of a result, which is wide, only what its bound says in short."""
        parts = ("alpha", "beta", "says", "proof")
        return self.annotate(**{f"bound_{part}": F(f"result__receipt__bound__{part}") for part in parts})

    def with_description(self) -> ReleaseQuerySet:
        """Of a result, what it says of its table; None where it says nothing."""
        return self.annotate(about=F("result__described__table"))

    def with_files(self) -> ReleaseQuerySet:
        """Of a result, which is wide, only which files were published."""
        return self.annotate(published_files=F("result__files"))

    def with_cost(self) -> ReleaseQuerySet:
        """Of a result, which is wide, only what it cost."""
        return self.annotate(cost=F("result__receipt__cost"))

    def for_list(self, person: Person) -> ReleaseQuerySet:
        return (
            self.editable_by(person)
            .select_related("dataset", "submitted_by")
            .annotate(used_up_at=F("session__used_up_at"))
            .defer(*_WIDE)
            .order_by("-created_at")
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

    def for_certified(self, release: Release, person: Person) -> ReleaseQuerySet:
        """The published certificates of a release that a person may read, each with its line in the ledger."""
        readable = self.visible_to(person).filter(certifies=release.pk, state=ReleaseState.PUBLISHED)
        charged = readable.filter(entries__kind=EntryKind.CHARGE).annotate(line=F("entries__sequence"))
        return charged.defer("plan", "workload", "options").order_by("published_at")


class Release(models.Model):
    """One release of one dataset: from draft to published result. The row is the truth about it."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    dataset = models.ForeignKey(Dataset, on_delete=models.PROTECT, related_name="releases")
    title = models.CharField(max_length=200)
    state = models.CharField(max_length=16, choices=ReleaseState, default=ReleaseState.DRAFT, db_index=True)
    is_public = models.BooleanField(default=False)
    #: Whether it is a session that answers questions one at a time, rather than one result.
    is_session = models.BooleanField(default=False)
    #: Of a certificate, the published release whose largest error it measures.
    certifies = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="certificates")

    # The draft: what the wizard's steps have gathered so far.
    workload = models.JSONField(null=True, blank=True)
    mechanism = models.CharField(max_length=60, blank=True)
    epsilon = models.CharField(max_length=40, blank=True)
    delta = models.CharField(max_length=40, blank=True, default="0")
    beta = models.CharField(max_length=40, default="0.05")
    options = models.JSONField(default=dict, blank=True)

    # The submission: the stored plan is what was charged and what will be run.
    plan = models.JSONField(null=True, blank=True)
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
    step = models.CharField(max_length=80, blank=True)
    share_done = models.FloatField(default=0.0)

    # The outcome.
    result = models.JSONField(null=True, blank=True, help_text="what pages show: bound, total, answers' index")
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
                condition=~Q(state__in=["published", "withdrawn"]) | Q(result__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def status(self) -> ReleaseState:
        return ReleaseState(self.state)

    @property
    def is_held(self) -> bool:
        """Whether no worker begins it because a reviewer has frozen its budget."""
        budget = self.dataset.budget if self.status is ReleaseState.QUEUED else None
        return budget is not None and budget.is_frozen

    @property
    def meaning(self) -> str:
        """What its state means, and why it goes no further where it is held."""
        if not self.is_held:
            return self.status.meaning
        kept = "The charge can no longer be given back." if self.attempts else "It can still be cancelled."
        return f"A reviewer has frozen the budget; it waits. {kept}"

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


class Audience(models.TextChoices):
    """Who may ask in a session."""

    GROUP = "group", "the dataset's people"
    EVERYBODY = "everybody", "everybody who signs in"


class SessionQuerySet(models.QuerySet["Session"]):
    def for_asking(self, person: Person) -> SessionQuerySet:
        """Those whose questions are a person's to ask, while they are open."""
        if not person.is_authenticated:
            return self.none()
        return self.filter(_lets_ask(person)).exclude(release__state=ReleaseState.WITHDRAWN)

    def readable_by(self, person: Person) -> SessionQuerySet:
        """Those, and those in which a person has asked: nobody loses what they were told. Also what was withdrawn."""
        if not person.is_authenticated:
            return self.none()
        asked = SessionAnswer.objects.filter(session=OuterRef("pk"), asked_by=person.pk)
        return self.filter(_lets_ask(person) | Exists(asked)).select_related("release__dataset__budget")

    def for_list(self, person: Person) -> SessionQuerySet:
        """Those that answer first, then those that are used up, then those closed last."""
        if not person.is_authenticated:
            return self.none()
        return (
            self.readable_by(person)
            .exclude(release__state=ReleaseState.WITHDRAWN)
            .annotate(may_ask=ExpressionWrapper(_lets_ask(person), output_field=models.BooleanField()))
            .defer("release__plan", "release__result")
            .order_by(F("closed_at").desc(nulls_first=True), F("used_up_at").desc(nulls_first=True), "-opened_at")
        )

    def that_answer(self, person: Person) -> SessionQuerySet:
        """Those of the list in which a person may ask something new."""
        return self.for_list(person).filter(
            pk__in=self.for_asking(person).values("pk"),
            release__state=ReleaseState.OPEN,
            release__dataset__budget__is_frozen=False,
            used_up_at=None,
        )


def _lets_ask(person: Person) -> Q:
    return Q(release__dataset__in=Dataset.objects.visible_to(person)) | Q(audience=Audience.EVERYBODY)


class Session(models.Model):
    """A live session: its public state is a function of its answers; only the noisy threshold is secret."""

    release = models.OneToOneField(Release, on_delete=models.PROTECT, primary_key=True, related_name="session")
    audience = models.CharField(max_length=10, choices=Audience, default=Audience.GROUP)
    total = models.BigIntegerField(help_text="public, or released with noise")
    total_half_width = models.FloatField()
    #: Never shown, logged or exported: with it the comparisons' outcomes would say more than was paid for.
    noisy_threshold = models.BigIntegerField(editable=False)
    opened_at = models.DateTimeField(auto_now_add=True)
    #: Since when it can answer nothing new, for want of updates or questions.
    used_up_at = models.DateTimeField(null=True, blank=True)
    #: Who asked last for it to be closed, and how many workers have begun to; the release counts those of its opening.
    closed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, blank=True, related_name="+"
    )
    closing_attempts = models.PositiveSmallIntegerField(default=0)
    closed_at = models.DateTimeField(null=True, blank=True)

    objects = SessionQuerySet.as_manager()

    def __str__(self) -> str:
        return f"session {self.release}"

    def lets_ask(self, person: Person) -> bool:
        """Whether a person is among those who may ask, while it is open."""
        return Session.objects.for_asking(person).filter(pk=self.pk).exists()

    def told(self, person: Person) -> models.QuerySet[SessionAnswer]:
        """What a person may read of it: everything, or, who may ask no more, up to the last question of their own."""
        if self.lets_ask(person):
            return self.answers.all()
        last = self.answers.filter(asked_by=person.pk).order_by("-sequence").values("sequence")[:1]
        return self.answers.filter(sequence__lte=Subquery(last))


class SessionAnswer(models.Model):
    """One answered question, as published. The session is replayed from these."""

    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="answers")
    sequence = models.PositiveIntegerField()
    query = models.JSONField()
    #: The query in canonical words; the same question twice is the same answer.
    key = models.CharField(max_length=64)
    kind = models.CharField(max_length=40)
    estimate = models.BigIntegerField()
    half_width = models.FloatField()
    sign = models.SmallIntegerField(default=0)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "sequence"], name="one_answer_a_number"),
            models.UniqueConstraint(fields=["session", "key"], name="one_answer_a_question"),
        ]

    def __str__(self) -> str:
        return f"answer {self.sequence} of {self.session}"


class TokenScope(models.TextChoices):
    """What a program may do with a token."""

    READ = "read", "read only"
    ALL = "all", "all that you may do"


class ApiToken(models.Model):
    """A program's way in, in its owner's name. Only a hash of the token is kept; it is shown once, when it is made."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=10, choices=TokenScope, default=TokenScope.ALL)
    created_at = models.DateTimeField(auto_now_add=True)
    #: From then on it opens nothing. None of a token that was made before tokens had an end.
    ends_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name

    @property
    def is_ended(self) -> bool:
        return self.ends_at is not None and self.ends_at <= timezone.now()
