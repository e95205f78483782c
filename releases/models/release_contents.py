"""What a release holds that takes much room: its questions, its plan and its result, each in a row of its own.

So a list that reads releases reads none of it. A row is written once: a draft whose questions change points to another
row, and nobody can change what was published, or the plan that was charged, where it is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import models

from releases.models.append_only import AppendOnly


class _Content(models.Model):
    content = models.JSONField()

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self._meta.verbose_name} {self.pk}"


class ReleaseQuestions(_Content):
    """What a release asks: a workload."""

    append_only = AppendOnly(
        name="questions", message="the questions of a release are never changed where they are", may_be_deleted=True
    )


class ReleasePlan(_Content):
    """The plan that was charged and is run."""

    append_only = AppendOnly(
        name="plan", message="the plan of a release is never changed where it is", may_be_deleted=True
    )


class ReleaseResult(_Content):
    """What pages show of a release: bound, total, an index of the answers."""

    append_only = AppendOnly(
        name="result", message="the result of a release is never changed where it is", may_be_deleted=True
    )


#: Each kind of content by the name under which a release gives it, with the release's column that points to it.
CONTENTS: dict[str, tuple[str, type[_Content]]] = {
    "workload": ("stored_questions", ReleaseQuestions),
    "plan": ("stored_plan", ReleasePlan),
    "result": ("stored_result", ReleaseResult),
}


def in_rows(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a release by its columns: what takes much room becomes a row, and None stays none."""
    made = {name: value for name, value in values.items() if name not in CONTENTS}
    for name, (column, rows) in CONTENTS.items():
        if name in values:
            content = values[name]
            made[column] = None if content is None else rows._default_manager.create(content=content)
    return made


def remove_unused(keys: Mapping[str, Iterable[int | None]]) -> None:
    """Rows of each kind of content to which no release points any more."""
    for name, found in keys.items():
        unused = [key for key in found if key is not None]
        if unused:
            CONTENTS[name][1]._default_manager.filter(models.Q(release=None), pk__in=unused).delete()
