"""Workbooks, files of statistical programs and Arrow files, written again as Parquet for the one way that tables go.

Values of such files have types of their own. Their text is that of other formats: a double that is whole has no point,
another has the decimal sign that is declared of numbers that are text, and a date is as in ISO 8601. A codebook is
proposed of the file's own metadata; nothing of it is found in rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

from releases.engine.tables.facts import FileFacts, UnreadableTable
from releases.engine.tables.files.header import checked_names, has_values, named_columns, numbered_names
from releases.engine.tables.files.kinds import ARROW, SAS, SPSS, STATA, WORKBOOK, XPORT, one_of, repacked
from releases.engine.tables.files.limits import UNREADABLE, memory_as_unfolded, refuse_unfolding

#: That are text at a time.
_VALUES_AT_A_TIME = 1 << 18
#: A file of a statistical program is read from its start for each part, so the parts of a large file are large: their
#: values at least and at most.
_PARTS = (1 << 21, 1 << 24)
_MOST_KEPT = 1 << 12
#: From here on a double that is whole is written with an exponent, as databases do.
_ALL_WHOLE = float(1 << 53)
_LONGEST_LABEL, _MOST_LABELS = 200, 1000


def to_parquet(
    kind: str, source: Path, target: Path, facts: FileFacts, *, most: int, sent: Path
) -> tuple[FileFacts, list[dict[str, Any]]]:
    """Write a file as Parquet.

    Args:
        most: bytes that a workbook may unfold to.
        sent: the file that was sent, where this one was taken out of an archive: its size bounds what reading may take.

    Returns:
        the facts with what was proposed, and what the file says of its columns.

    Raises:
        UnreadableTable: it is damaged, or has no such sheet.
    """
    with _readable(kind, sent):
        if kind == WORKBOOK:
            return _write_sheet(source, target, facts, most), []
        if kind == ARROW:
            _write_arrow(source, target, sent)
            return facts, []
        return facts, _write_statistical(kind, source, target, facts, sent)


def check_sheet(source: Path, facts: FileFacts, folder: Path, *, most: int) -> FileFacts:
    """The facts with the sheet that is meant.

    Raises:
        UnreadableTable: it is damaged, or has no such sheet.
    """
    with _readable(WORKBOOK, source):
        return _opened(source, folder / "workbook", facts, most)[1]


@contextmanager
def _readable(kind: str, sent: Path) -> Iterator[None]:
    try:
        with memory_as_unfolded(sent):
            yield
    except (UnreadableTable, KeyboardInterrupt):
        raise
    except BaseException:  # noqa: BLE001  whatever a library raises, panics of Rust too; its text can hold rows
        raise UnreadableTable(f"The {kind} {UNREADABLE}") from None


def text_of(value: Any) -> str | None:
    """A value as text, as it would be in a text file; nothing for a missing one."""
    if value is None or value == "" or value != value:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _ALL_WHOLE else repr(value)
    return value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)


def _signed(value: Any, facts: FileFacts) -> str | None:
    """A number of the file's own has the decimal sign that numbers typed as text have: they are read alike."""
    text = text_of(value)
    if text is not None and facts.decimal and isinstance(value, float):
        return text.replace(".", facts.decimal)
    return text


# Workbooks


def _opened(source: Path, plain: Path, facts: FileFacts, most: int) -> tuple[Any, FileFacts]:
    import python_calamine

    repacked(source, plain, most=most)
    workbook = python_calamine.CalamineWorkbook.from_path(str(plain))
    names = workbook.sheet_names
    chosen = facts.sheet
    if not chosen and len(names) == 1:
        chosen = names[0]
    elif chosen not in names and chosen.isdecimal() and 1 <= int(chosen) <= len(names):
        chosen = names[int(chosen) - 1]
    if chosen not in names:
        raise UnreadableTable(one_of(names), value=facts.sheet, field="sheet")
    return workbook.get_sheet_by_name(chosen), replace(facts, sheet=chosen)


def _write_sheet(source: Path, target: Path, facts: FileFacts, most: int) -> FileFacts:
    sheet, facts = _opened(source, target.with_suffix(".plain"), facts, most)
    # Empty columns in front are none of what the library gives.
    in_front: list[str | None] = [None] * (sheet.start[1] if sheet.start else 0)
    rows = (in_front + [_signed(cell, facts) for cell in row] for row in sheet.iter_rows())
    if facts.has_header:
        first = next(islice(rows, facts.header_row - 1, None), [])
        names, places = named_columns(first, facts, of="sheet")
    else:
        names = numbered_names(sheet.end[1] + 1 if sheet.end else 0)
        places = list(range(len(names)))
    kept = (row for row in rows if any(cell is not None for cell in row))
    _write_texts(target, names, _in_columns(kept, places, facts))
    return facts


def _in_columns(
    rows: Iterable[list[str | None]], places: Sequence[int], facts: FileFacts
) -> Iterator[list[list[str | None]]]:
    rows, named = iter(rows), frozenset(places)
    while part := list(islice(rows, _rows_of(_VALUES_AT_A_TIME, len(places)))):
        for row in part:
            for place, cell in enumerate(row):
                if cell is not None and place not in named:
                    raise has_values(place + 1, facts.header_row, of="sheet")
        yield [[row[place] if place < len(row) else None for row in part] for place in places]


def _rows_of(values: int, columns: int) -> int:
    return max(1, values // max(1, columns))


# Files of statistical programs


def _write_statistical(kind: str, source: Path, target: Path, facts: FileFacts, sent: Path) -> list[dict[str, Any]]:
    import pyreadstat

    reader: Any = {
        SPSS: pyreadstat.read_sav,
        STATA: pyreadstat.read_dta,
        SAS: pyreadstat.read_sas7bdat,
        XPORT: pyreadstat.read_xport,
    }[kind]
    # Codes that SPSS takes for missing stay as they are written.
    options: dict[str, Any] = {"output_format": "dict", **({"user_missing": True} if kind == SPSS else {})}
    _, about = reader(str(source), metadataonly=True, **options)
    names = checked_names(about.column_names, facts)
    # None where the file does not say; a number takes eight bytes.
    refuse_unfolding(sent, (about.number_rows or 0) * len(names) * 8, kind=kind)
    short = {name for name, kind_of in about.readstat_variable_types.items() if kind_of == "float"}
    values = min(max(_PARTS[0], sent.stat().st_size >> 4), _PARTS[1])
    parts = _parts(partial(reader, str(source), **options), _rows_of(values, len(names)))
    _write_texts(target, names, _in_texts(parts, facts, short))
    return [_said(name, raw, about, facts) for name, raw in zip(names, about.column_names, strict=True)]


def _parts(read: Any, rows: int) -> Iterator[dict[str, list[Any]]]:
    """Up to the end of the rows, however many the file says it has."""
    for start in count(0, rows):
        data, _ = read(row_offset=start, row_limit=rows)
        length = len(next(iter(data.values()), ()))
        if length:
            yield data
        if length < rows:
            return


def _in_texts(
    parts: Iterable[dict[str, list[Any]]], facts: FileFacts, short: Container[str]
) -> Iterator[list[list[str | None]]]:
    texts: dict[str, _Texts] = {}
    for data in parts:
        texts = texts or {name: _Texts(facts, is_short=name in short) for name in data}
        length, rows = len(next(iter(data.values()))), _rows_of(_VALUES_AT_A_TIME, len(data))
        for start in range(0, length, rows):
            yield [[texts[name][each] for each in values[start : start + rows]] for name, values in data.items()]


class _Texts(dict[Any, str | None]):
    """The texts of a column's values. Few values are most of a column, so they are kept."""

    def __init__(self, facts: FileFacts, *, is_short: bool) -> None:
        super().__init__()
        self.facts, self.is_short = facts, is_short

    def __missing__(self, value: Any) -> str | None:
        import numpy as np

        # What was written with seven digits is not to come out with seventeen.
        said = float(str(np.float32(value))) if self.is_short and isinstance(value, float) else value
        text = _signed(said, self.facts)
        if len(self) < _MOST_KEPT:
            self[value] = text
        return text


def _said(name: str, raw: str, about: Any, facts: FileFacts) -> dict[str, Any]:
    """What the file's own metadata says of a column, as text: values as they are stored, and missing codes, which are
    compared as numbers too, as a schema writes numbers."""
    missing = about.missing_ranges.get(raw, [])
    ranges = [(each["lo"], each["hi"]) for each in missing]
    labels = about.variable_value_labels.get(raw, {})
    named = {_signed(_number(value), facts) or "": str(label)[:_LONGEST_LABEL] for value, label in labels.items()}
    left_out = {_signed(_number(value), facts) for value in labels if any(_is_within(value, *each) for each in ranges)}
    return {
        "name": name,
        "label": str(about.column_names_to_labels.get(raw) or "")[:_LONGEST_LABEL],
        "values": {code: label for code, label in list(named.items())[:_MOST_LABELS] if code and code not in left_out},
        "missing": [
            text_of(_number(low)) if low == high else f"{text_of(_number(low))} to {text_of(_number(high))}"
            for low, high in ranges
        ],
        "format": str(about.original_variable_types.get(raw) or ""),
    }


def _number(value: Any) -> Any:
    return float(value) if isinstance(value, int) else value


def _is_within(value: Any, low: Any, high: Any) -> bool:
    return isinstance(value, str) == isinstance(low, str) and bool(low <= value <= high)


# Arrow


def _write_arrow(source: Path, target: Path, sent: Path) -> None:
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet

    with pyarrow.OSFile(str(source)) as file:
        if file.read(4) == b"FEA1":
            table = pyarrow.feather.read_table(str(source), memory_map=False)
            pyarrow.parquet.write_table(table, str(target))
            return
        file.seek(0)
        reader = pyarrow.ipc.open_file(file)
        unfolded = 0
        with pyarrow.parquet.ParquetWriter(str(target), reader.schema) as written:
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number)
                unfolded += batch.nbytes
                refuse_unfolding(sent, unfolded, kind=ARROW)
                batch.validate(full=True)
                written.write_batch(batch)


def _write_texts(target: Path, names: Sequence[str], parts: Iterable[list[list[str | None]]]) -> None:
    import pyarrow
    import pyarrow.parquet

    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    with pyarrow.parquet.ParquetWriter(str(target), schema) as written:
        for columns in parts:
            arrays = [pyarrow.array(column, pyarrow.string()) for column in columns]
            written.write_batch(pyarrow.record_batch(arrays, schema=schema))
