"""What a session has answered, one line a question: for its page, and for its transcript."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import ceil, floor

from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.live.fitted import FittedOnline
from releases.engine.mechanisms.live.histogram import HistogramOnline
from releases.engine.mechanisms.live.listed import ListedOnline
from releases.engine.mechanisms.pmw.session import AnswerKind
from releases.engine.workload.queries import read_count
from releases.models import Session, SessionAnswer
from releases.publication.receipt import rows_text

_REPEATED = "The same answer as the first time, and it cost nothing."
_PAID = "Measured with noise: what was public was too far off, so one paid update was used."
_MEASURED = "Measured with noise of its own, of the size that an answer this close needs."
_LISTED = (
    "One of the answers that were bought when the session was opened, or added up from them. The table was not read."
)
_ALL_CELLS = (
    "Added up from the noisy count of every combination of values, which was bought when the session was opened. The "
    "table was not read."
)
_FITTED = (
    "Added up from the fit that was made when the session was opened, and within what was measured of its error then. "
    "The table was not read."
)
_FREE_BY = {HistogramOnline.name: _ALL_CELLS, ListedOnline.name: _LISTED, FittedOnline.name: _FITTED}
_FREE = (
    "Not measured: worked out from the session’s public estimate of the table. At first it takes every combination of "
    "values as equally frequent; each paid answer improves it. No update was used."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class PastAnswer:
    """One stored answer.

    Attributes:
        query: what was asked, as JSON; `title` in words.
        lower, upper: what the true count lies between.
    """

    stored: SessionAnswer
    title: str
    query: str
    lower: int
    upper: int


def past_answer(stored: SessionAnswer, session: Session, universe: Universe) -> PastAnswer:
    return PastAnswer(
        stored=stored,
        title=read_count(stored.query, universe).title(universe),
        query=json.dumps(stored.query, ensure_ascii=False),
        lower=max(0, floor(stored.estimate - stored.half_width)),
        upper=ceil(min(stored.estimate + stored.half_width, session.most_rows)),
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerShown:
    """One answer on a page.

    Attributes:
        chip: where it came from; `chip_kind` the class of its chip, `how` the same in sentences.
    """

    number: str
    title: str
    estimate: str
    margin: str
    lower: str
    upper: str
    chip: str
    chip_kind: str
    how: str
    asked_by: str


def answer_shown(
    stored: SessionAnswer, session: Session, universe: Universe, *, again: bool = False, names_people: bool = False
) -> AnswerShown:
    """
    Args:
        again: it was asked before, and is shown to somebody who asked again.
        names_people: says who asked.
    """
    past = past_answer(stored, session, universe)
    free = _FREE_BY.get(session.release.mechanism, _FREE)
    chip, chip_kind, how = {
        AnswerKind.PAID: ("◔ paid", "wait", _PAID),
        AnswerKind.MEASURED: ("◔ measured", "wait", _MEASURED),
    }.get(AnswerKind(stored.kind), ("○ free", "", free))
    if again:
        chip, chip_kind, how = "○ asked before", "", _REPEATED
    return AnswerShown(
        number=f"{stored.sequence:,}",
        title=past.title,
        estimate=f"{stored.estimate:,}",
        margin=rows_text(stored.half_width, universe.counted),
        lower=f"{past.lower:,}",
        upper=f"{past.upper:,}",
        chip=chip,
        chip_kind=chip_kind,
        how=how,
        asked_by=str(stored.asked_by) if names_people else "",
    )
