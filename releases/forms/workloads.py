"""Forms of a workload: its name, what it asks, and the columns that stand for those it needs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import forms
from django.db.models import QuerySet

from releases.forms.fields import TypedTextField, missing
from releases.forms.releases import WorkloadForm
from releases.forms.sharing import SharingForm
from releases.models import SavedWorkload, WorkloadVersion


class _NamedForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=200,
        help_text="For example: Yearly health tables.",
        error_messages=missing("Name: nothing was typed. Say what the workload asks."),
    )
    description = forms.CharField(
        label="Description",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="For people who use it: what the questions are for.",
    )


class SaveForm(_NamedForm, SharingForm):
    """A new workload from a draft's questions."""


class NextVersionForm(forms.Form):
    """An existing workload, of which a draft's questions become the next version."""

    workload = forms.ModelChoiceField(
        queryset=SavedWorkload.objects.none(),
        label="Workload",
        empty_label=None,
        error_messages={
            "required": "Workload: nothing was chosen.",
            "invalid_choice": "Workload: must be one that you can edit.",
        },
    )

    def __init__(self, *args: Any, workloads: QuerySet[SavedWorkload], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["workload"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = workloads


class UseWorkloadForm(forms.Form):
    """Which version of a workload is asked of which dataset, and the column there for each that it needs."""

    USE = "use"
    #: Before the workload's column in the name of a field.
    COLUMN = "column."
    version = forms.IntegerField(required=False, min_value=1, max_value=10**9)
    dataset = forms.UUIDField(required=False)
    action = TypedTextField()

    def columns(self, needed: Iterable[str]) -> dict[str, str]:
        """The column chosen for each that is needed; empty where none is."""
        return {name: self.data.get(self.COLUMN + name, "") for name in needed}


class EditForm(_NamedForm, WorkloadForm):
    since = forms.IntegerField(widget=forms.HiddenInput, min_value=1)

    @staticmethod
    def initial_of(version: WorkloadVersion) -> dict[str, Any]:
        return {
            "name": version.workload.name,
            "description": version.workload.description,
            "workload": WorkloadForm.as_text(version.questions),
            "since": version.number,
        }
