"""Certificates: the largest error of a published release, measured with noise by a release of its own.

A certificate's question names the files it speaks of by their SHA-256. They are read when it runs, and where they are
not those of its plan it stops before any data are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from releases.engine.bounds.distance import ScaledRows
from releases.engine.domain.privacy import privacy_budget
from releases.engine.errors import EngineError, InvalidInput
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.mechanisms.measured_error import NUMBER, MeasuredErrorPlan
from releases.engine.workload.kinds.largest_error import PAIRS, RELEASED_ANSWERS, SYNTHETIC_ROWS, TRIPLES
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Workload
from releases.models import CERTIFICATE, Release, ReleaseState
from releases.publication.receipt import rows_of_one, stands_for
from releases.questions.kinds.largest_error import certifying_workload
from releases.services.planned_transactions import planned_atomically
from releases.services.release_inputs import (
    FILES,
    MEASURED_ERROR,
    certifiable,
    certificate_numbers,
    columns_of_rows,
    counted_schema,
    counting_receipt,
    digest_of_published,
    possible_means,
    read_beta,
)
from releases.services.releases import draft_release, set_choice

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from numpy.typing import NDArray


class FileChanged(EngineError):
    """A published file is not the one that a certificate was planned for."""


@planned_atomically()
def draft_certificate(
    *,
    of: Release,
    by: User,
    epsilon: str,
    delta: str = "0",
    beta: str = "0.05",
    what: str = "",
    means: Sequence[str] = (),
) -> Release:
    """A draft of a certificate, ready to be confirmed and submitted like any release.

    A draft that the same person has of the same release is changed instead of making another.

    Args:
        what: one of `CERTIFIABLE`; left empty, the synthetic rows where there are any.
        means: whose mean error is measured too, of `possible_means`.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: the release cannot be certified.
    """
    asked = _question(of, what, means)
    draft = Release.objects.filter(certifies=of, state=ReleaseState.DRAFT, submitted_by=by).first()
    if draft is None:
        title = f"Certified quality of {of.title}"[: Release._meta.get_field("title").max_length]
        draft = draft_release(dataset=of.dataset, by=by, title=title, kind=CERTIFICATE, certifies=of)
    Release.objects.filter(pk=draft.pk).change(workload=asked)
    numbered = {NUMBER.name: next_number(of)}
    set_choice(release=draft, epsilon=epsilon, delta=delta, beta=beta, mechanism_name=MEASURED_ERROR, options=numbered)
    return draft


def next_number(of: Release) -> int:
    """Of a certificate that would be bought now, among those of a release; whatever became of the others."""
    return 1 + max(certificate_numbers(of), default=0)


def plan_certificate(
    *, of: Release, epsilon: str, delta: str = "0", beta: str = "0.05", what: str = "", means: Sequence[str] = ()
) -> Plan:
    """What a certificate would cost and how much its noise can add: public inputs only, nothing stored.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: the release cannot be certified.
    """
    asked, schema = _question(of, what, means), counted_schema(of)
    return mechanism(MEASURED_ERROR).plan(
        schema,
        read_question(asked, schema.universe),
        budget=privacy_budget(epsilon=epsilon, delta=delta or "0"),
        beta=read_beta(beta),
        options={NUMBER.name: next_number(of)},
    )


def with_published(plan: Plan, *, of: Release) -> Plan:
    """The plan of a certificate with the numbers of the published files it names. Touches no data.

    Raises:
        FileChanged: a file is not the one that the plan names.
    """
    from releases.publication import files

    assert isinstance(plan, MeasuredErrorPlan)
    for each in plan.statistic.released:
        path = files.folder_of(of) / FILES[each.what]
        if not path.is_file() or files.sha256_of(path) != each.sha256:
            raise FileChanged(f"{FILES[each.what]} is not the file that the certificate was planned for.")
        numbers = _numbers(of, each.what, path, plan.statistic.workload)
        rows = _rows(of, path, plan) if each.what == SYNTHETIC_ROWS and plan.needs_rows else None
        plan = plan.with_published(each.what, numbers, rows)
    return plan


def _question(of: Release, what: str, means: Sequence[str]) -> dict[str, Any]:
    """The question as stored: the release's workload, and the files that answer it by their SHA-256."""
    possible = certifiable(of)
    if what and what not in possible:
        raise InvalidInput("what", what, f"must be one of {', '.join(possible)}")
    what = what or next(iter(possible))
    parts, measurable = possible[what], possible_means(of, what)
    for word in means:
        if word not in measurable:
            raise InvalidInput("means", word, f"must be one of {', '.join(measurable)}")
        if measurable[word]:
            raise InvalidInput("means", word, measurable[word])
    columns = columns_of_rows(of) if {PAIRS, TRIPLES} & set(means) else ()
    workload = counting_receipt(of)["workload"]
    released = {part: {"sha256": digest_of_published(of, part)} for part in parts}
    return certifying_workload(workload, released, [each for each in measurable if each in means], columns)


def _rows(of: Release, path: Path, plan: MeasuredErrorPlan) -> ScaledRows:
    """The synthetic rows themselves, to be compared by any tables of their columns."""
    from releases.publication import files

    receipt = counting_receipt(of)
    universe = plan.statistic.workload.universe
    bins = files.synthetic_bins(path, universe, columns_of_rows(of))
    return ScaledRows(bins=bins, stands_for=stands_for(receipt))


def _numbers(of: Release, what: str, path: Path, workload: Workload) -> list[NDArray[np.float64]]:
    """What a published file says of each count, family by family."""
    import pyarrow.parquet

    from releases.publication import files

    if what == RELEASED_ANSWERS:
        column = pyarrow.parquet.read_table(path, columns=["estimate"]).column("estimate")
        return workload.split(np.asarray(column.to_numpy(), dtype=np.float64))
    assert of.result is not None
    receipt = of.result["receipt"]
    counts = workload.answer(files.synthetic_marginals(path, workload.universe))
    return [np.rint(each * rows_of_one(receipt)) for each in counts]
