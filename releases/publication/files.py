"""The files of a release: answers, synthetic rows and the receipt, written to a folder of the attempt's own.

What is written depends on nothing but the plan and paid-for results: every cell of the declared domain is there.

A folder has its name only once all of it is on disc: files are written to NAME.partial, with the SHA-256 of each in
`complete.json`, and then the folder is renamed. So a complete folder holds the whole outcome of one run, and a later
attempt under the same charge publishes it rather than draw again (`made_before`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
import shutil
import uuid
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from itertools import accumulate
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from django.conf import settings
from django.utils import timezone

from releases.engine.bounds.distance import distance
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.dates import By, Dates
from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.estimation.result import Result
from releases.engine.estimation.synthetic import Records
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.engine.run import ReleaseOutput as MadeRelease
from releases.engine.tables.number import NUMBER_GRAMMAR
from releases.engine.workload.parsing import read_answered
from releases.engine.workload.queries import Marginal, MarginalSource, Workload
from releases.engine.workload.questions import Question, dates_of
from releases.models import Release
from releases.publication import report
from releases.publication.associations import ASSOCIATIONS, associations_csv, associations_of
from releases.publication.headline import Rows, headline
from releases.publication.notebook import NOTEBOOK, notebook_of
from releases.publication.readme import description_of
from releases.publication.receipt import receipt_of, rows_of_one, stands_for, synthetic_beside
from releases.publication.region_maps import BOUNDARIES, boundaries_of
from releases.publication.replicates import REPLICATES, replicates_of
from releases.publication.spreadsheets import begins_a_formula
from releases.publication.totals import TOTALS, totals_table
from releases.publication.trust_map import TRUST_MAP, quality_of, trust_csv, trust_of
from releases.publication.workbook import WORKBOOK, workbook_of
from releases.questions.base import kind_of
from releases.schema.descriptions import described, notes_of
from releases.storage.private_files import FILE, FOLDER, private_folder, sync

ANSWERS, SYNTHETIC, RECEIPT = "answers", "synthetic", "receipt.json"
#: Says that a folder is complete, and what is in it. Not one of the files that are published.
COMPLETE = "complete.json"
_PARTIAL = ".partial"
#: Values counted to set synthetic rows beside the answers: some seconds.
_MAX_COUNTED = 200_000_000
#: Decimals of an estimate; intervals are rounded outwards.
_DECIMALS = 2
_OWN_COLUMNS = ("query", "estimate", "lower", "upper")
_logger = logging.getLogger(__name__)


def write(folder: Path, *, release: Release, made: MadeRelease) -> dict[str, Any]:
    """Write all files of a release, safely on disc when this returns, and describe them for the release's row."""
    private_folder(folder.parent)
    complete, folder = folder, folder.with_name(folder.name + _PARTIAL)
    folder.mkdir(mode=FOLDER)
    receipt = receipt_of(release, made, at=timezone.now())
    answers = answers_table(made.plan.workload, made.result)
    synthetic = None if made.records is None else synthetic_table(made.plan.schema.universe, made.records)
    if synthetic is not None:
        receipt |= _beside(receipt, made.plan.workload, answers, synthetic)
        if (trust := _trust(receipt, made, answers, synthetic)) is not None:
            (folder / TRUST_MAP).write_text(trust[0])
            receipt |= {"synthetic_quality": trust[1]}
        if (replicates := _replicates(made, synthetic)) is not None:
            receipt |= {"replicates": replicates[0]}
            if replicates[1]:
                (folder / REPLICATES).write_text(replicates[1])
    metadata = description_of(receipt)
    _write_table(folder, ANSWERS, answers, metadata)
    if (totals := _totals(made.plan.workload, answers, receipt)) is not None:
        _write_table(folder, TOTALS, totals, metadata)
    if paired := associations_of(receipt):
        (folder / ASSOCIATIONS).write_text(associations_csv(paired, guarded))
    if boundaries := boundaries_of(release.dataset, made.plan.workload):
        (folder / BOUNDARIES).write_text(boundaries)
    if synthetic is not None:
        metadata |= {"sentence_is_about": "the answers of the same release, not these rows"}
        metadata |= {"rows_beside_answers": said} if (said := synthetic_beside(receipt)) else {}
        _write_table(folder, SYNTHETIC, synthetic, metadata)
    (folder / RECEIPT).write_text(json.dumps(receipt, indent=2, ensure_ascii=False) + "\n")
    result = _outcome(folder, receipt, {}, release)
    for name, content in _to_read(folder, result, answers, totals, has_synthetic_rows=synthetic is not None).items():
        (folder / name).write_bytes(content)
    sizes: dict[str, int] = {}
    for path in sorted(folder.iterdir()):
        path.chmod(FILE)
        sizes[path.name] = path.stat().st_size
        sync(path)
    _seal(folder, {"release": str(release.pk), "files": digests(folder, sizes)})
    folder.rename(complete)
    sync(complete.parent)
    sync(complete.parent.parent)
    return result | {"files": sizes}


def _to_read(
    folder: Path, result: Mapping[str, Any], answers: pa.Table, totals: pa.Table | None, *, has_synthetic_rows: bool
) -> dict[str, bytes]:
    """The notebook, the workbook and the report by their names. A release is published without what cannot be made
    rather than lost with it; the report comes last, since charts are drawn for it alone."""
    made = dict[str, bytes]()
    try:
        said = _report(folder, result)
        beside = {"has_totals": totals is not None, "has_synthetic_rows": has_synthetic_rows}
        made[NOTEBOOK] = notebook_of(said, **beside, replicates=result["receipt"].get("replicates")).encode()
        if (workbook := workbook_of(answers, said, totals=totals)) is not None:
            made[WORKBOOK] = workbook
        made |= report.files_of(said)
    except Exception:
        _logger.exception("not all files to read were made; the release is published without the others")
    return made


def _report(folder: Path, result: Mapping[str, Any]) -> report.Report:
    return report.report_of(result, reader(folder), folder=folder, digest=sha256_of(folder / RECEIPT))


def report_files(folder: Path, result: Mapping[str, Any]) -> dict[str, bytes]:
    """The report of a published release by what is in its folder now."""
    return report.files_of(_report(folder, result))


def _seal(folder: Path, said: Mapping[str, Any]) -> None:
    path = folder / COMPLETE
    path.write_text(json.dumps(said) + "\n")
    path.chmod(FILE)
    sync(path)
    sync(folder)


def made_before(release: Release) -> tuple[str, dict[str, Any]] | None:
    """The folder below the releases, and what `write` returned, of the first complete run of a release; None where no
    attempt came so far. A folder that is no longer what its attempt had written is none."""
    found = []
    for seal in (Path(settings.RELEASES_DIR) / str(release.pk)).glob(f"*/{COMPLETE}"):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            said = json.loads(seal.read_text())
            if not seal.parent.name.endswith(_PARTIAL) and said["release"] == str(release.pk):
                found.append((seal.stat().st_mtime_ns, seal.parent, dict(said["files"])))
    for _, folder, written in sorted(found, key=lambda each: each[:2]):
        outcome = read_again(folder, release=release, digests=written)
        if outcome is not None:
            return f"{release.pk}/{folder.name}", outcome
    return None


def is_complete(folder: Path) -> bool:
    """Whether an attempt has written everything to its folder."""
    return (folder / COMPLETE).is_file()


def remove(folder: Path) -> None:
    """Take away what an attempt has written so far, whole or in part."""
    for each in (folder, folder.with_name(folder.name + _PARTIAL)):
        shutil.rmtree(each, ignore_errors=True)


def remove_others(release_id: uuid.UUID, *, kept: Container[str]) -> None:
    """Take away the folders of a published release's other attempts: nobody has seen them, and nobody ever will.

    Args:
        kept: folders below the releases.
    """
    for folder in (Path(settings.RELEASES_DIR) / str(release_id)).iterdir():
        if f"{release_id}/{folder.name}" not in kept:
            shutil.rmtree(folder, ignore_errors=True)


def digests(folder: Path, names: Iterable[str]) -> dict[str, str]:
    """The SHA-256 of each file."""
    return {name: sha256_of(folder / name) for name in sorted(names)}


def read_again(folder: Path, *, release: Release, digests: Mapping[str, str]) -> dict[str, Any] | None:
    """What `write` returned, from files that it wrote; None where one is gone or has another SHA-256."""
    try:
        if RECEIPT not in digests or any(sha256_of(folder / name) != digest for name, digest in digests.items()):
            return None
        receipt = json.loads((folder / RECEIPT).read_text())
        sizes = {name: (folder / name).stat().st_size for name in sorted(digests)}
        return _outcome(folder, receipt, sizes, release)
    except OSError:
        return None


def _outcome(folder: Path, receipt: dict[str, Any], sizes: dict[str, int], release: Release) -> dict[str, Any]:
    """What the release's row keeps. Beside the receipt: words for readers change nothing that is digested."""
    universe = Schema.from_json(receipt["schema"]).universe
    result = {"receipt": receipt, "files": sizes, "described": described(release.dataset, universe.names)}
    question = read_answered(receipt["workload"], universe)
    return {**result, "headline": headline(question, reader(folder), receipt, notes_of(result))}


def reader(folder: Path) -> Callable[[int, int], Rows]:
    """What reads the answers from one place to before another."""

    def read(start: int, stop: int) -> Rows:
        stored = stored_rows(folder / f"{ANSWERS}.parquet", start, stop)
        return [dict(zip(stored, values, strict=True)) for values in zip(*stored.values(), strict=True)]

    return read


def answers_table(workload: Question, result: Result) -> pa.Table:
    """One row an answer: the query, its columns with their labels, estimate, lower, upper.

    A choice has the column `answer` in place of the numbers, and `value` beside it where counts were paid for too.
    """
    universe = workload.universe
    if workload.is_open:
        return _open_list(workload, result)
    asked = {name for family in workload.families for name in family.attributes}
    used = [name for name in universe.names if name in asked] if workload.is_counts else sorted(asked)
    query: list[pa.Array] = []
    labels: dict[str, list[pa.Array]] = {name: [] for name in used}
    numbers: dict[str, list[np.ndarray]] = {"estimate": [], "lower": [], "upper": []}
    kind = kind_of(workload)
    lowest = 0.0 if kind.counts_rows or kind.has_shares else -np.inf
    intervals = zip(workload.families, result.bound.half_widths, result.intervals(lowest=lowest), strict=True)
    for family, half_width, (estimate, lower, upper) in intervals:
        cells = family.cells(universe)
        query.append(pa.repeat(pa.scalar(guarded(family.title(universe))), cells))
        columns = zip(*family.labels(universe), strict=True)
        filled = {name: list(map(guarded, column)) for name, column in zip(family.attributes, columns, strict=True)}
        for name in used:
            labels[name].append(pa.array(filled[name], pa.string()) if name in filled else pa.nulls(cells, pa.string()))
        places = _DECIMALS if workload.is_counts else _places(half_width)
        scale = 10**places
        # Ends that stand by themselves are values of a column, with no more digits than it has.
        numbers["estimate"].append(estimate if result.spans else np.round(estimate, places))
        numbers["lower"].append(lower if result.spans else np.floor(lower * scale) / scale)
        numbers["upper"].append(upper if result.spans else np.ceil(upper * scale) / scale)
    dates = dates_of(workload)
    table: dict[str, Any] = {"query": pa.chunked_array(query)}
    for name in used:
        table[apart(name)] = pa.chunked_array(labels[name])
    if result.chosen:
        table["answer"] = pa.array(map(guarded, result.chosen), pa.string())
        if values := result.notes.get("values"):
            table["value"] = pa.array(values, pa.int64())
        return pa.table(table)
    for name, parts in numbers.items():
        found = np.concatenate(parts)
        table[name] = found if dates is None else _as_dates(dates, found)
    return pa.table(table)


def _as_dates(dates: Dates, numbers: np.ndarray) -> pa.Array:
    """Days or seconds from 1970, which are whole, as dates. No quantile is outside of the declared range."""
    whole = np.clip(np.rint(numbers), dates.lowest, dates.above - 1).astype(np.int64)
    if dates.has_time:
        return pa.array(whole).cast(pa.timestamp("s"))
    return pa.array(whole.astype(np.int32)).cast(pa.date32())


def _open_list(inquiry: Question, result: Result) -> pa.Table:
    """One row for each thing that was chosen, however many there are."""
    (part,) = inquiry.families
    ((label,),) = part.labels(inquiry.universe)
    table = {"query": part.title(inquiry.universe), "of": label}
    columns: dict[str, Any] = {
        name: pa.repeat(pa.scalar(guarded(text)), len(result.chosen)) for name, text in table.items()
    }
    columns["answer"] = pa.array(map(guarded, result.chosen), pa.string())
    return pa.table(columns)


def _places(half_width: float) -> int:
    """Decimals that show two digits of a half width."""
    if not 0 < half_width < 1:
        return _DECIMALS
    return max(_DECIMALS, min(1 - math.floor(math.log10(half_width)), 12))


def synthetic_table(universe: Universe, records: Records) -> pa.Table:
    """Synthetic rows with the values a person would expect: a category, a number within its bin."""
    columns: dict[str, Any] = {}
    for attribute in universe.attributes:
        if attribute.name not in records.columns:
            continue
        values = records.columns[attribute.name]
        if attribute.dates is not None:
            columns[attribute.name] = _dates_as_text(attribute.dates, values, records.nothing.get(attribute.name))
        elif attribute.is_numeric:
            columns[attribute.name] = pa.array(values, mask=records.nothing.get(attribute.name))
        else:
            names = pa.array([guarded(category) for category in attribute.categories], pa.string())
            columns[attribute.name] = pa.DictionaryArray.from_arrays(values.astype(np.int32), names).cast(pa.string())
    return pa.table(columns)


def _dates_as_text(dates: Dates, values: Any, nothing: Any) -> pa.Array:
    """As the table writes them; nothing where there is no date."""
    days, seconds = np.divmod(np.asarray(values, dtype=np.int64), dates.unit)
    found, place = np.unique(days, return_inverse=True)
    text = pa.array([dates.write(day) for day in found.tolist()], pa.string()).take(pa.array(place))
    if dates.has_time:
        found, place = np.unique(seconds, return_inverse=True)
        times = [f"{each // 3600:02d}:{each // 60 % 60:02d}:{each % 60:02d}" for each in found.tolist()]
        text = pa.compute.binary_join_element_wise(text, pa.array(times, pa.string()).take(pa.array(place)), " ")
    return text if nothing is None else pa.compute.if_else(pa.array(nothing), None, text)


def _bins_of_dates(dates: Dates, column: pa.ChunkedArray) -> Any:
    """The bins of dates as `_dates_as_text` writes them; behind them of what is none."""
    length = len(dates.written)
    encoded = pa.compute.utf8_slice_codeunits(column, 0, length).combine_chunks().dictionary_encode()
    starts = np.array(dates.days) if dates.is_ordered else None
    days = np.array([dates.read(text) for text in encoded.dictionary.to_pylist()] + [0], dtype=np.int64)
    if dates.by is By.HOUR:
        hours = pa.compute.utf8_slice_codeunits(column, length + 1, length + 3).cast(pa.int64())
        found = hours.fill_null(0).to_numpy()
    else:
        bins = (days + 3) % 7 if starts is None else np.searchsorted(starts, days, side="right") - 1
        found = bins[encoded.indices.fill_null(len(days) - 1).to_numpy()]
    return np.where(column.is_null().to_numpy(), np.int32(dates.size), found.astype(np.int32))


def folder_of(release: Release) -> Path:
    """Where a published release's files lie."""
    return Path(settings.RELEASES_DIR) / release.folder


def has_answers(release: Release) -> bool:
    return (folder_of(release) / f"{ANSWERS}.parquet").is_file()


def read_answers(folder: Path) -> pa.Table:
    return pa.parquet.read_table(folder / f"{ANSWERS}.parquet")


def answer_columns(folder: Path) -> list[str]:
    """The columns of the answers, none of which is read."""
    names: list[str] = pa.parquet.read_schema(folder / f"{ANSWERS}.parquet").names
    return names


def stored_rows(path: Path, start: int, stop: int) -> dict[str, list[Any]]:
    """The answers in some rows, by column, without labels, reading no more of the file than the pieces they lie in."""
    with pa.parquet.ParquetFile(path) as stored:
        names = stored.schema_arrow.names
        columns = ["estimate", "lower", "upper"] if "estimate" in names else ["answer"]
        lengths = [stored.metadata.row_group(group).num_rows for group in range(stored.num_row_groups)]
        ends = list(accumulate(lengths))
        wanted = [
            group
            for group, (end, length) in enumerate(zip(ends, lengths, strict=True))
            if end > start and end - length < stop
        ]
        table = stored.read_row_groups(wanted, columns=columns)
    skipped = ends[wanted[0]] - lengths[wanted[0]] if wanted else start
    found: dict[str, list[Any]] = table.slice(start - skipped, stop - start).to_pydict()
    return found


def _beside(receipt: Mapping[str, Any], workload: Question, answers: pa.Table, synthetic: pa.Table) -> dict[str, Any]:
    """How many of a release's counts the synthetic rows have outside of the interval, and by how much they miss the
    released count at most. Made from what is released alone. Nothing where that would take too long."""
    if not isinstance(workload, Workload) or synthetic.num_rows * len(workload.marginals) > _MAX_COUNTED:
        return {}
    if any(not set(names) <= set(synthetic.column_names) for names in workload.marginals):
        return {}
    counted = workload.answer(_marginals(synthetic.column, workload.universe))
    rows = np.rint(np.concatenate(counted) * rows_of_one(receipt))
    estimate, lower, upper = (answers.column(name).to_numpy() for name in ("estimate", "lower", "upper"))
    return {
        "synthetic_beside": {
            "outside": int(((rows < lower) | (rows > upper)).sum()),
            "largest_difference": float(np.abs(rows - estimate).max()),
            **_mean_distance(receipt, workload, counted, estimate),
        }
    }


def _mean_distance(
    receipt: Mapping[str, Any], workload: Workload, counted: Sequence[np.ndarray], estimate: np.ndarray
) -> dict[str, float]:
    """How far the synthetic rows are from the released counts on average over the tables asked about, as certificates
    measure it (`bounds.distance`), rounded down; nothing where no table was asked about."""
    scale = stands_for(receipt) / receipt["synthetic_rows"]
    pairs = zip(workload.families, counted, workload.split(estimate), strict=True)
    apart = [distance(made * scale, released) for family, made, released in pairs if isinstance(family, Marginal)]
    return {"mean_distance": math.floor(100 * sum(apart) / len(apart)) / 100} if apart else {}


def _totals(workload: Question, answers: pa.Table, receipt: Mapping[str, Any]) -> pa.Table | None:
    """What all groups of each question are together. A release is published without it rather than lost with it."""
    try:
        return totals_table(workload, answers, receipt, guarded)
    except Exception:
        _logger.exception("no totals were made; the release is published without them")
        return None


def _trust(
    receipt: dict[str, Any], made: MadeRelease, answers: pa.Table, synthetic: pa.Table
) -> tuple[str, dict[str, Any]] | None:
    """How far the synthetic rows can be trusted, as a file and as a summary. A release is published without it rather
    than lost with it."""
    try:
        counts = _marginals(synthetic.column, made.plan.counts_asked.universe)
        is_counted = synthetic.num_rows * synthetic.num_columns <= _MAX_COUNTED
        trust = trust_of(made, answers, counts, rows_of_one=rows_of_one(receipt), is_counted=is_counted)
        return None if trust is None else (trust_csv(trust, guarded), quality_of(trust))
    except Exception:
        _logger.exception("no trust map was made; the release is published without it")
        return None


def _replicates(made: MadeRelease, synthetic: pa.Table) -> tuple[dict[str, Any], str] | None:
    """Replicates of the synthetic rows, as `replicates_of` has them. A release is published without them rather than
    lost with them."""
    try:
        counts = _marginals(synthetic.column, made.plan.schema.universe)
        return replicates_of(made, counts, guarded, OperatingSystemRandomness())
    except Exception:
        _logger.exception("no replicates were made; the release is published without them")
        return None


def synthetic_marginals(path: Path, universe: Universe) -> MarginalSource:
    """The counts of published synthetic rows over any attributes; each column is read once."""
    return _marginals(lambda name: pa.parquet.read_table(path, columns=[name]).column(name), universe)


def synthetic_bins(path: Path, universe: Universe, names: Iterable[str]) -> dict[str, np.ndarray]:
    """Of some columns of published synthetic rows the numbers of the bins, in as few bytes as hold them."""
    found = {}
    for name in names:
        bins = _bins_of(universe[name], pa.parquet.read_table(path, columns=[name]).column(name))
        if bins.dtype.kind != "i":
            raise ValueError(f"a value of {name} lies in no declared bin")
        found[name] = bins.astype(np.result_type(np.min_scalar_type(-1), np.min_scalar_type(universe[name].size)))
    return found


def _marginals(column_of: Callable[[str], pa.ChunkedArray], universe: Universe) -> MarginalSource:
    @cache
    def bins(name: str) -> np.ndarray:
        found = _bins_of(universe[name], column_of(name))
        # Once a column, and not once a table: there can be thousands of tables.
        if len(found) and not 0 <= found.min() <= found.max() < universe[name].size:
            raise ValueError(f"a value of {name} lies in no declared bin")
        return found

    def marginal(names: tuple[str, ...]) -> np.ndarray:
        shape = tuple(universe[name].size for name in names)
        cells = bins(names[0]).astype(np.int64)
        for name, size in zip(names[1:], shape[1:], strict=True):
            cells *= size
            cells += bins(name)
        return np.bincount(cells, minlength=prod(shape)).reshape(shape)

    return marginal


def _bins_of(attribute: Attribute, column: pa.ChunkedArray) -> np.ndarray:
    if attribute.dates is not None:
        return np.asarray(_bins_of_dates(attribute.dates, column))
    if attribute.is_numeric:
        edges = np.array([float(edge) for edge in attribute.edges])
        found = np.searchsorted(edges, column.to_numpy(), side="right") - 1
        # There may be a hundred million rows of many columns.
        within = np.clip(found, 0, attribute.ranges - 1).astype(np.int32)
        return np.where(column.is_null().to_numpy(), np.int32(attribute.ranges), within)
    # As the file writes them: text that a spreadsheet would run has a mark before it.
    written = pa.array([guarded(category) for category in attribute.categories], pa.string())
    return np.asarray(pa.compute.index_in(column, value_set=written).to_numpy())


def sha256_of(path: Path) -> str:
    """Of a file's content as it is now."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_table(folder: Path, name: str, table: pa.Table, described: Mapping[str, str]) -> None:
    """As CSV, which has no room for anything but the table, and as Parquet, which says what it is of."""
    pa.csv.write_csv(table, folder / f"{name}.csv", pa.csv.WriteOptions(quoting_style="needed"))
    table = table.replace_schema_metadata({f"dpweb.{key}": value for key, value in described.items()})
    pa.parquet.write_table(table, folder / f"{name}.parquet", compression="zstd")


def guarded(text: str) -> str:
    """Text that no spreadsheet takes for a formula. Numbers keep their sign."""
    is_number = text[:1] in ("+", "-") and re.match(NUMBER_GRAMMAR, text.split(" to ")[0])
    is_hidden = not text[:1].isprintable() or not text.lstrip()[:1].isprintable()
    return f"'{text}" if is_hidden or (begins_a_formula(text) and not is_number) else text


def apart(name: str) -> str:
    """A column's name in the answers, told apart from the columns of our own."""
    return f"{name}_column" if name in _OWN_COLUMNS else name


def readable_size(size: int) -> str:
    """A file's size as people say it."""
    if size < 1000:
        return f"{size} bytes"
    power = min(int(math.log(size, 1000)), 3)
    return f"{size / 1000**power:.3g} {('', 'kB', 'MB', 'GB')[power]}"
