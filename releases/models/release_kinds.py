"""The kinds of release, and how each differs wherever releases are listed, planned, run and published.

A release that learns a column's range or categories is a plain one: it is planned, confirmed and run as any other, and
``schema/learned.py`` reads what it learned. How a kind is run stands in ``services/execution.py``, and its pages in
``views/releases/kinds.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    _Text = models.CharField["ReleaseKind", "ReleaseKind"]
else:
    _Text = models.CharField


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseKind:
    """A kind of release.

    Attributes:
        name: in the database.
        noun: what people ask a reviewer for.
        has_steps: whether a draft is planned in steps, from questions to a comparison; else on a page of its own.
        is_interactive: whether it answers questions one at a time, rather than in one result.
        counts_by_rules: whether it counts rows for the first time under the columns' rules, so that a column that is
            misread leaves them out.
        why_not_saved: why its questions cannot be saved as a workload; empty where they can.
        why_not_certified: why its largest error cannot be measured; empty where it can.
    """

    name: str
    noun: str = "release"
    has_steps: bool = True
    is_interactive: bool = False
    counts_by_rules: bool = True
    why_not_saved: str = ""
    why_not_certified: str = ""

    def __str__(self) -> str:
        return self.name


PLAIN = ReleaseKind(name="release")

SESSION = ReleaseKind(
    name="session",
    noun="session",
    has_steps=False,
    is_interactive=True,
    why_not_saved="A live session has no questions of its own to save.",
    why_not_certified="A live session cannot be certified: it has no workload of its own, and every answer came with "
    "its bound.",
)

CERTIFICATE = ReleaseKind(
    name="certificate",
    has_steps=False,
    counts_by_rules=False,
    why_not_saved="A certificate asks about one release and can be asked of no other dataset.",
    why_not_certified="It is a certificate itself: its own sentence says how much its noise can have added.",
)

CHECK = ReleaseKind(
    name="check",
    noun="check of the columns",
    has_steps=False,
    counts_by_rules=False,
    why_not_saved="A check of the columns asks how one table's values read; every dataset has its own.",
    why_not_certified="A check of the columns counts how values read, and every count came with its bound.",
)

KINDS = {kind.name: kind for kind in (PLAIN, SESSION, CERTIFICATE, CHECK)}


def plain() -> ReleaseKind:
    """Of a release that is made without saying more."""
    return PLAIN


class KindField(_Text):
    """A kind of release, kept by its name."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> ReleaseKind | None:
        return None if value is None else KINDS[value]  # none where a join found no release

    def to_python(self, value: Any) -> ReleaseKind:
        return value if isinstance(value, ReleaseKind) else KINDS[value]

    def get_prep_value(self, value: Any) -> str:
        return str(value)

    def value_to_string(self, obj: models.Model) -> str:
        return str(self.value_from_object(obj))
