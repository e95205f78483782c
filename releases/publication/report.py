"""The report of a release: one page to read and to print, as HTML and as PDF, with the charts that its page shows.

It is made of released answers and of the receipt alone. Charts and the PDF are drawn by a program of its own
(`drawing.py`), so that nothing that goes wrong there can lose a release.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string

from releases.display.charts.answers import date_marks, marginal_bars, time_bars
from releases.display.charts.tables import heat_map
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Family, Marginal
from releases.engine.workload.questions import Inquiry, Question, dates_of
from releases.engine.workload.statistic import Part
from releases.publication import drawing
from releases.publication.associations import associations_of
from releases.publication.disclosure import DisclosureSection, disclosure_section
from releases.publication.headline import Rows, measured, unit_of, with_units
from releases.publication.ranges import range_chart
from releases.publication.readme import citation_text, path_of
from releases.publication.receipt import (
    counted_in_words,
    limit_in_words,
    protects_text,
    rules_said,
    sensible,
    spent_text,
    synthetic_beside,
)
from releases.publication.region_maps import Maps, column_of, map_of, read_maps
from releases.publication.shares import MOST_CELLS, Whole
from releases.publication.totals import TOGETHER, of_table, public_rows
from releases.publication.trust_map import TRUST_MAP
from releases.publication.trust_section import TrustSection, trust_section
from releases.questions.base import kind_of
from releases.questions.headline import ReleasedAnswer, number_text, value_text
from releases.schema.descriptions import Notes, notes_of, table_of, with_unit

HTML = "report.html"
#: Before the names of a report that was written again.
_AGAIN = "tested-"
#: Questions in a report, and answers of each; the rest is in the files.
_MOST_TABLES, _MOST_ROWS = 12, 60
#: More bins of a column than this cannot be told apart in a heat map.
_MAX_HEAT_BINS = 50
_TIMEOUT = 120
_NUMBERS = ("estimate", "lower", "upper")


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportTable:
    """The answers to one question.

    Attributes:
        chart: how it is drawn; None where there is nothing to compare.
        is_measured: whether its rows end with numbers, or `of_dates` with dates.
        more: what is not in the table; empty where everything is.
        says: what it shows, in words; empty where nothing is made of it.
        has_one_axis: whether its numbers have one unit.
        has_shares: whether its rows end with the share of all.
        map: its numbers on a map; None where there is none. `missing` says which rows are not on it.
        is_heat: whether all of it is a table of two columns, neither too long to be seen at once.
        spans: of all its rows in order the first day and the one after the last, or nothing where a row has no date;
            empty where it is not in order of time.
        map_of: the column whose regions its map shows, and the column's labels in order; empty where it has none.
    """

    title: str
    is_measured: bool
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    more: str
    chart: dict[str, Any] | None
    says: str = ""
    of_dates: bool = False
    has_one_axis: bool = True
    has_shares: bool = False
    map: dict[str, Any] | None = None
    missing: str = ""
    is_heat: bool = False
    spans: tuple[tuple[str, ...], ...] = ()
    map_of: tuple[Any, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What a report says.

    Attributes:
        synthetic: how far the synthetic rows can be trusted, as on the page; empty where there are none.
        facts: cost, protection and method, each with its name.
        limits: what the numbers do not say.
        more: how many questions are in the files alone; empty where none.
    """

    title: str
    dataset: str
    date: str
    about: str
    headline: str
    bound: str
    counted: str
    tables: tuple[ReportTable, ...]
    more: str
    facts: tuple[tuple[str, str], ...]
    rules: tuple[str, ...]
    limits: tuple[str, ...]
    citation: str
    synthetic: tuple[ReportTable, ...] = ()


def is_heat(family: Family | Part, universe: Universe) -> bool:
    """Whether it is a table of two columns, neither too long to be seen at once."""
    if not isinstance(family, Marginal) or len(family.attributes) != 2:
        return False
    return all(2 <= universe[name].size <= _MAX_HEAT_BINS for name in family.attributes)


def report_of(result: Mapping[str, Any], read: Callable[[int, int], Rows], *, folder: Path, digest: str) -> Report:
    """
    Args:
        result: of a release, as its row keeps it, with its headline.
        read: the released answers from one place to before another.
        digest: SHA-256 of receipt.json.
        folder: with its other files.
    """
    receipt = result["receipt"]
    schema = Schema.from_json(receipt["schema"])
    question = read_answered(receipt["workload"], schema.universe)
    found, bound = result["headline"], receipt["bound"]["sentence"]
    more = len(question.families) - _MOST_TABLES
    address = f"{settings.SITE_ADDRESS}{path_of(receipt)}"
    return Report(
        title=receipt["title"],
        dataset=receipt["dataset"],
        date=receipt["date"],
        about=table_of(result),
        headline=found or bound,
        bound=bound if found else "",
        counted=counted_in_words(receipt),
        tables=(*_tables(question, result, read, read_maps(folder)), *_associations(receipt)),
        more=f"{more:,} more tables are in answers.csv." if more > 0 else "",
        facts=(
            ("Privacy spent", sensible(spent_text(receipt))),
            ("Protects", protects_text(receipt)),
            ("Method", f"{receipt['mechanism']['title']}. {receipt['mechanism']['source']}"),
            ("Accuracy", f"The bound is {receipt['bound']['proof']}."),
        ),
        rules=tuple(rules_said(receipt)),
        limits=tuple(filter(None, _limits(receipt, schema, question))),
        citation=citation_text(receipt, digest=digest, address=address),
        synthetic=(*_trusted(trust_section(result, folder)), *_attacked(disclosure_section(receipt, folder))),
    )


def _limits(receipt: Mapping[str, Any], schema: Schema, question: Question) -> tuple[str, ...]:
    many = schema.counted.many.capitalize()
    about = " about the column that leaves them out" if schema.universe.own_rows else ""
    return (
        "Every number was changed by chance, so that nobody can learn much about anybody from it. A small true number "
        "can come out as 0, and nothing as a small number.",
        "An interval holds if the rows were drawn at random from the population that it is about. It does not say "
        "whether one thing is the cause of another."
        if kind_of(question).is_of_population
        else "An interval says how far chance has moved a number. It does not say how well the table represents people "
        "who are not in it.",
        f"{many} that the rules below leave out are in no number{about}." if schema.rows_may_vanish else "",
        limit_in_words(receipt),
        synthetic_beside(receipt),
    )


def _tables(
    question: Question, result: Mapping[str, Any], read: Callable[[int, int], Rows], maps: Maps
) -> tuple[ReportTable, ...]:
    universe, notes, first = question.universe, notes_of(result), 0
    tables = []
    for family in question.families[:_MOST_TABLES]:
        cells = result["receipt"]["answers"] if question.is_open else family.cells(universe)
        rows = read(first, first + min(cells, _MOST_ROWS))
        named = repeat(("",)) if question.is_open else family.labels(universe)
        labels = list(islice(named, len(rows)))
        columns = [with_unit(name, notes) for name in family.attributes] if question.is_counts else ["Of"]
        of_dates = dates_of(question) is not None
        left, kind = cells - len(rows), kind_of(question)
        in_whole = question.is_counts and kind.counts_rows
        is_whole = (isinstance(family, Marginal) or kind.has_shares) and 1 < cells <= MOST_CELLS
        # Of weights the number of rows, public or not, is not the whole.
        known = None if kind.has_shares else public_rows(result["receipt"])
        every = read(first, first + cells) if cells <= MOST_CELLS else []
        shares = _shares(rows, every, known=known) if is_whole else []
        total, named_so = of_table(question, family, every, result["receipt"]), (TOGETHER, *[""] * (len(columns) - 1))
        on_map = map_of(maps, question, family, read, first=first, unit=unit_of(question, notes))
        if not question.is_counts and not question.is_open:
            labels = [(each,) for each in with_units(question, (label for (label,) in labels), notes)]
        tables.append(
            ReportTable(
                title=family.title(universe),
                is_measured=not rows or "estimate" in rows[0],
                of_dates=of_dates,
                heads=(*columns, *_heads(rows, of_dates=of_dates), *(("Share",) if shares else ())),
                has_shares=bool(shares),
                rows=(
                    *(
                        (*label, *_values(row, in_whole=in_whole), *shares[place : place + 1])
                        for place, (label, row) in enumerate(zip(labels, rows, strict=True))
                    ),
                    *([(*named_so, *_values(total, in_whole=in_whole), *[""] * bool(shares))] if total else []),
                ),
                more=f"{left:,} more answers are in answers.csv." if left else "",
                has_one_axis=kind.has_one_axis,
                map=on_map.chart if on_map else None,
                missing=on_map.missing if on_map else "",
                is_heat=kind.counts_rows and is_heat(family, universe),
                spans=_spans(family, universe),
                map_of=(column, universe[column].labels) if on_map and (column := column_of(question, family)) else (),
                chart=None
                if left or not kind.has_one_axis
                else _chart(
                    family,
                    universe,
                    labels,
                    rows,
                    columns,
                    measured="" if kind.counts_rows else measured(question, family.title(universe), notes),
                )
                or _on_range(question, family, rows, notes),
            )
        )
        first += cells
    return tuple(tables)


def _shares(rows: Rows, every: Rows, *, known: float | None) -> list[str]:
    """Of each row its share of a whole table of counts, or of weights; none where nothing was counted.

    Args:
        every: all rows of the table.
        known: how many were counted in all, where that is public.
    """
    if not every or "answer" in every[0]:
        return []
    estimates, lowers, uppers = ([row[name] for row in every] for name in _NUMBERS)
    whole = Whole.of(estimates, lowers, uppers, rows=known)
    if whole is None:
        return []
    return [whole.text(ReleasedAnswer(label="", **{name: row[name] for name in _NUMBERS})) for row in rows]


def _associations(receipt: Mapping[str, Any]) -> Iterator[ReportTable]:
    """The tables of pairs that were chosen, each below what it shows."""
    for each in associations_of(receipt):
        rows = tuple((*labels, *(f"{number:,}" for number in numbers)) for labels, numbers in each.cells)
        yield ReportTable(
            title=each.title,
            is_measured=True,
            heads=(*each.columns, "Released", "At least", "At most"),
            rows=rows,
            more="",
            chart=each.chart,
            says=each.sentence,
        )


def _trusted(trust: TrustSection | None) -> Iterator[ReportTable]:
    """How far the synthetic rows can be trusted, as their page says it."""
    if trust is None:
        return
    yield _plain(
        "Quality of the synthetic rows",
        ("Measure", "Certified", "Worst, certified", "Estimated"),
        [(row.measure, row.certified, row.worst, row.estimated) for row in trust.quality],
        says=trust.about,
        more=" ".join(trust.details),
    )
    key = "In a square, a percentage is certified, m is measured, ~ modelled, – independent." if trust.chart else ""
    yield _plain(
        "Which relations to trust",
        ("Columns", "State", "Away from the table by at most", "No count is off by more than"),
        [(pair.columns, pair.state, pair.within, pair.rows) for pair in trust.pairs],
        says=f"{trust.advice} {key}".strip(),
        more=f"{trust.counts} {trust.more}".strip(),
        chart=trust.chart,
    )
    if trust.associations:
        yield _plain(
            "Which columns go together in the synthetic rows",
            ("Columns", "Association"),
            [(pair.columns, pair.association) for pair in trust.pairs if pair.association],
            says=trust.of_associations,
            chart=trust.associations,
        )


def _attacked(test: DisclosureSection | None) -> Iterator[ReportTable]:
    """What an attack found out, as the page of its release says it."""
    if test is not None:
        yield _plain(
            "What an attack finds out",
            ("People", "In the table", "Not in it", "More, with its range"),
            [(row.people, row.inside, row.outside, row.more) for row in test.rows],
            says=f"{test.found} {test.compared}",
            more="Numbers are right guesses in 100 tries. " + " ".join(test.method),
            is_measured=True,
        )


def _plain(
    title: str,
    heads: tuple[str, ...],
    rows: Sequence[tuple[str, ...]],
    *,
    says: str,
    more: str = "",
    chart: dict[str, Any] | None = None,
    is_measured: bool = False,
) -> ReportTable:
    left = f"{len(rows) - _MOST_ROWS:,} more rows are in {TRUST_MAP}." if len(rows) > _MOST_ROWS else ""
    return ReportTable(
        title=title,
        heads=heads,
        rows=tuple(rows[:_MOST_ROWS]),
        says=says,
        more=f"{left} {more}".strip(),
        chart=chart,
        is_measured=is_measured,
    )


def _heads(rows: Rows, *, of_dates: bool) -> tuple[str, ...]:
    if rows and "answer" in rows[0]:
        return ("Released answer",)
    return ("Released", "Earliest", "Latest") if of_dates else ("Released", "At least", "At most")


def _values(row: Mapping[str, Any], *, in_whole: bool) -> tuple[str, ...]:
    """As on the page. The nearest whole numbers enclose the same counts as the ends do."""
    if "answer" in row:
        return (row["answer"],)
    return tuple(number_text(row[name], 0) if in_whole else value_text(row[name]) for name in _NUMBERS)


def time_chart(
    family: Family | Part, universe: Universe, labels: Iterable[tuple[str, ...]], rows: Iterable[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Counts of a column of dates by days, weeks, months, quarters or years, on an axis of time; None of others.

    Rows without a date are left out of the chart.
    """
    spans = {label: span for (*_, label), span in zip(family.labels(universe), _spans(family, universe), strict=False)}
    drawn = [
        {"label": label, **row, "start": span[0], "end": span[1]}
        for (label, *_), row in zip(labels, rows, strict=True)
        if (span := spans.get(label))
    ]
    return (
        time_bars(drawn, title=family.title(universe), unit=universe.counted_by(family.attributes).many)
        if len(drawn) > 1
        else None
    )


def _spans(family: Family | Part, universe: Universe) -> tuple[tuple[str, ...], ...]:
    """Of each row of a table of one column of dates its first day and the one after its last, nothing of a row without
    a date; no rows where they are in no order of time."""
    if not isinstance(family, Marginal) or len(family.attributes) != 1:
        return ()
    attribute = universe[family.attributes[0]]
    if attribute.dates is None or not attribute.in_time:
        return ()
    return tuple(islice(chain(pairwise(map(_day, attribute.dates.days)), repeat(())), attribute.size))


def _day(number: int) -> str:
    """A day counted from 1970-01-01."""
    return str(date(1970, 1, 1) + timedelta(days=number))


def _chart(
    family: Family | Part,
    universe: Universe,
    labels: list[tuple[str, ...]],
    rows: Rows,
    heads: list[str],
    *,
    measured: str,
) -> dict[str, Any] | None:
    """
    Args:
        measured: what the numbers are, which no row is counted by; empty of counts.
    """
    if len(rows) < 2 or "answer" in rows[0]:
        return None
    unit = universe.counted_by(family.attributes).many
    if is_heat(family, universe):
        squares = [{"labels": label, **row} for label, row in zip(labels, rows, strict=True)]
        return heat_map(squares, heads=heads, unit=unit)
    if (in_time := time_chart(family, universe, labels, rows)) is not None:
        return in_time
    drawn = [{"label": ", ".join(label), **row} for label, row in zip(labels, rows, strict=True)]
    if isinstance(rows[0]["estimate"], date):
        return date_marks(drawn, title=family.title(universe), axis=measured)
    return marginal_bars(drawn, title=family.title(universe), unit=measured or unit, is_counts=not measured)


def _on_range(question: Question, family: Family | Part, rows: Rows, notes: Notes) -> dict[str, Any] | None:
    """Of a single number."""
    if len(rows) != 1 or not isinstance(question, Inquiry) or not isinstance(family, Part):
        return None
    return range_chart(question, family, [{"label": family.title(question.universe), **rows[0]}], notes)


def files_of(report: Report) -> dict[str, bytes]:
    """Both files of a report by their names.

    Raises:
        subprocess.SubprocessError: the program that draws failed, or took too long.
    """
    with TemporaryDirectory() as place:
        work = Path(place)
        (work / drawing.SAID).write_text(json.dumps(asdict(report)))
        (work / drawing.PRINTED).write_text((settings.BASE_DIR / "templates/results/report/report.typ").read_text())
        draw(work)
        drawn = [
            {"table": table, "pictures": [path.read_text() for path in paths if path.exists()]}
            for number, table in enumerate((*report.tables, *report.synthetic))
            for paths in [[work / drawing.picture_name(number, kind) for kind in drawing.KINDS]]
        ]
        printed = (work / drawing.PDF).read_bytes()
    answers, synthetic = drawn[: len(report.tables)], drawn[len(report.tables) :]
    sections = {"Answers": (answers, report.more), "Synthetic rows": (synthetic, "")}
    page = render_to_string("results/report/report.html", {"report": report, "sections": sections})
    return {HTML: page.encode(), drawing.PDF: printed}


def rewritten_name(name: str) -> str:
    """What the file of a report is called that was written again, once an attack was tried on its release."""
    return f"{_AGAIN}{name}"


def rewritten(folder: Path) -> dict[str, Path]:
    """By their names in downloads, the files of a report that was written again."""
    found = {name: folder / rewritten_name(name) for name in (HTML, drawing.PDF)}
    return {name: path for name, path in found.items() if path.is_file()}


def latest(folder: Path, name: str) -> Path:
    """The file of a release that is handed out by a name."""
    return rewritten(folder).get(name, folder / name)


def draw(work: Path) -> None:
    """Draw what a folder says, in a program of its own that knows none of the site's secrets."""
    command = [sys.executable, "-I", drawing.__file__, str(work)]
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT, env={})  # noqa: S603  our own program
