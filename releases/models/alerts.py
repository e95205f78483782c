"""That much of a budget is spent."""

from __future__ import annotations

from typing import ClassVar

from django.db import models


class BudgetAlert(models.Model):
    """That so many per cent of a budget are spent, said once for each size the budget had."""

    budget = models.ForeignKey("releases.Budget", on_delete=models.CASCADE, related_name="alerts")
    percent = models.PositiveSmallIntegerField()
    epsilon = models.CharField(max_length=40, help_text="the budget's epsilon at that time")
    raised_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "percent", "epsilon"], name="one_alert_a_threshold")
        ]
        indexes: ClassVar = [models.Index(fields=["-raised_at"], name="alerts_by_time")]

    def __str__(self) -> str:
        return f"{self.percent}% of {self.budget}"
