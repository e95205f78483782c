"""The kinds of release, and how each differs wherever releases are listed, planned, run and published.

A release that learns a column's range or categories is a plain one: it is planned, confirmed and run as any other, and
``schema/learned.py`` reads what it learned. How a kind is run stands in ``services/execution.py``, and its pages in
``views/releases/kinds.py``.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Q


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseKind:
    """A kind of release.

    Attributes:
        rows: which releases are of this kind.
        noun: what people ask a reviewer for.
        has_steps: whether a draft is planned in steps, from questions to a comparison; else on a page of its own.
        is_interactive: whether it answers questions one at a time, rather than in one result.
        why_not_saved: why its questions cannot be saved as a workload; empty where they can.
        why_not_certified: why its largest error cannot be measured; empty where it can.
    """

    rows: Q
    noun: str = "release"
    has_steps: bool = True
    is_interactive: bool = False
    why_not_saved: str = ""
    why_not_certified: str = ""


PLAIN = ReleaseKind(rows=Q(certifies=None, is_session=False))

SESSION = ReleaseKind(
    rows=Q(is_session=True),
    noun="session",
    has_steps=False,
    is_interactive=True,
    why_not_saved="A live session has no questions of its own to save.",
    why_not_certified="A live session cannot be certified: it has no workload of its own, and every answer came with "
    "its bound.",
)

CERTIFICATE = ReleaseKind(
    rows=Q(certifies__isnull=False),
    has_steps=False,
    why_not_saved="A certificate asks about one release and can be asked of no other dataset.",
    why_not_certified="It is a certificate itself: its own sentence says how much its noise can have added.",
)
