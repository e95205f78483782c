"""What the result page shows of a published release: one question's answers, with synthetic counts beside them.

Everything here was paid for, or follows from it. Files may be large, so only the rows shown are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from releases.engine.domain.universe import Schema, Universe
from releases.engine.mechanisms.base import Consistency, mechanism
from releases.engine.workload.parsing import read_question
from releases.engine.workload.queries import Family, Marginal, Workload
from releases.engine.workload.questions import Inquiry, Question
from releases.engine.workload.statistic import Part
from releases.planning.comparison import questions_text
from releases.presentation import charts
from releases.publication import files
from releases.publication.archive import ARCHIVE, dictionary_of, download_names
from releases.publication.dictionary import DICTIONARY, columns_of
from releases.publication.readme import FILES, description_of
from releases.publication.receipt import (
    are_limited,
    fuller_bins,
    limit_in_words,
    rows_of_one,
    rows_text,
    rules_in_words,
    synthetic_beside,
)
from releases.questions.base import kind_of
from releases.schema.descriptions import Notes, notes_of, table_of, with_unit
from releases.views.results.rows import Answer
from releases.views.results.statistics import shown_statistic
from releases.views.results.table_filter import MAX_ARRANGED, Arrangement

#: Answers on one page, in the chart and in the table.
PAGE_LENGTH = 60
#: Bars of a chart that stands beside others.
MAX_IN_A_SMALL_CHART = 12
#: Questions offered in the list; of more, those whose title holds the searched text.
MAX_LISTED = 300
#: A dictionary of more bins is not written to say its size.
_MAX_MEASURED_BINS = 10_000
#: Room for the text in an archive and for what an archive adds.
_OTHERS_IN_ARCHIVE = 10_000
#: Titles of questions on a receipt's page; the rest is in its file.
_MAX_TITLES = 24
#: More synthetic rows, or a table of more cells, are not counted again for a page.
_MAX_COUNTED_ROWS = 2_000_000
_MAX_COUNTED_CELLS = 2_000_000
#: More bins of a column than this cannot be told apart in a heat map.
_MAX_HEAT_BINS = 50

#: What the tables of one release add up to, by how their counts hang together.
_TOTALS: dict[Consistency | None, str] = {
    Consistency.OWN_NOISE: "Each count has its own noise, so tables of one release add up to different totals. A count "
    "that came out below 0 is shown as 0.",
    Consistency.NOISY_CELLS: "All counts are sums of the same noisy cells, so tables of one release add up to the same "
    "total, except where a count that came out below 0 is shown as 0.",
    Consistency.ONE_TABLE: "All counts are read off one estimated table, so tables of one release add up to the same "
    "total, but for rounding.",
    Consistency.PAID_NOISE: "A free answer was read off what was public at the time, and only a paid one has noise of "
    "its own, so tables of one release add up to different totals. A count that came out below 0 is shown as 0.",
}


def result_context(
    result: dict[str, Any], folder: Path, *, question: str, page: str, find: str, sort: str = "", only: str = ""
) -> dict[str, Any]:
    """The chosen question's answers, a page of them as arranged, and what can be chosen and downloaded."""
    receipt, notes = result["receipt"], notes_of(result)
    universe = Schema.from_json(receipt["schema"]).universe
    workload = read_question(receipt["workload"], universe)
    families = workload.families
    titles = [family.title(universe) for family in families]
    matching = [number for number, title in enumerate(titles) if find.casefold() in title.casefold()]
    chosen = int(question) if question.isascii() and question.isdecimal() and len(question) < 10 else -1
    if not 0 <= chosen < len(families):
        chosen = matching[0] if matching else 0
    family = families[chosen]
    # Of a list whose length is an answer, none may have been found.
    cells = min(family.cells(universe), receipt["answers"])
    arrangement = Arrangement.read(str(chosen), sort, only, labels=len(family.attributes))
    first = sum(each.cells(universe) for each in families[:chosen])
    read = partial(_answers, folder, family, universe, first=first, receipt=receipt)
    is_heat = _is_heat(family, universe)
    every = list(read(start=0, stop=cells)) if is_heat or (arrangement and cells <= MAX_ARRANGED) else None
    wanted = arrangement.apply(every) if every is not None and arrangement else every
    found = cells if wanted is None else len(wanted)
    pages = max(-(-found // PAGE_LENGTH), 1)
    shown_page = min(max(int(page), 1), pages) if page.isascii() and page.isdecimal() and len(page) < 10 else 1
    start = (shown_page - 1) * PAGE_LENGTH
    stop = min(start + PAGE_LENGTH, found)
    rows = wanted[start:stop] if wanted is not None else list(read(start=start, stop=stop))
    # Of a filter that nothing passes, what the whole table is like.
    kind = next(iter(rows or every or []), None)
    is_choice = kind is not None and kind.estimate is None
    listed = matching[:MAX_LISTED]
    sizes = _sizes(folder, result, universe)
    ends = fuller_bins(universe.attributes)
    return {
        "receipt": receipt,
        "beside": synthetic_beside(receipt),
        "limit": limit_in_words(receipt),
        "are_scaled": are_limited(receipt) or receipt["mechanism"]["options"].get("rows"),
        "rules": [each for each in receipt.get("rules_in_words", rules_in_words(universe)) if each not in ends],
        "fuller_bins": fuller_bins(universe[name] for name in _binned(family, workload)),
        "universe_cells": universe.size,
        "questions": [{"number": str(number), "title": titles[number]} for number in listed],
        "dictionary": columns_of(receipt, notes),
        "about": table_of(result),
        "questions_more": len(matching) - len(listed),
        "questions_number": len(families),
        "find": find,
        "chosen": str(chosen),
        "chosen_title": titles[chosen],
        **_importance(workload, family, receipt, chosen),
        "heads": family.attributes,
        "rows": rows,
        "has_synthetic": kind is not None and kind.synthetic is not None,
        "is_choice": is_choice,
        "can_be_arranged": 1 < cells <= MAX_ARRANGED and not is_choice,
        "arrangement": arrangement,
        "arranged_by": arrangement.heads(family.attributes),
        "found": found,
        "heat": _heat(every, family.attributes, notes) if is_heat and every is not None else None,
        "is_counts": workload.is_counts,
        "totals": _TOTALS.get(mechanism(receipt["mechanism"]["name"]).consistency, ""),
        "shown": shown_statistic(workload, folder, notes) if isinstance(workload, Inquiry) else None,
        "cells": cells,
        "first_shown": start + 1,
        "last_shown": start + len(rows),
        "previous_page": str(shown_page - 1) if shown_page > 1 else "",
        "next_page": str(shown_page + 1) if shown_page < pages else "",
        "chart": charts.marginal_bars(
            [row.to_json() for row in rows], title=titles[chosen], axis=_axis(family.attributes, notes)
        )
        if _is_drawn(rows)
        else None,
        "downloads": [
            {"name": name, "what": FILES[name.split(".")[0]], "size": sizes.get(name, "")}
            for name in download_names(result)
        ],
    }


def first_table(result: dict[str, Any], folder: Path) -> tuple[str, list[Answer]]:
    """The title and the counts of the first short table of a published release, of one column where it has one; none
    where it has no such table or its file is away."""
    receipt = result["receipt"]
    universe = Schema.from_json(receipt["schema"]).universe
    workload = read_question(receipt["workload"], universe)
    short = [
        (len(each.attributes), position)
        for position, each in enumerate(workload.families)
        if isinstance(each, Marginal) and 2 <= each.cells(universe) <= MAX_IN_A_SMALL_CHART
    ]
    if not short:
        return "", []
    position = min(short)[1]
    family = workload.families[position]
    first = sum(each.cells(universe) for each in workload.families[:position])
    try:
        stored = stored_rows(folder / f"{files.ANSWERS}.parquet", first, first + family.cells(universe))
    except OSError:
        return "", []
    rows = [
        Answer(labels=labels, estimate=estimate, lower=lower, upper=upper)
        for labels, estimate, lower, upper in zip(
            family.labels(universe), stored["estimate"], stored["lower"], stored["upper"], strict=True
        )
    ]
    return family.title(universe), rows


def _sizes(folder: Path, result: dict[str, Any], universe: Universe) -> dict[str, str]:
    """Of each download. The archive shrinks what it holds, so it is below all of it together."""
    sizes = dict(result["files"])
    if sum(each.size for each in universe.attributes) <= _MAX_MEASURED_BINS:
        sizes[DICTIONARY] = len(dictionary_of(folder, result).encode())
    shown = {name: files.readable_size(size) for name, size in sizes.items()}
    return shown | {ARCHIVE: f"below {files.readable_size(sum(sizes.values()) + _OTHERS_IN_ARCHIVE)}"}


def _binned(family: Family | Part, workload: Question) -> tuple[str, ...]:
    """The columns whose bins the answers are about; sums, means and quantiles are about values."""
    if not kind_of(workload).is_about_bins:
        return ()
    return family.attributes if workload.is_counts else workload.columns


def _importance(workload: Question, family: Family | Part, receipt: dict[str, Any], position: int) -> dict[str, str]:
    """How much the question matters and how close its counts are, where that differs from question to question."""
    if isinstance(family, Part) or not isinstance(workload, Workload) or not workload.is_weighted:
        return {}
    if not mechanism(receipt["mechanism"]["name"]).uses_weights:
        return {}
    return {"importance": f"{family.weight:,}", "within": rows_text(receipt["bound"]["half_widths"][position])}


def asked_of(receipt: dict[str, Any]) -> dict[str, Any]:
    """The questions of a receipt: how many of what kind, and the first of their titles."""
    universe = Schema.from_json(receipt["schema"]).universe
    question = read_question(receipt["workload"], universe)
    titles = [each.title(universe) for each in question.families[:_MAX_TITLES]]
    return {
        "summary": questions_text(question) if question.is_counts else "",
        "titles": titles,
        "more": len(question.families) - len(titles),
    }


def answers_as_json(folder: Path, receipt: dict[str, Any]) -> Iterator[str]:
    """All answers with what is needed to judge them, written a piece at a time."""
    import pyarrow.parquet

    yield "{\n"
    for name, said in description_of(receipt).items():
        yield f"{json.dumps(name)}: {json.dumps(said, ensure_ascii=False)},\n"
    yield '"answers": ['
    separator = "\n"
    with pyarrow.parquet.ParquetFile(folder / f"{files.ANSWERS}.parquet") as stored:
        for batch in stored.iter_batches(batch_size=10_000):
            yield separator + ",\n".join(json.dumps(row, ensure_ascii=False) for row in batch.to_pylist())
            separator = ",\n"
    yield "\n]}\n"


def _is_heat(family: Family | Part, universe: Universe) -> bool:
    """Whether it is a table of two columns, neither too long to be seen at once."""
    if not isinstance(family, Marginal) or len(family.attributes) != 2:
        return False
    return all(2 <= universe[name].size <= _MAX_HEAT_BINS for name in family.attributes)


def _heat(rows: list[Answer], heads: Sequence[str], notes: Notes) -> dict[str, Any]:
    drawn = [{"labels": row.labels, **row.to_json()} for row in rows]
    return charts.heat_map(drawn, heads=[with_unit(name, notes) for name in heads])


def _axis(names: Sequence[str], notes: Notes) -> str:
    """The columns with their units, where one has any; the question's title stands above the chart anyway."""
    titled = [with_unit(name, notes) for name in names]
    return "" if titled == list(names) else ", ".join(titled)


def _is_drawn(rows: list[Answer]) -> bool:
    """A single number needs no chart, and a choice has no axis."""
    return len(rows) > 1 and rows[0].estimate is not None


def _answers(
    folder: Path,
    family: Family | Part,
    universe: Universe,
    *,
    first: int,
    start: int,
    stop: int,
    receipt: dict[str, Any],
) -> Iterator[Answer]:
    """The answers number `start` to `stop` of a family whose first answer is number `first` of the release."""
    stored = stored_rows(folder / f"{files.ANSWERS}.parquet", first + start, first + stop)
    synthetic = None if isinstance(family, Part) else _synthetic_counts(folder, family, universe, receipt)
    for position, labels in enumerate(islice(family.labels(universe), start, stop)):
        row = {name: values[position] for name, values in stored.items()}
        if "answer" in row:
            yield Answer(labels=labels, chosen=row["answer"])
        else:
            beside = None if synthetic is None else float(synthetic[start + position])
            yield Answer(labels=labels, synthetic=beside, **row)


def stored_rows(path: Path, start: int, stop: int) -> dict[str, list[Any]]:
    """The answers in some rows, by column, reading no more of the file than the pieces they lie in."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as stored:
        names = stored.schema_arrow.names
        columns = ["estimate", "lower", "upper"] if "estimate" in names else ["answer"]
        lengths = [stored.metadata.row_group(group).num_rows for group in range(stored.num_row_groups)]
        ends = list(accumulate(lengths))
        wanted = [
            group
            for group, (end, length) in enumerate(zip(ends, lengths, strict=True))
            if end > start and end - length < stop
        ]
        if not wanted:
            return {name: [] for name in columns}
        table = stored.read_row_groups(wanted, columns=columns)
    skipped = ends[wanted[0]] - lengths[wanted[0]]
    part = table.slice(start - skipped, stop - start)
    return {name: part.column(name).to_pylist() for name in columns}


def _synthetic_counts(
    folder: Path, family: Family, universe: Universe, receipt: dict[str, Any]
) -> NDArray[np.float64] | None:
    """The same question asked of the synthetic rows, scaled to the whole table; None where there are none."""
    import pyarrow.parquet

    rows = receipt["synthetic_rows"]
    shape = tuple(universe[name].size for name in family.attributes)
    path = folder / f"{files.SYNTHETIC}.parquet"
    if not 0 < rows <= _MAX_COUNTED_ROWS or prod(shape) > _MAX_COUNTED_CELLS or not path.exists():
        return None
    if not set(family.attributes) <= set(pyarrow.parquet.read_schema(path).names):
        return None
    counts = files.synthetic_marginals(path, universe)(family.attributes)
    return np.asarray(family.answer(counts) * rows_of_one(receipt), dtype=np.float64)
