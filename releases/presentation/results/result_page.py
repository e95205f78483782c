"""The page of a finished release: its answers, how good they are, its files, and what can be done with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.urls import reverse

from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.counted import Counted
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.questions import Inquiry, Question
from releases.models import CHECK, Release, ReleaseState, WorkloadVersion
from releases.planning.usefulness import says_little_of_released
from releases.presentation.releases.column_check import NO_CHECK, ColumnCheck, column_check, own_findings
from releases.presentation.results.answers import AnswersTable, Wish, answers_table, binned_columns
from releases.presentation.results.disclosure import AttackOffer, attack_offer
from releases.presentation.results.no_rows import says_no_rows
from releases.presentation.results.statistics import ShownStatistic, shown_statistic
from releases.publication import files
from releases.publication.archive import ARCHIVE, dictionary_of, download_names
from releases.publication.associations import associations_of
from releases.publication.dictionary import DICTIONARY, DescribedColumn, columns_of
from releases.publication.disclosure import DisclosureSection, disclosure_section
from releases.publication.headline import headline
from releases.publication.readme import FILES
from releases.publication.receipt import (
    counted_in_words,
    fuller_bins,
    limit_in_words,
    protects_text,
    rules_said,
    rules_that_drop,
    sensible,
    spent_text,
    synthetic_beside,
)
from releases.publication.replicates import REPLICATES, replicates_in_words
from releases.publication.report import rewritten
from releases.publication.trust_section import TrustSection, trust_section
from releases.questions.base import kind_of
from releases.schema import learned
from releases.schema.descriptions import notes_of, table_of
from releases.schema.learned import Learned

#: A dictionary of more bins is not written to say its size.
_MAX_MEASURED_BINS = 10_000
#: Room for the text in an archive and for what an archive adds.
_OTHERS_IN_ARCHIVE = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class SyntheticRows:
    """How many synthetic rows there are, with which columns, and how far they are from the answers.

    Attributes:
        columns: their names; empty where the receipt does not say.
        is_part: whether other declared columns have no place in them, since nothing was asked about them.
        limit: how many there can be at most, whatever the noise.
        difference: how far they are from the release's own answers; `is_outside` if beyond some interval.
    """

    number: str
    columns: str
    is_part: bool
    limit: str
    difference: str
    is_outside: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Download:
    """One file, and how large it is."""

    name: str
    address: str
    size: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Visibility:
    """Who may see the release, for its own people.

    Attributes:
        chip: whether it is public, of a published one; `chip_kind` its class.
        session_address, session_readers: of a private session, where its answers stay readable, and for whom.
    """

    is_published: bool
    is_public: bool
    can_be_made_public: bool
    chip: str
    chip_kind: str
    sentence: str
    session_address: str
    session_readers: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ResultPage:
    """A release's result in words.

    Attributes:
        about: what its owner said of the table.
        workload, workload_address: the saved workload that it asks, with its version.
        headline: what was found, in one sentence; its accuracy where no such sentence is made.
        bound: the accuracy of counts in one sentence, where the headline is another.
        counted: how many rows or persons counted, as far as it says it; `counts` which of them.
        found: what a check found of the columns, itself or of this release; `check_address` leads to the latter.
        doubts_columns: whether the columns are to be looked at before the release is made public.
        no_rows: that what it says could also come from a table, or a part of it, of which no row was counted; empty
            where it could not. `may_leave_out` are the rules that can have left rows out, if so.
        says_little: why its answers are of little use; empty where they are of use.
        rules: how unexpected and missing values were handled.
        table: the answers to counting questions; None of a statistic.
        statistic: the answers of a statistic; None of counts. `fuller_bins`: bins that hold both ends.
        downloads: files by what they hold, of a release that is not withdrawn; `columns` what its columns mean.
        replicates: how intervals are made of replicates of its synthetic rows, or why none are valid; `has_replicates`
            whether there are some.
        trust: how far its synthetic rows can be trusted; None of a withdrawn release, or where that was not worked out.
        disclosure: what an attack on its method found out; None of a withdrawn release, or one that was not tested.
        attack: how a member of the dataset's team tries one; None of others.
        learned: what it learned about a column, for those who may declare it.
        has_charts: whether the library that draws charts is needed.
    """

    title: str
    about: str
    workload: str
    workload_address: str
    headline: str
    bound: str
    quality: str
    counted: str
    counts: str
    found: tuple[str, ...]
    check_address: str
    no_rows: str
    doubts_columns: bool
    may_leave_out: tuple[str, ...]
    says_little: str
    rules: tuple[str, ...]
    mechanism: str
    spent: str
    protects: str
    answers: str
    synthetic: SyntheticRows | None
    trust: TrustSection | None
    disclosure: DisclosureSection | None
    attack: AttackOffer | None
    table: AnswersTable | None
    statistic: ShownStatistic | None
    fuller_bins: tuple[str, ...]
    downloads: Mapping[str, list[Download]]
    replicates: tuple[str, ...]
    has_replicates: bool
    columns: tuple[DescribedColumn, ...]
    can_be_compared: bool
    learned: Learned | None
    visibility: Visibility
    has_charts: bool

    def with_synthetic_first(self) -> ResultPage:
        """The same with synthetic counts before the released ones, where there are counts."""
        return self if self.table is None else replace(self, table=self.table.with_synthetic_first())


def result_page(
    release: Release, *, wish: Wish, taken_from: WorkloadVersion | None = None, is_own: bool = False
) -> ResultPage:
    """What the page of a published or withdrawn release shows."""
    assert release.result is not None
    result, receipt, notes = release.result, release.result["receipt"], notes_of(release.result)
    schema = Schema.from_json(receipt["schema"])
    universe = schema.universe
    workload = read_answered(receipt["workload"], universe)
    folder = files.folder_of(release)
    statistic = (
        shown_statistic(
            workload,
            folder,
            receipt=receipt,
            notes=notes,
            first=wish.first,
            second=wish.second,
            is_proved=Proof(receipt["bound"]["proof"]).is_unconditional,
            associations=associations_of(receipt),
        )
        if isinstance(workload, Inquiry)
        else None
    )
    table = answers_table(receipt, workload, universe, folder, notes=notes, wish=wish) if statistic is None else None
    ends = fuller_bins(universe.attributes)
    is_published = release.status is ReleaseState.PUBLISHED
    no_rows = says_no_rows(workload, folder, receipt) if is_published else ""
    findings = _findings(release, schema, is_own=is_own) if is_published else NO_CHECK
    is_choice = statistic is not None and bool(statistic.answers and statistic.answers[0].chosen)
    found = _headline(result, workload, folder, part=int(table.number) if table else None) if is_published else ""
    bound = receipt["bound"]["sentence"]
    trust = trust_section(result, folder) if is_published else None
    return ResultPage(
        title=release.title,
        about=table_of(result),
        workload=f"{taken_from.workload}, version {taken_from.number}" if taken_from else "",
        workload_address=reverse("workload", args=[taken_from.workload_id]) if taken_from else "",
        headline=found or bound,
        bound=bound if found and statistic is None else "",
        quality=_quality(receipt, schema, bound=bound if found and statistic is not None else ""),
        counted=counted_in_words(receipt, is_checked=bool(findings.address_beside(release))),
        counts=schema.counted.many,
        found=findings.found,
        check_address=findings.address_beside(release),
        no_rows=no_rows,
        doubts_columns=bool(no_rows or findings.misread),
        may_leave_out=tuple(rules_that_drop(receipt)) if no_rows else (),
        says_little=says_little_of_released(receipt),
        rules=tuple(each for each in rules_said(receipt) if each not in ends),
        mechanism=receipt["mechanism"]["title"],
        spent=sensible(spent_text(receipt)),
        protects=protects_text(receipt),
        answers=f"{receipt['answers']:,}",
        synthetic=_synthetic_rows(receipt),
        trust=trust,
        disclosure=disclosure_section(receipt, folder) if is_published else None,
        attack=attack_offer(release, receipt, folder) if is_published and is_own else None,
        table=table,
        statistic=statistic,
        fuller_bins=tuple(fuller_bins(universe[name] for name in binned_columns(workload))) if statistic else (),
        downloads=_downloads(release, folder, universe) if is_published else {},
        replicates=replicates_in_words(receipt) if is_published else (),
        has_replicates=REPLICATES in result["files"],
        columns=tuple(columns_of(receipt, notes)) if is_published else (),
        can_be_compared=not is_choice and release.certifies_id is None,
        learned=learned.learned_by(release) if is_own and is_published else None,
        visibility=_visibility(release),
        has_charts=bool(table and (table.chart or table.heat or table.map))
        or bool(statistic and (statistic.chart or statistic.map or statistic.associations))
        or bool(trust and trust.chart),
    )


def _headline(result: dict[str, Any], question: Question, folder: Path, *, part: int | None) -> str:
    """What was found: as the result keeps it, or read from the answers where another part is looked at."""
    if "headline" in result and part in (None, kind_of(question).main_part(question)):
        return str(result["headline"])
    return headline(question, files.reader(folder), result["receipt"], notes_of(result), part=part)


def _findings(release: Release, schema: Schema, *, is_own: bool) -> ColumnCheck:
    """A check is seen by the people of its dataset, and by others where it is public or is looked at itself."""
    if release.kind is CHECK:
        return own_findings(release)
    found = column_check(release, schema.universe)
    if not is_own and not (found.release is not None and found.release.is_public):
        return NO_CHECK
    return found if schema.rows_may_vanish or found.misread else NO_CHECK


def _quality(receipt: dict[str, Any], schema: Schema, *, bound: str) -> str:
    """What is known of its accuracy, after the bound itself where that is not at the head of the page."""
    proof = f"{bound} This bound is {receipt['bound']['proof']}.".strip()
    many, unit = schema.counted.many, schema.unit
    out = " of their own columns leave out" if schema.universe.own_rows else " leave out"
    if unit.id_column is not None and schema.counted is not Counted.PERSONS:
        most = "1 row" if unit.max_rows == 1 else f"{unit.max_rows:,} rows"
        return f"{proof} The true counts hold at most {most} of each person, and exclude all that the rules{out}."
    return f"{proof} The true answers exclude all {many} that the rules{out}." if schema.rows_may_vanish else proof


def _visibility(release: Release) -> Visibility:
    is_published = release.status is ReleaseState.PUBLISHED
    is_public, is_private = is_published and release.is_public, is_published and not release.is_public
    sentences = [release.status.meaning]
    if is_public:
        sentences.append("Public: everybody can read and download it, and it is in the catalogue.")
    if is_private:
        sentences.append("Private: visible to the dataset team.")
    if is_published and release.certifies_id:
        sentences.append("It names the release it certifies and what was asked there.")
    is_private_session = is_private and release.kind.is_interactive
    return Visibility(
        is_published=is_published,
        is_public=is_public,
        can_be_made_public=is_published and not is_public,
        chip="✓ public" if is_public else "○ private" if is_private else "",
        chip_kind="ok" if is_public else "",
        sentence=" ".join(sentences),
        session_address=reverse("session", args=[release.pk]) if is_private_session else "",
        session_readers=f"{release.session.get_audience_display()}, and by the people who asked there"
        if is_private_session
        else "",
    )


def _synthetic_rows(receipt: dict[str, Any]) -> SyntheticRows | None:
    if not receipt["synthetic_rows"]:
        return None
    columns = receipt.get("synthetic_columns", [])
    return SyntheticRows(
        number=f"{receipt['synthetic_rows']:,}",
        columns=", ".join(columns),
        is_part=0 < len(columns) < len(receipt["schema"]["columns"]),
        limit=limit_in_words(receipt),
        difference=synthetic_beside(receipt),
        is_outside=bool((receipt.get("synthetic_beside") or {}).get("outside")),
    )


def _downloads(release: Release, folder: Path, universe: Universe) -> dict[str, list[Download]]:
    """By what they hold: one content can be written in several forms."""
    assert release.result is not None
    sizes, found = _sizes(folder, release.result, universe), dict[str, list[Download]]()
    for name in download_names(release.result):
        address = reverse("download", args=[release.pk, name])
        shown = Download(name=name, address=address, size=sizes.get(name, ""))
        found.setdefault(FILES[name.split(".")[0]], []).append(shown)
    return found


def _sizes(folder: Path, result: dict[str, Any], universe: Universe) -> dict[str, str]:
    """Of each download. The archive shrinks what it holds, so it is below all of it together."""
    again = {name: path.stat().st_size for name, path in rewritten(folder).items() if name in result["files"]}
    sizes = result["files"] | again
    if sum(each.size for each in universe.attributes) <= _MAX_MEASURED_BINS:
        sizes[DICTIONARY] = len(dictionary_of(folder, result).encode())
    shown = {name: files.readable_size(size) for name, size in sizes.items()}
    return shown | {ARCHIVE: f"below {files.readable_size(sum(sizes.values()) + _OTHERS_IN_ARCHIVE)}"}
