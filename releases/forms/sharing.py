"""The form that chooses the group who works on something with its owner."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.models import Group
from django.db.models import QuerySet

from releases.forms.fields import (
    GroupField,
)


class SharingForm(forms.Form):
    group = GroupField()

    def __init__(self, *args: Any, groups: QuerySet[Group], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["group"]
        assert isinstance(field, GroupField)
        field.queryset = groups
