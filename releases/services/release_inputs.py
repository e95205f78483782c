"""What a draft is planned from: its schema, its question, its budget and options; refuses what cannot be planned.

A certificate's draft counts under the schema of the release that it speaks of, whose published files it names.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from releases.engine.domain.privacy import PrivacyBudget, exact, privacy_budget
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.mechanisms.measured_error import NUMBER
from releases.engine.workload.kinds.largest_error import (
    ASKED,
    PAIRS,
    RELEASED_ANSWERS,
    SYNTHETIC_ROWS,
    TRIPLES,
    too_many_tables,
)
from releases.engine.workload.parsing import read_answered, read_question
from releases.engine.workload.queries import Marginal, Workload
from releases.engine.workload.questions import Question, of_columns_asked
from releases.ledger import high_water_marks
from releases.models import CERTIFICATE, Dataset, Release, ReleaseState
from releases.questions.kinds.largest_error import certified_parts
from releases.schema import file_codebook

if TYPE_CHECKING:
    from releases.engine.mechanisms.base import Plan

#: Said wherever something new is asked of a table whose rows are gone.
NO_ROWS = "The rows of this dataset were deleted, so nothing more can be released from it."


class Refusal(Exception):
    """What was asked cannot be done to a release in its state. The text says why."""


def read_beta(beta: str) -> Fraction:
    value = exact(beta, field="beta")
    if not 0 < value < 1:
        raise InvalidInput("beta", beta, "must be above 0 and below 1 (0.05 for 95% confidence)")
    return value


def inputs_of(release: Release) -> tuple[Schema, Question, PrivacyBudget, Fraction]:
    if not release.workload:
        raise Refusal("Say first what the release should answer.")
    if not release.epsilon:
        raise Refusal("Say first how much privacy budget the release may spend.")
    if release.kind is CERTIFICATE:
        schema = certified_schema(release)
        question = read_question(release.workload, schema.universe)
    else:
        declared = declared_schema(release.dataset)
        schema, question = of_columns_asked(declared, read_question(release.workload, declared.universe))
        # Of a table that was declared before this was looked at.
        file_codebook.check_can_all_be_met(release.dataset, schema.universe)
    return (
        schema,
        question,
        privacy_budget(epsilon=release.epsilon, delta=release.delta or "0"),
        read_beta(release.beta),
    )


def options_of(release: Release, name: str) -> dict[str, Any]:
    return dict((release.options or {}).get(name, {}))


def declared_schema(dataset: Dataset) -> Schema:
    schema = dataset.schema
    if schema is None:
        raise Refusal("Declare the dataset's columns and its protection first.")
    return schema


#: The mechanism of certificates.
MEASURED_ERROR = "measured-error"
#: What can be certified, by the word a form or a program sends for it: one thing, or the worse of two.
CERTIFIABLE = {
    SYNTHETIC_ROWS: (SYNTHETIC_ROWS,),
    RELEASED_ANSWERS: (RELEASED_ANSWERS,),
    "both": (SYNTHETIC_ROWS, RELEASED_ANSWERS),
}
#: The files that are read, and named by their SHA-256.
FILES = {SYNTHETIC_ROWS: "synthetic.parquet", RELEASED_ANSWERS: "answers.parquet"}


def certificate_numbers(of: Release, *, besides: Release | None = None) -> set[int]:
    """The numbers of a release's certificates that were submitted, or that a restored backup has forgotten; 0 of one
    that was before they had numbers.

    Args:
        besides: a certificate that is left out.
    """
    submitted = of.certificates.exclude(state=ReleaseState.DRAFT)
    if besides is not None:
        submitted = submitted.exclude(pk=besides.pk)
    found = {(each.options or {}).get(MEASURED_ERROR, {}).get(NUMBER.name, 0) for each in submitted}
    with suppress(high_water_marks.Unreadable):  # then nothing is charged
        found |= high_water_marks.certificate_numbers(of.pk)
    return found


def refuse_taken_number(release: Release, plan: Plan) -> None:
    """A certificate shares what may fail with the others of its release by its number, so no two may have the same.
    Called after the charge, under the lock of the budget, which is that of all of them.

    Raises:
        Refusal: it has none, or another one has it.
    """
    assert release.certifies is not None
    if plan.options[NUMBER.name] in {0, *certificate_numbers(release.certifies, besides=release)}:
        raise Refusal(
            "Another certificate of the release was submitted since this one was planned. Plan it again: how sure each "
            "of them must be depends on how many there are. Nothing was charged."
        )


def certifiable(of: Release) -> dict[str, tuple[str, ...]]:
    """What of a release can be certified, by the word for it, the usual choice first.

    Raises:
        Refusal: nothing can, with the reason.
    """
    receipt = counting_receipt(of)
    if of.dataset.rows_deleted_at is not None:
        raise Refusal(NO_ROWS)
    if of.dataset.is_in_database:
        raise Refusal("The table is in a database and may have changed since, so nothing measures that release now.")
    planned, declared = counted_schema(of), of.dataset.schema
    names = planned.universe.names
    # Of columns whose numbers it orders, a release has no bin for what is no number.
    ordered = [each.name for each in planned.universe.attributes if each == each.ordered]
    if (
        declared is None
        or not set(names) <= set(declared.universe.names)
        or replace(declared, universe=_as_counted(declared.universe.project(names).ordered(ordered), planned))
        != planned
    ):
        raise Refusal("The columns have changed since this release, so its counts mean something else now.")
    if _rows_answer_everything(receipt):
        return CERTIFIABLE
    return {RELEASED_ANSWERS: CERTIFIABLE[RELEASED_ANSWERS]}


#: Values of synthetic rows, in all columns, that are compared by tables they were not asked about.
MAX_COMPARED = 3 * 10**8


def possible_means(of: Release, what: str) -> dict[str, str]:
    """The mean errors that can be measured beside the largest error, each with why it cannot be if so. Public facts.

    Args:
        what: is certified, one of `CERTIFIABLE`.
    """
    receipt = counting_receipt(of)
    universe = counted_schema(of).universe
    asked = read_answered(receipt["workload"], universe)
    found = {ASKED: "" if any(isinstance(each, Marginal) for each in asked.families) else "No table was asked about."}
    if SYNTHETIC_ROWS not in CERTIFIABLE[what]:
        return found
    columns = columns_of_rows(of)
    for word in (PAIRS, TRIPLES):
        found[word] = too_many_tables(universe, columns, word)
    if receipt["synthetic_rows"] * len(columns) > MAX_COMPARED:
        many = f"The synthetic rows hold more than {MAX_COMPARED:,} values, which is more than is compared."
        return dict.fromkeys(found, many)
    return found


def columns_of_rows(of: Release) -> tuple[str, ...]:
    """The columns of a release's synthetic rows, in the order of its universe."""
    names = counted_schema(of).universe.names
    made = counting_receipt(of).get("synthetic_columns", names)
    return tuple(name for name in names if name in made)


def _as_counted(declared: Universe, planned: Schema) -> Universe:
    """What is declared, with what the plan says of rows that have an impossible combination, or no bin somewhere."""
    counted = planned.universe
    return replace(declared, drops_impossible=counted.drops_impossible, own_rows=counted.own_rows)


def certified_schema(release: Release) -> Schema:
    """The schema that a draft of a certificate counts under: that of the release it speaks of.

    Raises:
        Refusal: the release, or its files, are no longer what it speaks of.
    """
    of = release.certifies
    assert of is not None
    certifiable(of)
    assert release.workload is not None
    for what, named in certified_parts(release.workload).items():
        if digest_of_published(of, what) != named["sha256"]:
            raise Refusal("A published file of the release was changed since. Plan the certificate again.")
    return counted_schema(of)


def counting_receipt(of: Release) -> dict[str, Any]:
    """The receipt of a published release of counts."""
    if of.kind.why_not_certified:
        raise Refusal(of.kind.why_not_certified)
    if of.status is not ReleaseState.PUBLISHED or of.result is None:
        raise Refusal(f"Only a finished release can be certified; this one is {of.status.label}.")
    receipt: dict[str, Any] = of.result["receipt"]
    asked: Question = read_answered(receipt["workload"], counted_schema(of).universe)
    if not isinstance(asked, Workload):
        raise Refusal("Only a release of counts can be certified: the error of a statistic is no number of rows.")
    return receipt


def counted_schema(of: Release) -> Schema:
    """The schema that a published release was counted under."""
    assert of.result is not None
    return Schema.from_json(of.result["receipt"]["schema"])


def _rows_answer_everything(receipt: Mapping[str, Any]) -> bool:
    """Whether there are synthetic rows, with every column that was asked about."""
    universe = Schema.from_json(receipt["schema"]).universe
    asked = read_answered(receipt["workload"], universe)
    # Rows made before they had the columns asked about alone had all of them.
    columns = set(receipt.get("synthetic_columns", universe.names))
    return bool(receipt["synthetic_rows"]) and all(set(each.attributes) <= columns for each in asked.families)


def digest_of_published(of: Release, what: str) -> str:
    from releases.publication import files

    path = files.folder_of(of) / FILES[what]
    try:
        state = path.stat()
    except FileNotFoundError:
        raise Refusal(f"{FILES[what]} of the release is no longer there.") from None
    return _digest_of(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest_of(path: Path, size: int, changed_at: int) -> str:  # noqa: ARG001  a changed file is another key
    """Pages ask for the same file again and again; a run reads it again (`with_published`)."""
    from releases.publication import files

    return files.sha256_of(path)
