"""Live sessions and their published answers."""

from __future__ import annotations

from math import inf
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Exists, ExpressionWrapper, F, OuterRef, Q, Subquery

from releases.models.datasets import Dataset
from releases.models.releases import Release, ReleaseState
from releases.models.role_rules import may_ask
from releases.models.roles import Person


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
    own = Q(release__dataset__in=Dataset.objects.visible_to(person))
    return own | Q(audience=Audience.EVERYBODY) if may_ask(person) else own


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

    @property
    def most_rows(self) -> float:
        """What no count is above, at the session's confidence. No number where rows come and go while it is open: how
        many there were when it was opened says nothing of those that a later question counts."""
        return inf if self.release.dataset.is_in_database else self.total + self.total_half_width

    def lets_ask(self, person: Person) -> bool:
        """Whether a person is among those who may ask, while it is open."""
        return Session.objects.for_asking(person).filter(pk=self.pk).exists()

    def told(self, person: Person) -> models.QuerySet[SessionAnswer]:
        """What a person may read of it: everything, or, who may ask no more, up to the last question of their own."""
        if self.lets_ask(person):
            return self.answers.all()
        last = self.answers.filter(asked_by=person.pk).order_by("-sequence").values("sequence")[:1]
        return self.answers.filter(sequence__lte=Subquery(last))


class SessionCells(models.Model):
    """What a session bought when it was opened, noisy cells or the answers to a list, as compressed bytes. Only read
    with its answers."""

    session = models.OneToOneField(Session, on_delete=models.PROTECT, primary_key=True, related_name="cells")
    compressed = models.BinaryField(editable=False)

    def __str__(self) -> str:
        return f"noisy cells of {self.session}"


class SessionAnswer(models.Model):
    """One answered question, as published. The session is replayed from these."""

    session = models.ForeignKey(Session, on_delete=models.PROTECT, related_name="answers")
    sequence = models.PositiveIntegerField()
    query = models.JSONField()
    #: The query in canonical words; the same question twice is the same answer, unless a closer one was asked for.
    key = models.CharField(max_length=64)
    kind = models.CharField(max_length=40)
    estimate = models.BigIntegerField()
    half_width = models.FloatField()
    sign = models.SmallIntegerField(default=0)
    #: What it took of the session's budget, where each answer has a price of its own.
    parts = models.PositiveBigIntegerField(default=0)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "sequence"], name="one_answer_a_number"),
            # Asked again for a closer answer, a question has another one.
            models.UniqueConstraint(fields=["session", "key", "parts"], name="one_answer_a_question_and_price"),
        ]

    def __str__(self) -> str:
        return f"answer {self.sequence} of {self.session}"
