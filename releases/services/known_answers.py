"""Counts that finished releases of the same table answer already, for nothing.

A count is a sum of cells of each released table that has all of its columns. Every true cell lies in its interval, all
at once with the confidence of that release, so the count lies between the sums of their ends. No row is read and
nothing is spent: it is made of what was released, and of releases alone that the person may read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.schema import Schema
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Count, Marginal, Workload, read_count
from releases.models import Dataset, Release, ReleaseState, Session
from releases.publication import files
from releases.publication.readme import confidence_of

if TYPE_CHECKING:
    from django.contrib.auth.models import User

    from releases.engine.mechanisms.pmw.online import OnlinePlan

#: Releases that are looked through, the newest first, and cells of one of their tables.
_MOST_RELEASES, _MOST_CELLS = 20, 100_000


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownAnswer:
    """What a finished release says of a count.

    Attributes:
        lower, upper: between which the true count lies, with the confidence of the release.
        reach: how far the estimate was to be off at most before the release was made; infinite where only the release
            says it. The interval can be narrower, for it is cut where no count can be.
    """

    release: Release
    estimate: float
    lower: float
    upper: float
    confidence: str
    reach: float

    @property
    def half_width(self) -> float:
        return max(self.upper - self.estimate, self.estimate - self.lower)


def known_in_session(
    query: Mapping[str, Any], *, session: Session, plan: OnlinePlan, person: User, within: int | None = None
) -> KnownAnswer | None:
    """What finished releases say of a question, where the session would be no nearer to the truth. None too where the
    session answers this person nothing.

    Args:
        within: the error that the asker can accept; None for that of the session's answer.

    Raises:
        InvalidInput: the question breaks a rule of the format.
    """
    asked = read_count(dict(query), plan.schema.universe)
    if session.release.status is not ReleaseState.OPEN or not session.lets_ask(person):
        return None
    known = known_answer(asked, schema=plan.schema, dataset=session.release.dataset, person=person)
    own = plan.half_width_of(asked) if within is None else within
    return known if known is not None and known.half_width <= own else None


def known_answer(query: Count, *, schema: Schema, dataset: Dataset, person: User) -> KnownAnswer | None:
    """What the finished release says that was to be the closest; None where none says anything.

    Which one speaks does not depend on what was drawn: of several intervals the narrowest misses more often than any
    one of them, since noise far below the truth has its interval cut at 0. So the bounds that were known before are
    compared, and of what is bounded by the release alone the newest is taken.

    Args:
        schema: under which the count is asked. Releases that count other rows are left out.
        dataset: of a table in a database the rows may have changed since, so nothing is known.
    """
    if dataset.is_in_database:
        return None
    readable = Release.objects.visible_to(person).filter(dataset=dataset, state=ReleaseState.PUBLISHED)
    found = [
        each
        for release in readable.select_related("stored_result").order_by("-published_at")[:_MOST_RELEASES]
        for each in _answers(release, query.simplified(schema.universe), schema)
    ]
    return min(found, key=lambda each: each.reach, default=None)


def _answers(release: Release, query: Count, schema: Schema) -> Iterator[KnownAnswer]:
    assert release.result is not None
    receipt = release.result["receipt"]
    if not {each["name"] for each in receipt["schema"]["columns"]}.issuperset(query.attributes):
        return
    own = Schema.from_json(receipt["schema"])
    question = read_answered(receipt["workload"], own.universe)
    if not (isinstance(question, Workload) and Proof(receipt["bound"]["proof"]).is_unconditional):
        return
    asked = schema.population_of(query.attributes)
    declared = {each.name: each for each in own.universe.attributes}
    is_alike = all(declared.get(name) == schema.universe[name] for name in query.attributes)
    if not is_alike:
        return
    first = 0
    widths = receipt["bound"]["half_widths"]
    for family, width in zip(question.families, widths, strict=True):
        cells = family.cells(own.universe)
        counts_alike = own.population_of(family.attributes) == asked
        holds_it = counts_alike and set(query.attributes) <= set(family.attributes)
        if isinstance(family, Marginal) and holds_it and cells <= _MOST_CELLS:
            is_foreknown = Proof(receipt["bound"]["proof"]) is Proof.BEFORE and width is not None
            yield _summed(release, family, query, own, first, width=width if is_foreknown else np.inf)
        first += cells


def _summed(
    release: Release, table: Marginal, query: Count, schema: Schema, first: int, *, width: float
) -> KnownAnswer:
    shape = tuple(schema.universe[name].size for name in table.attributes)
    wanted = dict(zip(query.attributes, query.bins, strict=True))
    chosen = [wanted.get(name, range(size)) for name, size in zip(table.attributes, shape, strict=True)]
    path = files.folder_of(release) / f"{files.ANSWERS}.parquet"
    stored = files.stored_rows(path, first, first + table.cells(schema.universe))
    cells = np.ix_(*chosen)
    estimate, lower, upper = (
        float(np.array(stored[name]).reshape(shape)[cells].sum()) for name in ("estimate", "lower", "upper")
    )
    return KnownAnswer(
        release=release,
        estimate=min(max(estimate, lower), upper),
        lower=lower,
        upper=upper,
        confidence=confidence_of((release.result or {})["receipt"]),
        reach=width * prod(map(len, chosen)),
    )
