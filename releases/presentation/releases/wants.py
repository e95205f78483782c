"""What people want of a dataset, in plain words: the first choice of the page of questions."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from releases.engine.workload.kinds.mean import Mean
from releases.engine.workload.queries import Workload
from releases.models import Release
from releases.questions.base import Want, calling, kinds, offered_statistics

#: What each offers, in the order of the page, to be read through `calling`.
_SAID = {
    Want.TABLE: ("A table of counts", "How many {many} have each value, or each combination of values."),
    Want.ROWS: ("Synthetic rows", "An artificial table that resembles yours."),
    Want.AVERAGES: ("Averages or totals", "Of columns that hold numbers, over all {many} or by group."),
    Want.PERCENTILES: ("A median or other quantiles", "Of all {many}, or by group."),
    Want.LINE: ("How one column depends on others", "Regression."),
    Want.OTHER: ("Another statistic", "The most common value, votes, a range and more."),
    Want.SAME: ("The same as before", "The questions of an earlier release, draft or workload."),
}
#: The kind that opens first, where it is not the first in order.
_OPENS = {Want.AVERAGES: Mean.kind}


def kinds_of(want: Want) -> tuple[str, ...]:
    """The kinds of question that answer it."""
    if want is Want.ROWS:
        return (Workload.kind,)
    names = (name for name in (Workload.kind, *offered_statistics()) if kinds()[name].want is want)
    return tuple(sorted(names, key=lambda name: name != _OPENS.get(want)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """A link to one of several parts of a page."""

    title: str
    says: str
    address: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class WantsShown:
    """What can be wanted, and what is.

    Attributes:
        choices: what can be wanted; what is asked together, a session and a survey have pages of their own.
        kinds: of question, where what is wanted has several.
        want, chosen: its name in addresses, and its title; empty until one is chosen.
        asks_counts, asks_rows, asks_statistic, asks_same: which part of the page it takes; none of them until then.
    """

    choices: tuple[Choice, ...]
    kinds: tuple[Choice, ...]
    want: str
    chosen: str
    asks_counts: bool
    asks_rows: bool
    asks_statistic: bool
    asks_same: bool


def wants_shown(release: Release, *, want: Want | None, kind: str) -> WantsShown:
    """
    Args:
        want: None until one is chosen.
        kind: of question that the page is about.
    """
    universe = release.dataset.universe
    assert universe is not None
    own = [
        Choice(title=title, says=calling(says, universe), address=f"?want={each}#kind", is_chosen=each is want)
        for each, (title, says) in _SAID.items()
    ]
    session = Choice(
        title="A live session",
        says="For questions that are not known yet.",
        address=reverse("new_session", args=[release.dataset_id]),
        is_chosen=False,
    )
    survey = Choice(
        title="A survey",
        says="Each answer is randomised before it is sent.",
        address=reverse("new_survey"),
        is_chosen=False,
    )
    together = reverse("new_collection", args=[release.dataset_id])
    glance = Choice(
        title="Everything at a glance",
        says="A small chart of each column, and the strongest associations.",
        address=f"{together}#glance",
        is_chosen=False,
    )
    several = Choice(
        title="Several of these at once",
        says="Under one budget, with one confidence.",
        address=together,
        is_chosen=False,
    )
    names = kinds_of(want) if want is not None else ()
    return WantsShown(
        choices=(*own[:-1], glance, several, session, survey, own[-1]),
        kinds=tuple(
            Choice(title=kinds()[name].title, says="", address=f"?kind={name}#kind", is_chosen=name == kind)
            for name in names
            if len(names) > 1
        ),
        want=want or "",
        chosen=_SAID[want][0] if want is not None else "",
        asks_counts=want is Want.TABLE,
        asks_rows=want is Want.ROWS,
        asks_statistic=want in (Want.AVERAGES, Want.PERCENTILES, Want.LINE, Want.OTHER),
        asks_same=want is Want.SAME,
    )
