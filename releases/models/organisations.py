"""What the organisation has decided for its site."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, Group, User
from django.db import models
from django.db.models import Q

from releases.engine.domain.privacy import exact
from releases.models.role_rules import holders, may_review
from releases.models.roles import Role


class Organisation(models.Model):
    """What the organisation has decided for its site: one row, or none while the environment's values hold."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    upload_cap_bytes = models.PositiveBigIntegerField()
    #: Of a budget, as the forms and the command line suggest it; empty for their own.
    default_epsilon = models.CharField(max_length=40, blank=True)
    #: A release that costs more needs a review first; empty where none does.
    review_above = models.CharField(max_length=40, blank=True)
    #: Of one budget, in per cent; empty where one person may spend all of it.
    most_per_person = models.CharField(max_length=40, blank=True)
    is_two_person = models.BooleanField(default=False)
    reviewers = models.ForeignKey(Group, on_delete=models.PROTECT, null=True, blank=True, related_name="+")
    alert_addresses = models.TextField(blank=True, help_text="one a line")

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(name="one_organisation", condition=Q(id=1))]

    def __str__(self) -> str:
        return "organisation"

    @classmethod
    def current(cls) -> Organisation:
        """The stored row, or what the environment says."""
        return cls.objects.select_related("reviewers").first() or cls(
            upload_cap_bytes=settings.UPLOAD_CAP_BYTES,
            review_above=settings.REVIEW_ABOVE_EPSILON,
            is_two_person=settings.TWO_PERSON_RULE,
            alert_addresses="\n".join(settings.ALERT_ADDRESSES),
        )

    @property
    def most_share_per_person(self) -> Fraction | None:
        """The most of one budget that one person may spend, from 0 to 1; None where there is no limit."""
        return exact(self.most_per_person, field="most_per_person") / 100 if self.most_per_person else None

    @property
    def addresses(self) -> list[str]:
        return self.alert_addresses.split()

    def lets_decide(self, person: AbstractBaseUser | AnonymousUser) -> bool:
        """Whether somebody may decide requests and freeze budgets: reviewers, where a group is chosen those of it."""
        if not may_review(person):
            return False
        return self.reviewers_id is None or Group.objects.filter(pk=self.reviewers_id, user=person.pk).exists()

    @property
    def deciders(self) -> models.QuerySet[User]:
        """Everybody whom `lets_decide` lets decide."""
        people = holders(Role.REVIEWER)
        return people if self.reviewers_id is None else people.filter(groups=self.reviewers_id)
