"""The form that asks for a budget."""

from __future__ import annotations

from typing import Any

from django import forms

from releases.engine.accounting.filters import Policy
from releases.forms.fields import (
    POLICY_TITLES,
    DecimalTextField,
    check_amounts,
    missing,
)
from releases.models import POLICY_MEANING


class BudgetForm(forms.Form):
    epsilon = DecimalTextField(
        label="Epsilon, in all",
        initial="3",
        help_text="The privacy loss limit: the smallest that leaves the statistics useful.",
        error_messages=missing("epsilon: nothing was typed; must be a decimal number above 0, such as 3"),
    )
    delta = DecimalTextField(
        label="Delta, in all",
        initial="0.000001",
        required=False,
        help_text="The chance of a larger loss. Keep it far below one in the number of people; 0 with the pure rule.",
    )
    policy = forms.ChoiceField(
        label="How releases add up",
        widget=forms.RadioSelect,
        initial=Policy.ZCDP,
        choices=[(policy.value, f"{POLICY_TITLES[policy]}. {meaning}") for policy, meaning in POLICY_MEANING.items()],
        error_messages=missing("How releases add up: nothing was chosen."),
    )
    reason = forms.CharField(
        label="What it is for",
        widget=forms.Textarea(attrs={"rows": 3}),
        required=False,
        help_text="The reviewer reads this.",
    )

    def clean(self) -> dict[str, Any]:
        given = super().clean() or {}
        if "delta" in given:
            given["delta"] = given["delta"] or "0"
        if "policy" in given:
            check_amounts(self, Policy(given["policy"]))
        return given
