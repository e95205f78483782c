"""Certificates: the largest error of a published release, measured with noise by a release of its own.

A certificate's question names the files it speaks of by their SHA-256. They are read when it runs, and where they are
not those of its plan it stops before any data are touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import transaction

from releases.engine.errors import EngineError, InvalidInput
from releases.engine.largest_error import RELEASED_ANSWERS, SYNTHETIC_ROWS
from releases.engine.mechanisms.base import Plan, mechanism
from releases.engine.mechanisms.measured_error import MeasuredErrorPlan
from releases.engine.privacy import privacy_budget
from releases.engine.universe import Schema
from releases.engine.workload import Question, Workload, read_question
from releases.models import Release, ReleaseState
from releases.receipt import rows_of_one
from releases.services.releases import NO_ROWS, Refusal, draft_release, read_beta, set_choice

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from numpy.typing import NDArray

MECHANISM = "measured-error"
#: What can be certified, by the word a form or a program sends for it: one thing, or the worse of two.
CERTIFIABLE = {
    SYNTHETIC_ROWS: (SYNTHETIC_ROWS,),
    RELEASED_ANSWERS: (RELEASED_ANSWERS,),
    "both": (SYNTHETIC_ROWS, RELEASED_ANSWERS),
}
#: The files that are read, and named by their SHA-256.
FILES = {SYNTHETIC_ROWS: "synthetic.parquet", RELEASED_ANSWERS: "answers.parquet"}


class FileChanged(EngineError):
    """A published file is not the one that a certificate was planned for."""


@transaction.atomic
def draft_certificate(
    *, of: Release, by: User, epsilon: str, delta: str = "0", beta: str = "0.05", what: str = ""
) -> Release:
    """A draft of a certificate, ready to be confirmed and submitted like any release.

    A draft that the same person has of the same release is changed instead of making another.

    Args:
        what: one of `CERTIFIABLE`; left empty, the synthetic rows where there are any.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: the release cannot be certified.
    """
    asked = _question(of, what)
    draft = Release.objects.filter(certifies=of, state=ReleaseState.DRAFT, submitted_by=by).first()
    if draft is None:
        title = f"Certified quality of {of.title}"[: Release._meta.get_field("title").max_length]
        draft = draft_release(dataset=of.dataset, by=by, title=title)
    Release.objects.filter(pk=draft.pk).update(certifies=of, workload=asked)
    set_choice(release=draft, epsilon=epsilon, delta=delta, beta=beta, mechanism_name=MECHANISM)
    return draft


def plan_certificate(*, of: Release, epsilon: str, delta: str = "0", beta: str = "0.05", what: str = "") -> Plan:
    """What a certificate would cost and how much its noise can add: public inputs only, nothing stored.

    Raises:
        InvalidInput: a value breaks its rule.
        Refusal: the release cannot be certified.
    """
    asked, schema = _question(of, what), _schema_of(of)
    return mechanism(MECHANISM).plan(
        schema,
        read_question(asked, schema.universe),
        budget=privacy_budget(epsilon=epsilon, delta=delta or "0"),
        beta=read_beta(beta),
    )


def certifiable(of: Release) -> dict[str, tuple[str, ...]]:
    """What of a release can be certified, by the word for it, the usual choice first.

    Raises:
        Refusal: nothing can, with the reason.
    """
    receipt = _counting_receipt(of)
    if of.dataset.rows_deleted_at is not None:
        raise Refusal(NO_ROWS)
    planned, declared = _schema_of(of), of.dataset.schema
    names = planned.universe.names
    if declared is None or not set(names) <= set(declared.universe.names) or declared.project(names) != planned:
        raise Refusal("The columns were declared anew since this release, so its counts mean something else now.")
    if _rows_answer_everything(receipt):
        return CERTIFIABLE
    return {RELEASED_ANSWERS: CERTIFIABLE[RELEASED_ANSWERS]}


def certified_schema(release: Release) -> Schema:
    """The schema that a draft of a certificate counts under: that of the release it speaks of.

    Raises:
        Refusal: the release, or its files, are no longer what it speaks of.
    """
    of = release.certifies
    assert of is not None
    certifiable(of)
    assert release.workload is not None
    for what, named in release.workload["queries"][0]["largest_error"]["released"].items():
        if _digest(of, what) != named["sha256"]:
            raise Refusal("A published file of the release was changed since. Plan the certificate anew.")
    return _schema_of(of)


def with_published(plan: Plan, *, of: Release) -> Plan:
    """The plan of a certificate with the numbers of the published files it names. Touches no data.

    Raises:
        FileChanged: a file is not the one that the plan names.
    """
    from releases import files

    assert isinstance(plan, MeasuredErrorPlan)
    for each in plan.statistic.released:
        path = files.folder_of(of) / FILES[each.what]
        if not path.is_file() or files.sha256_of(path) != each.sha256:
            raise FileChanged(f"{FILES[each.what]} is not the file that the certificate was planned for.")
        plan = plan.with_published(each.what, _numbers(of, each.what, path, plan.statistic.workload))
    return plan


def _question(of: Release, what: str) -> dict[str, Any]:
    """The question as stored: the release's workload, and the files that answer it by their SHA-256."""
    possible = certifiable(of)
    if what and what not in possible:
        raise InvalidInput("what", what, f"must be one of {', '.join(possible)}")
    parts = possible[what or next(iter(possible))]
    workload = _counting_receipt(of)["workload"]
    released = {part: {"sha256": _digest(of, part)} for part in parts}
    return {"version": 1, "queries": [{"largest_error": {"workload": workload, "released": released}}]}


def _counting_receipt(of: Release) -> dict[str, Any]:
    """The receipt of a published release of counts."""
    if of.is_session:
        raise Refusal(
            "A live session cannot be certified: it has no workload of its own, and every answer came with its bound."
        )
    if of.certifies_id is not None:
        raise Refusal("It is a certificate itself: its own sentence says how much its noise can have added.")
    if of.status is not ReleaseState.PUBLISHED or of.result is None:
        raise Refusal(f"Only a finished release can be certified; this one is {of.status.label}.")
    receipt: dict[str, Any] = of.result["receipt"]
    asked: Question = read_question(receipt["workload"], _schema_of(of).universe)
    if not isinstance(asked, Workload):
        raise Refusal("Only a release of counts can be certified: the error of a statistic is no number of rows.")
    return receipt


def _schema_of(of: Release) -> Schema:
    """The schema that a published release was counted under."""
    assert of.result is not None
    return Schema.from_json(of.result["receipt"]["schema"])


def _rows_answer_everything(receipt: Mapping[str, Any]) -> bool:
    """Whether there are synthetic rows, with every column that was asked about."""
    universe = Schema.from_json(receipt["schema"]).universe
    asked = read_question(receipt["workload"], universe)
    # Rows made before they had the columns asked about alone had all of them.
    columns = set(receipt.get("synthetic_columns", universe.names))
    return bool(receipt["synthetic_rows"]) and all(set(each.attributes) <= columns for each in asked.families)


def _numbers(of: Release, what: str, path: Path, workload: Workload) -> list[NDArray[np.float64]]:
    """What a published file says of each count, family by family."""
    import pyarrow.parquet

    from releases import files

    if what == RELEASED_ANSWERS:
        column = pyarrow.parquet.read_table(path, columns=["estimate"]).column("estimate")
        return workload.split(np.asarray(column.to_numpy(), dtype=np.float64))
    assert of.result is not None
    receipt = of.result["receipt"]
    counts = workload.answer(files.synthetic_marginals(path, workload.universe))
    return [np.rint(each * rows_of_one(receipt)) for each in counts]


def _digest(of: Release, what: str) -> str:
    from releases import files

    path = files.folder_of(of) / FILES[what]
    try:
        state = path.stat()
    except FileNotFoundError:
        raise Refusal(f"{FILES[what]} of the release is no longer there.") from None
    return _digest_of(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest_of(path: Path, size: int, changed_at: int) -> str:  # noqa: ARG001  a changed file is another key
    """Pages ask for the same file again and again; a run reads it anew (`with_published`)."""
    from releases import files

    return files.sha256_of(path)
