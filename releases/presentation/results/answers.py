"""One question's answers on the result page: a page of the table, its chart, and what else can be chosen.

Everything here was paid for, or follows from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from django.core.paginator import Page, Paginator
from django.http import QueryDict
from django.template.defaultfilters import floatformat

from releases.display.charts.answers import marginal_bars
from releases.display.charts.tables import heat_map
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.counted import Counted
from releases.engine.domain.universe import Universe
from releases.engine.mechanisms.base import LEVELS_NOTE, Consistency, mechanism
from releases.engine.workload.queries import Family, Marginal, Workload
from releases.engine.workload.questions import Question
from releases.engine.workload.statistic import Part
from releases.presentation.results.added_up import AddedUp, added_up, sum_in_words
from releases.presentation.results.rows import Answer
from releases.presentation.results.stored_answers import read_answers
from releases.presentation.results.table_filter import MAX_ARRANGED, Arrangement, Head
from releases.presentation.results.two_answers import MOST_OFFERED, TwoAnswers, is_measured, two_answers
from releases.publication import files, report
from releases.publication.receipt import are_limited, fuller_bins, rows_text
from releases.publication.region_maps import RegionMap, map_of, read_maps
from releases.publication.shares import Whole
from releases.publication.totals import TOGETHER, of_counts, public_rows
from releases.questions.base import kind_of
from releases.schema.descriptions import Notes, with_unit

#: Answers on one page, in the chart and in the table.
PAGE_LENGTH = 60
#: Questions offered in the list; of more, those whose title holds the searched text.
MAX_LISTED = 300

#: What the tables of one release add up to, by how their counts hang together.
_TOTALS: dict[Consistency | None, str] = {
    Consistency.OWN_NOISE: "Each count has its own noise, so tables of one release add up to different totals. A count "
    "that came out below 0 is shown as 0.",
    Consistency.NOISY_CELLS: "All counts are sums of the same noisy cells, so tables of one release add up to the same "
    "total, except for rounding, and where a count that came out below 0 is shown as 0.",
    Consistency.MADE_TO_AGREE: "The counts were made to agree, so tables of one release add up to the same total, "
    "except for rounding, and where a count that came out below 0 is shown as 0.",
    Consistency.LEVELS_MADE_TO_AGREE: "The counts were made to agree: tables of one release add up to the same total, "
    "and a table over a column to those over its levels, except for rounding, and where a count that came out below 0 "
    "is shown as 0.",
    Consistency.SAME_ROWS_MADE_TO_AGREE: "The tables of this release that count the same rows were made to agree, so "
    "they add up to the same total, except for rounding, and where a count that came out below 0 is shown as 0.",
    Consistency.ONE_TABLE: "All counts are read off one estimated table, so tables of one release add up to the same "
    "total, except for rounding.",
    Consistency.PAID_NOISE: "A free answer was read off what was public at the time, and only a paid one has noise of "
    "its own, so tables of one release add up to different totals. A count that came out below 0 is shown as 0.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerRow:
    """One row of the table, its numbers written out."""

    labels: tuple[str, ...]
    estimate: str = ""
    lower: str = ""
    upper: str = ""
    share: str = ""
    synthetic: str = ""
    chosen: str = ""
    is_outside: bool = False

    @classmethod
    def of(cls, answer: Answer, whole: Whole | None) -> AnswerRow:
        return cls(
            share="" if whole is None else whole.text(answer),
            labels=answer.labels,
            estimate=floatformat(answer.estimate, "0g"),
            lower=floatformat(answer.lower, "0g"),
            upper=floatformat(answer.upper, "0g"),
            synthetic=floatformat(answer.synthetic, "0g"),
            chosen=answer.chosen,
            is_outside=answer.is_outside,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class QuestionChoice:
    """A question that the page can show."""

    number: str
    title: str
    is_chosen: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswersTable:
    """The answers of the chosen question.

    Attributes:
        number, title: of the question, as its address and its heading have them.
        questions: what else can be chosen, those whose title holds the text that was searched for.
        more_questions: how many are not listed, written out; empty where all are.
        find: the text that was searched for.
        has_search: whether there are so many questions that one searches for them.
        importance: what the question's weight made of its bound, where weights differ.
        heat, chart: specifications of charts.
        map: the answers on a map, where they are of regions.
        heads: of the table's columns; without an address where nothing can be sorted.
        rows: of this page of the table; `has_shares` where they are of a whole table, whose rows each count once.
        pages: from which to which answer, with the addresses of the pages before and after; None for a single page.
        only: the word that rows are filtered by, and `filtered`, how many have it.
        two: any two of its answers beside each other.
        sum_filtered: what the rows that have the word come to together; empty where they do not add up.
        added: any of its answers together; None where they do not add up.
        counted: what is counted.
        details: how to read synthetic counts and totals.
        total: what all its answers come to; None where they do not add up.
        is_synthetic_first: whether synthetic counts come before the released ones, as they are closer to the truth.
    """

    number: str
    title: str
    questions: tuple[QuestionChoice, ...]
    more_questions: str
    find: str
    has_search: bool
    importance: str
    heat: dict[str, Any] | None
    chart: dict[str, Any] | None
    map: RegionMap | None
    fuller_bins: tuple[str, ...]
    can_be_arranged: bool
    sort: str
    only: str
    is_arranged: bool
    filtered: str
    heads: tuple[Head, ...]
    rows: tuple[AnswerRow, ...]
    is_choice: bool
    has_shares: bool
    has_synthetic: bool
    pages: AnswerPages | None
    two: TwoAnswers | None
    sum_filtered: str
    added: AddedUp | None
    details: str
    counted: str
    total: AnswerRow | None = None
    is_synthetic_first: bool = False

    @property
    def is_synthetic_last(self) -> bool:
        return self.has_synthetic and not self.is_synthetic_first

    def with_synthetic_first(self) -> AnswersTable:
        """The same with the counts of the synthetic rows before the released ones; they are in the last column."""
        if not self.has_synthetic:
            return self
        labels = len(self.rows[0].labels) if self.rows else 0
        *others, synthetic = self.heads
        return replace(self, heads=(*others[:labels], synthetic, *others[labels:]), is_synthetic_first=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerPages:
    """Which answers of how many are shown, and where the others are."""

    sentence: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Wish:
    """What the address asks to see, as it was typed."""

    question: str = ""
    page: str = ""
    find: str = ""
    sort: str = ""
    only: str = ""
    first: str = ""
    second: str = ""
    add: tuple[str, ...] = ()

    @classmethod
    def read(cls, address: QueryDict) -> Wish:
        given = {name: address.get(name, "").strip() for name in cls.__slots__ if name != "add"}
        return cls(**given, add=tuple(address.getlist("add")))


def answers_table(
    receipt: dict[str, Any], workload: Question, universe: Universe, folder: Path, *, notes: Notes, wish: Wish
) -> AnswersTable:
    """The chosen question's answers, a page of them as arranged."""
    titles = [family.title(universe) for family in workload.families]
    matching = [number for number, title in enumerate(titles) if wish.find.casefold() in title.casefold()]
    chosen = _chosen(wish.question, matching, len(titles))
    family = workload.families[chosen]
    counted = universe.counted_by(family.attributes)
    # Of a list whose length is an answer, none may have been found.
    cells = min(family.cells(universe), receipt["answers"])
    arrangement = Arrangement.read(str(chosen), wish.sort, wish.only, labels=len(family.attributes))
    first = sum(each.cells(universe) for each in workload.families[:chosen])
    read = partial(read_answers, folder, family, universe, first=first, receipt=receipt)
    is_heat = report.is_heat(family, universe)
    is_read_whole = is_heat or cells <= MOST_OFFERED or (arrangement and cells <= MAX_ARRANGED)
    every = list(read(start=0, stop=cells)) if is_read_whole else None
    wanted = arrangement.apply(every) if every is not None and arrangement else every
    page = Paginator(range(cells if wanted is None else len(wanted)), PAGE_LENGTH).get_page(wish.page)
    start, stop = max(page.start_index() - 1, 0), page.end_index()
    rows = wanted[start:stop] if wanted is not None else list(read(start=start, stop=stop))
    # Of a filter that nothing passes, what the whole table is like.
    kind = next(iter(rows or every or []), None)
    is_choice = kind is not None and kind.estimate is None
    has_synthetic = kind is not None and kind.synthetic is not None
    can_be_arranged = 1 < cells <= MAX_ARRANGED and not is_choice
    more = len(matching) - MAX_LISTED
    is_whole = isinstance(family, Marginal) and can_be_arranged
    whole = _whole(folder, receipt, first, cells) if is_whole else None
    is_proved = Proof(receipt["bound"]["proof"]).is_unconditional
    # Answers add up where each row is counted in one of them.
    parts = every if every is not None and whole is not None and all(map(is_measured, every)) else []
    return AnswersTable(
        number=str(chosen),
        title=titles[chosen],
        questions=tuple(
            QuestionChoice(number=str(each), title=titles[each], is_chosen=each == chosen)
            for each in matching[:MAX_LISTED]
        ),
        more_questions=f"{more:,}" if more > 0 else "",
        find=wish.find,
        has_search=len(titles) > MAX_LISTED,
        importance=_importance(workload, family, receipt, chosen),
        heat=_heat(every, family.attributes, notes, counted.many) if is_heat and every is not None else None,
        chart=_in_time(family, universe, every or rows)
        or _bars(rows, titles[chosen], family.attributes, notes, counted.many),
        map=map_of(read_maps(folder), workload, family, files.reader(folder), first=first, unit=""),
        fuller_bins=tuple(fuller_bins(universe[name] for name in binned_columns(workload, family))),
        can_be_arranged=can_be_arranged,
        sort=arrangement.sort,
        only=arrangement.only,
        is_arranged=bool(arrangement),
        filtered=f"{page.paginator.count:,} of {cells:,}" if arrangement.only else "",
        heads=arrangement.heads(
            family.attributes,
            of_counts=workload.is_counts,
            is_choice=is_choice,
            has_shares=whole is not None,
            has_synthetic=has_synthetic,
            are_links=can_be_arranged,
        ),
        rows=tuple(AnswerRow.of(row, whole) for row in rows),
        is_choice=is_choice,
        has_shares=whole is not None,
        has_synthetic=has_synthetic,
        pages=_pages(page, arrangement),
        two=two_answers(
            every or (),
            first=wish.first,
            second=wish.second,
            unit=counted.many,
            is_count=True,
            is_proved=is_proved,
        ),
        sum_filtered=sum_in_words(wanted or (), of=parts, whole=whole, unit=counted.many, is_proved=is_proved)
        if arrangement.only
        else "",
        added=added_up(parts, wish.add, whole=whole, unit=counted.many, is_proved=is_proved),
        details=_details(
            receipt,
            counted,
            has_shares=whole is not None,
            has_synthetic=has_synthetic,
            has_levels=bool(universe.hierarchies),
            own_rows=_own_rows(family, universe),
        ),
        counted=counted.many,
        total=None if whole is None or arrangement.only else _total(whole, labels=len(family.attributes)),
    )


def _total(whole: Whole, *, labels: int) -> AnswerRow:
    estimate, lower, upper = of_counts(whole).values()
    named_so = (TOGETHER, *[""] * (labels - 1))
    return AnswerRow.of(Answer(labels=named_so, estimate=estimate, lower=lower, upper=upper), None)


def _chosen(question: str, matching: Sequence[int], number: int) -> int:
    """The question that the address names, or the first that is listed."""
    named = int(question) if question.isascii() and question.isdecimal() and len(question) < 10 else -1
    return named if 0 <= named < number else next(iter(matching), 0)


def _pages(page: Page[int], arrangement: Arrangement) -> AnswerPages | None:
    if not page.has_other_pages():
        return None
    return AnswerPages(
        sentence=f"Answers {page.start_index():,} to {page.end_index():,} of {page.paginator.count:,}",
        before=arrangement.address_of(page.previous_page_number()) if page.has_previous() else "",
        after=arrangement.address_of(page.next_page_number()) if page.has_next() else "",
    )


def _whole(folder: Path, receipt: dict[str, Any], first: int, cells: int) -> Whole | None:
    """What the shares of a table are taken of."""
    stored = files.stored_rows(folder / f"{files.ANSWERS}.parquet", first, first + cells)
    return Whole.of(stored["estimate"], stored["lower"], stored["upper"], rows=public_rows(receipt))


def _details(
    receipt: dict[str, Any], counted: Counted, *, has_shares: bool, has_synthetic: bool, has_levels: bool, own_rows: str
) -> str:
    """How shares, synthetic counts and totals are to be read.

    Args:
        own_rows: which rows this table counts, where others count others.
    """
    sentences = [own_rows]
    if has_shares:
        here = " here" if own_rows else ""
        sentences.append(
            f"“Share” is that of all {counted.many} that counted{here}. Its interval follows from those of all counts "
            "here."
        )
    if has_synthetic:
        is_scaled = are_limited(receipt) or receipt["mechanism"]["options"].get("rows")
        scaled = ", scaled to the released total" if is_scaled else ""
        sentences.append(f"“Synthetic” is the count in the synthetic rows{scaled}.")
        sentences.append("“Outside” marks one that is not between the two bounds.")
    used = receipt["mechanism"]
    described = mechanism(used["name"])
    consistency = described.consistency_under(used["parameters"])
    sentences.append(_TOTALS.get(consistency, ""))
    if has_levels:
        sentences.append(_on_levels(receipt, consistency, is_of_all_columns=described.joins_all_columns))
    return " ".join(filter(None, sentences))


def _on_levels(receipt: dict[str, Any], consistency: Consistency | None, *, is_of_all_columns: bool) -> str:
    """What tables over a column and over its level add up to, where the sentence about totals does not say so."""
    # A level of a noisy cell is public, so sums of the cells of all columns add up.
    if consistency in (None, Consistency.LEVELS_MADE_TO_AGREE) or (
        consistency is Consistency.NOISY_CELLS and is_of_all_columns
    ):
        return ""
    if "add up" in receipt["notes"].get(LEVELS_NOTE, ""):
        return "A table over a column adds up to the one over its level, except for rounding."
    return "What a table over a column adds up to can differ from a table over its level."


def _own_rows(family: Family | Part, universe: Universe) -> str:
    """Which rows a table counts, where each counts its own; else empty."""
    if not universe.own_rows:
        return ""
    counted = universe.counted_by(family.attributes)
    one, many = counted.one, counted.many
    dropping = [name for name in family.attributes if universe[name].may_drop]
    if not dropping:
        return f"This table counts all {many}; other tables here may count fewer."
    return (
        f"This table counts all {many} but those that the rules of {' or '.join(dropping)} leave out. Other tables "
        f"here may count other {many}: no rule of a column leaves a {one} out of a table without that column."
    )


def binned_columns(workload: Question, family: Family | Part | None = None) -> tuple[str, ...]:
    """The columns whose bins the answers are about; sums, means and quantiles are about values."""
    if not kind_of(workload).is_about_bins:
        return ()
    return family.attributes if family is not None and workload.is_counts else workload.columns


def _importance(workload: Question, family: Family | Part, receipt: dict[str, Any], position: int) -> str:
    """How much the question matters and how close its counts are, where that differs from question to question."""
    if isinstance(family, Part) or not isinstance(workload, Workload) or not workload.is_weighted:
        return ""
    if not mechanism(receipt["mechanism"]["name"]).uses_weights:
        return ""
    within = rows_text(receipt["bound"]["half_widths"][position], workload.universe.counted_by(family.attributes))
    return (
        f"Importance {family.weight:,}: every count of this question is within {within} of the truth, "
        "all at once with the others."
    )


def _heat(rows: list[Answer], heads: Sequence[str], notes: Notes, unit: str) -> dict[str, Any]:
    drawn = [{"labels": row.labels, **row.to_json()} for row in rows]
    return heat_map(drawn, heads=[with_unit(name, notes) for name in heads], unit=unit)


def _in_time(family: Family | Part, universe: Universe, rows: list[Answer]) -> dict[str, Any] | None:
    return report.time_chart(family, universe, [row.labels for row in rows], [row.to_json() for row in rows])


def _bars(rows: list[Answer], title: str, names: Sequence[str], notes: Notes, unit: str) -> dict[str, Any] | None:
    """None of a single number, or of a choice, which has no axis."""
    if len(rows) < 2 or rows[0].estimate is None:
        return None
    titled = [with_unit(name, notes) for name in names]
    # The question's title is above the chart anyway.
    axis = "" if titled == list(names) else ", ".join(titled)
    return marginal_bars([row.to_json() for row in rows], title=title, unit=unit, axis=axis)
