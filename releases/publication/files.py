"""The files of a release: answers, synthetic rows and the receipt, written to a folder of the attempt's own.

What is written depends on nothing but the plan and paid-for results: every cell of the declared domain is there.

A folder has its name only once all of it is on disc: files are written to NAME.partial, with the SHA-256 of each in
`complete.json`, and then the folder is renamed. So a complete folder holds the whole outcome of one run, and a later
attempt under the same charge publishes it rather than draw again (`made_before`).
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import uuid
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import cache
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

from releases.engine.domain.universe import Schema, Universe
from releases.engine.estimation.result import Result
from releases.engine.estimation.synthetic import Records
from releases.engine.run import Release as MadeRelease
from releases.engine.tables.number import NUMBER_GRAMMAR
from releases.engine.workload.queries import MarginalSource, Workload
from releases.engine.workload.questions import Question
from releases.models import Release
from releases.publication.readme import description_of
from releases.publication.receipt import receipt_of, rows_of_one, synthetic_beside
from releases.publication.spreadsheets import begins_a_formula
from releases.questions.base import kind_of
from releases.schema.descriptions import described
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
    metadata = description_of(receipt)
    _write_table(folder, ANSWERS, answers, metadata)
    if synthetic is not None:
        metadata |= {"sentence_is_about": "the answers of the same release, not these rows"}
        metadata |= {"rows_beside_answers": said} if (said := synthetic_beside(receipt)) else {}
        _write_table(folder, SYNTHETIC, synthetic, metadata)
    (folder / RECEIPT).write_text(json.dumps(receipt, indent=2, ensure_ascii=False) + "\n")
    sizes = {}
    for path in sorted(folder.iterdir()):
        path.chmod(FILE)
        sizes[path.name] = path.stat().st_size
        sync(path)
    _seal(folder, {"release": str(release.pk), "files": digests(folder, sizes)})
    folder.rename(complete)
    sync(complete.parent)
    sync(complete.parent.parent)
    # Beside the receipt: words for readers change nothing that is digested.
    said_of_it = described(release.dataset, made.plan.schema.universe.names)
    return {"receipt": receipt, "files": sizes, "described": said_of_it}


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
    except OSError:
        return None
    asked = Schema.from_json(receipt["schema"]).universe.names
    return {"receipt": receipt, "files": sizes, "described": described(release.dataset, asked)}


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
    lowest = 0.0 if kind_of(workload).counts_rows else -np.inf
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
    table: dict[str, Any] = {"query": pa.chunked_array(query)}
    for name in used:
        table[apart(name)] = pa.chunked_array(labels[name])
    if result.chosen:
        table["answer"] = pa.array(map(guarded, result.chosen), pa.string())
        if values := result.notes.get("values"):
            table["value"] = pa.array(values, pa.int64())
        return pa.table(table)
    for name, parts in numbers.items():
        table[name] = np.concatenate(parts)
    return pa.table(table)


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
        if attribute.is_numeric:
            columns[attribute.name] = pa.array(values, mask=records.nothing.get(attribute.name))
        else:
            names = pa.array([guarded(category) for category in attribute.categories], pa.string())
            columns[attribute.name] = pa.DictionaryArray.from_arrays(values.astype(np.int32), names).cast(pa.string())
    return pa.table(columns)


def folder_of(release: Release) -> Path:
    """Where a published release's files lie."""
    return Path(settings.RELEASES_DIR) / release.folder


def has_answers(release: Release) -> bool:
    return (folder_of(release) / f"{ANSWERS}.parquet").is_file()


def read_answers(folder: Path) -> pa.Table:
    return pa.parquet.read_table(folder / f"{ANSWERS}.parquet")


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
        }
    }


def synthetic_marginals(path: Path, universe: Universe) -> MarginalSource:
    """The counts of published synthetic rows over any attributes; each column is read once."""
    return _marginals(lambda name: pa.parquet.read_table(path, columns=[name]).column(name), universe)


def _marginals(column_of: Callable[[str], pa.ChunkedArray], universe: Universe) -> MarginalSource:
    @cache
    def bins(name: str) -> Any:
        attribute, column = universe[name], column_of(name)
        if attribute.is_numeric:
            edges = np.array([float(edge) for edge in attribute.edges])
            found = np.searchsorted(edges, column.to_numpy(), side="right") - 1
            # There may be a hundred million rows of many columns.
            within = np.clip(found, 0, attribute.ranges - 1).astype(np.int32)
            return np.where(column.is_null().to_numpy(), np.int32(attribute.ranges), within)
        # As the file writes them: text that a spreadsheet would run has a mark before it.
        written = pa.array([guarded(category) for category in attribute.categories], pa.string())
        return pa.compute.index_in(column, value_set=written).to_numpy()

    def marginal(names: tuple[str, ...]) -> np.ndarray:
        shape = tuple(universe[name].size for name in names)
        cells = np.ravel_multi_index([bins(name) for name in names], shape)
        return np.bincount(cells, minlength=prod(shape)).reshape(shape)

    return marginal


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
