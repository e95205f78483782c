"""What is stored of surveys. Imported through `models`."""

from __future__ import annotations

import uuid
from datetime import datetime
from fractions import Fraction
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group
from django.db import models
from django.db.models import Q, Sum
from django.db.models.functions import Coalesce

from releases.engine.domain.privacy import exact
from releases.engine.mechanisms.survey_sampler import SurveyLaw


class SurveyState(models.TextChoices):
    """The life of a survey. People see the same word and the sentence beside it."""

    DRAFT = "draft", "draft"
    OPEN = "open", "open"
    CLOSED = "closed", "closed"

    @property
    def meaning(self) -> str:
        return {
            SurveyState.DRAFT: "Being put together. Nobody can answer yet, and everything can be changed.",
            SurveyState.OPEN: "Everybody who has the link can answer. What they were promised cannot be changed.",
            SurveyState.CLOSED: "Nobody can answer any more. The result will not change.",
        }[self]


class SurveyQuerySet(models.QuerySet["Survey"]):
    def visible_to(self, person: AbstractBaseUser | AnonymousUser) -> SurveyQuerySet:
        """Those a person owns or shares a group with, in every state."""
        if not person.is_authenticated:
            return self.none()
        return self.filter(Q(owner=person.pk) | Q(group__in=Group.objects.filter(user=person.pk).values("pk")))

    def readable_by(self, person: AbstractBaseUser | AnonymousUser) -> SurveyQuerySet:
        """One's own, and closed ones that were made public."""
        public = Q(is_public=True, state=SurveyState.CLOSED)
        if not person.is_authenticated:
            return self.filter(public)
        return self.filter(public | Q(pk__in=self.model.objects.visible_to(person).values("pk")))

    def for_answering(self) -> SurveyQuerySet:
        """Those that were opened: whoever has the link may see the question."""
        return self.exclude(state=SurveyState.DRAFT)

    def for_list(self, person: AbstractBaseUser | AnonymousUser) -> SurveyQuerySet:
        return (
            self.visible_to(person)
            .select_related("owner")
            .defer("result")
            .annotate(reports=Coalesce(Sum("tallies__number"), 0))
            .order_by("-created_at")
        )


class Survey(models.Model):
    """One question that people answer in their own browser, each answer randomised before it is sent."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=200)
    question = models.CharField(max_length=500)
    answers = models.JSONField(help_text="texts to choose from, in order")
    epsilon = models.CharField(max_length=40, help_text="of one report, as a decimal")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="surveys")
    group = models.ForeignKey(Group, on_delete=models.SET_NULL, null=True, blank=True, related_name="surveys")
    state = models.CharField(max_length=8, choices=SurveyState, default=SurveyState.DRAFT)
    is_public = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    opened_at = models.DateTimeField(null=True, blank=True)
    closed_at = models.DateTimeField(null=True, blank=True)
    #: The law that was promised when it opened, in whole numbers; null before.
    truth = models.PositiveIntegerField(null=True, blank=True)
    other = models.PositiveIntegerField(null=True, blank=True)
    #: Worked out once, when it closed, from the randomised reports alone.
    result = models.JSONField(null=True, blank=True)

    objects = SurveyQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["-created_at"], name="surveys_by_time")]
        constraints: ClassVar = [
            models.CheckConstraint(
                name="an_opened_survey_has_a_law",
                condition=Q(state="draft") | Q(truth__isnull=False, other__isnull=False, opened_at__isnull=False),
            ),
            models.CheckConstraint(
                name="a_closed_survey_has_a_result",
                condition=~Q(state="closed") | Q(result__isnull=False, closed_at__isnull=False),
            ),
            models.CheckConstraint(
                name="only_a_closed_survey_is_public", condition=Q(is_public=False) | Q(state="closed")
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def status(self) -> SurveyState:
        return SurveyState(self.state)

    @property
    def is_open(self) -> bool:
        return self.status is SurveyState.OPEN

    @property
    def law(self) -> SurveyLaw:
        """The law that was promised; of a draft, the one that would be."""
        if self.truth is None or self.other is None:
            return SurveyLaw.of(epsilon=self.exact_epsilon, answers=len(self.answers))
        return SurveyLaw(answers=len(self.answers), truth=self.truth, other=self.other)

    @property
    def exact_epsilon(self) -> Fraction:
        return exact(self.epsilon, field="epsilon")

    @property
    def last_change(self) -> datetime:
        """When it came to be in the state it is in."""
        return self.closed_at or self.opened_at or self.created_at


class SurveyTally(models.Model):
    """How many randomised reports name one answer: all that is stored of them.

    A report has no row of its own. A row would stand in the order of its arrival, which beside a web server's log of
    visits says whose it is; so would a time. Reports of one survey are told apart by what they name alone, and their
    numbers say everything that the estimates need. Triggers let a number only grow by 1, while the survey is open.
    """

    survey = models.ForeignKey(Survey, on_delete=models.PROTECT, related_name="tallies")
    answer = models.PositiveSmallIntegerField(help_text="its place in the survey's list, from 0")
    number = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["survey", "answer"], name="one_tally_an_answer")]

    def __str__(self) -> str:
        return f"reports of answer {self.answer} to {self.survey}"
