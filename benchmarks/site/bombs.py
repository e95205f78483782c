"""`manage.py bench --only bombs`: files that unfold to far more than they are, and honest ones, as a site reads them.

Each is made here and read by the job that reads uploads, in a process of its own under the limits that a site has where
nobody set any. Memory is the most that the process had beside what it began with, the programs.
"""

from __future__ import annotations

import faulthandler
import gzip
import io
import os
import random
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.site.installation import measured
from benchmarks.tables import BenchRow, BenchTable

#: Of the issue that asked for it, for a file that is refused.
SECONDS, MEBIBYTES = 2, 256
_TAKEN, _REFUSED, _ENDED = "taken", "refused", "ended"


def tables() -> Iterator[BenchTable]:
    found = measured("bombs")
    rows = []
    for name, each in found.items():
        is_met = each["outcome"] == _TAKEN
        if name in BOMBS:
            is_met = not is_met and each["seconds"] <= SECONDS and each["mebibytes"] <= MEBIBYTES
        shown = (name, f"{each['kibibytes']:,.0f} KiB", each["outcome"], f"{each['seconds']:.1f} s")
        rows.append(BenchRow(cells=(*shown, f"{each['mebibytes']:,.0f} MiB"), is_met=is_met))
    yield BenchTable(
        title="Files that unfold to far more than they are",
        says=f"Targets: refused within {SECONDS} s of the processor and {MEBIBYTES} MiB; honest files are taken. "
        "Ended: refused because a library ended its process where it had no memory left.",
        heads=("file", "size", "outcome", "time", "memory"),
        rows=rows,
    )


def measure(folder: str) -> dict[str, dict[str, Any]]:
    """Every file, by its name."""
    from releases.worker import jobs  # noqa: F401  before processes are made

    source, found = Path(folder) / "sent", {}
    least = _least()
    for name, make in (BOMBS | HONEST).items():
        source.write_bytes(made_apart(make))
        outcome, seconds, peak = _read(source)
        found[name] = {
            "outcome": outcome,
            "seconds": seconds,
            "mebibytes": (peak - least) / 1024,
            "kibibytes": source.stat().st_size / 1024,
        }
    return found


def made_apart(make: Callable[[], bytes]) -> bytes:
    """What a function gives, made in a process of its own: what it needed of memory ends with it."""
    with tempfile.TemporaryFile() as made:
        if (child := os.fork()) == 0:
            try:
                made.write(make())
                made.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        made.seek(0)
        return made.read()


def _least() -> int:
    """The kilobytes of a process that does nothing."""
    if (child := os.fork()) == 0:
        os._exit(0)
    return os.wait4(child, 0)[2].ru_maxrss


def _read(source: Path) -> tuple[str, float, int]:
    """How it ended, seconds of the processor, and the kilobytes that the process had at most."""
    from django.conf import settings

    from releases.engine.tables.connection import this_process_is_confined
    from releases.engine.tables.facts import UnreadableTable
    from releases.services.datasets import upload_limits
    from releases.storage.scratch import limits
    from releases.worker import confinement, jobs

    child = os.fork()
    if child == 0:
        status = 2
        try:
            # What a library prints as it dies.
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_RDWR), 2)
            confinement.limit(memory=settings.READER_MEMORY_BYTES, seconds=settings.READ_TIME_LIMIT)
            confinement.deny_network()
            this_process_is_confined()
            stored = source.with_suffix(".stored")
            jobs.upload(source=source, destination=stored, key=b"k", table=upload_limits(), limits=limits())
            status = 0
        except UnreadableTable:
            status = 1
        finally:
            os._exit(status)
    _, ended, used = os.wait4(child, 0)
    outcome = {0: _TAKEN, 1: _REFUSED}.get(os.waitstatus_to_exitcode(ended), _ENDED)
    return outcome, used.ru_utime + used.ru_stime, used.ru_maxrss


# Workbooks


def zipped(members: Mapping[str, str | bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return made.getvalue()


def _xlsx(rows: str, *, texts: str = "", **more: bytes) -> bytes:
    """A workbook of one sheet.

    Args:
        rows: of the sheet, in XML.
        texts: those that cells share, in XML.
        more: members besides, by their names with two underscores for a slash and one for a point.
    """
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kept = {name.replace("__", "/").replace("_", "."): content for name, content in more.items()}
    return zipped(
        {
            "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
            "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r0" '
            f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
            '<sheet name="Data" sheetId="1" r:id="r1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">'
            f'<Relationship Id="r1" Type="{office}/worksheet" Target="worksheets/sheet1.xml"/>'
            f'<Relationship Id="r2" Type="{office}/sharedStrings" Target="sharedStrings.xml"/></Relationships>',
            "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
            "xl/sharedStrings.xml": f'<sst xmlns="{main}">{texts}</sst>',
            **kept,
        }
    )


def _shared(length: int, rows: int, columns: int) -> bytes:
    cells = '<c t="s"><v>0</v></c>' * columns
    return _xlsx(f"<row>{cells}</row>" * rows, texts=f"<si><t>{'x' * length}</t></si>")


def _far_apart() -> str:
    return '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>1</v></c></row>'


def ods(tables: str) -> bytes:
    spaces = " ".join(
        f'xmlns:{each}="urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"' for each in ("office", "table", "text")
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    return zipped(
        {
            "mimetype": kind,
            "META-INF/manifest.xml": '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest'
            f':1.0"><manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
            "content.xml": f"<office:document-content {spaces}><office:body><office:spreadsheet>"
            f"{tables}</office:spreadsheet></office:body></office:document-content>",
        }
    )


def _ods(rows: str) -> bytes:
    return ods(f'<table:table table:name="Data">{rows}</table:table>')


def _repeated(*, rows: int = 1, columns: int = 1, text: str = "x") -> str:
    cell = f'<table:table-cell table:number-columns-repeated="{columns}" office:value-type="string">'
    return (
        f'<table:table-row table:number-rows-repeated="{rows}">{cell}<text:p>{text}</text:p></table:table-cell>'
        "</table:table-row>"
    )


# Files of statistical programs, and columnar ones


def by_file(write: Callable[[str], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        write(str(path))
        return path.read_bytes()


def _statistical(suffix: str, columns: Mapping[str, Any]) -> bytes:
    import polars
    import pyreadstat

    frame = polars.DataFrame(columns)
    if suffix == "dta":
        return by_file(lambda path: pyreadstat.write_dta(frame, path))
    if suffix == "xpt":
        return by_file(lambda path: pyreadstat.write_xport(frame, path, file_format_version=8))
    return by_file(lambda path: pyreadstat.write_sav(frame, path, compress=suffix == "zsav"))


def says_many_rows(rows: int) -> bytes:
    """An SPSS file of three rows whose header says another number."""
    made = bytearray(_statistical("sav", {"a": [1.0, 2.0, 3.0], "b": ["x", "y", ""]}))
    # As in the published layout of the header: 4 bytes of type, 60 of text, four numbers, then the number of rows.
    made[80:84] = rows.to_bytes(4, "little", signed=True)
    return bytes(made)


def _equal(rows: int, columns: int, value: Any = 1.0) -> dict[str, list[Any]]:
    return {f"c{place}": [value] * rows for place in range(columns)}


def _columnar(kind: str, values: Any) -> bytes:
    import pyarrow as pa
    import pyarrow.feather
    import pyarrow.parquet

    table = pa.table({f"c{place}": values for place in range(4)})
    if kind == "feather":
        return by_file(lambda path: pyarrow.feather.write_feather(table, path, compression="zstd"))
    return by_file(lambda path: pyarrow.parquet.write_table(table, path, compression="zstd"))


def _one_text(length: int, rows: int) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), pa.array(["x" * length]))


def _zeros(size: int) -> Any:
    import numpy as np

    return np.zeros(size)


def _lying(content: bytes) -> bytes:
    """A zip archive whose directory says that its member is small."""
    made = bytearray(content)
    for mark, place in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        at = made.index(mark) + place
        made[at : at + 4] = (1000).to_bytes(4, "little")
    return bytes(made)


_HEAD = "<row><c><v>1</v></c></row>"

BOMBS: dict[str, Callable[[], bytes]] = {
    "xlsx: one long text in many cells": lambda: _shared(32_000, 6_000, 100),
    "xlsx: one short text in many cells": lambda: _shared(100, 20_000, 100),
    "xlsx: a value in the first cell and one in the last": lambda: _xlsx(_far_apart()),
    "xlsx: a member of zeros": lambda: _xlsx(_HEAD, xl__zeros_xml=bytes(2**28)),
    "xlsx: very many empty rows": lambda: _xlsx("<row/>" * 30_000_000),
    "xlsx: many short numbers": lambda: _xlsx(f"<row>{'<c><v>1</v></c>' * 100}</row>" * 100_000),
    "ods: one cell repeated": lambda: _ods(_repeated(columns=2**31)),
    "ods: one row repeated": lambda: _ods(_repeated(rows=2**31, columns=10)),
    "ods: cells and rows repeated": lambda: _ods(_repeated(rows=1_000_000, columns=16_000)),
    "ods: a long text repeated": lambda: _ods(_repeated(rows=1_000, columns=1_000, text="x" * 9_999)),
    "ods: very many empty rows between two": lambda: _ods(
        _repeated() + '<table:table-row table:number-rows-repeated="2000000000"/>' + _repeated()
    ),
    "ods: a text of very many spaces": lambda: _ods(_repeated(text='<text:s text:c="4000000000"/>')),
    "zsav: 100 million equal numbers": lambda: _statistical("zsav", _equal(1_000_000, 100)),
    "sav: says a billion rows": lambda: says_many_rows(10**9),
    "dta: equal numbers, in a gz": lambda: gzip.compress(_statistical("dta", _equal(1_000_000, 40))),
    "xpt: equal numbers, in a zip": lambda: zipped({"a.xpt": _statistical("xpt", _equal(1_000_000, 40))}),
    "feather: equal numbers": lambda: _columnar("feather", _zeros(50_000_000)),
    "feather: one long text by a dictionary": lambda: _columnar("feather", _one_text(9_999, 1_000_000)),
    "parquet: equal numbers": lambda: _columnar("parquet", _zeros(200_000_000)),
    "parquet: one long text by a dictionary": lambda: _columnar("parquet", _one_text(9_999, 6_000_000)),
    "csv of zeros, in a gz": lambda: gzip.compress(b"0," * 2**27, mtime=0),
    "csv of zeros, in a zip that says it is small": lambda: _lying(zipped({"a.csv": b"0," * 2**27})),
}


# Honest files


def _people(rows: int, columns: int) -> dict[str, list[Any]]:
    """Numbers of a few values, of many, and texts."""
    drawn = random.Random(0)  # noqa: S311  rows of nobody
    makes: list[Callable[[], Any]] = [
        lambda: float(drawn.randrange(5)),
        lambda: round(drawn.gauss(50, 20), 2),
        lambda: drawn.choice(["north", "south", "east", "west"]),
    ]
    return {f"c{place}": [makes[place % 3]() for _ in range(rows)] for place in range(columns)}


def _sheet(kind: str, rows: int, columns: int) -> bytes:
    people = list(zip(*_people(rows, columns).values(), strict=True))
    if kind == "ods":
        number = '<table:table-cell office:value-type="float" office:value="{}"/>'
        text = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
        row = "<table:table-row>{}</table:table-row>"
        # As people's programs end a sheet.
        rest = '<table:table-row table:number-rows-repeated="1048000"><table:table-cell '
        rest += 'table:number-columns-repeated="16384"/></table:table-row>'
    else:
        number, text = "<c><v>{}</v></c>", '<c t="inlineStr"><is><t>{}</t></is></c>'
        row, rest = "<row>{}</row>", ""
    written = "".join(
        row.format("".join((text if isinstance(each, str) else number).format(each) for each in cells))
        for cells in [[f"c{place}" for place in range(columns)], *people]
    )
    return _ods(written + rest) if kind == "ods" else _xlsx(written)


HONEST: dict[str, Callable[[], bytes]] = {
    "honest zsav, 100,000 rows of 60": lambda: _statistical("zsav", _people(100_000, 60)),
    "honest sav, 100,000 rows of 60": lambda: _statistical("sav", _people(100_000, 60)),
    "honest dta, 100,000 rows of 60": lambda: _statistical("dta", _people(100_000, 60)),
    "honest xpt, 100,000 rows of 60": lambda: _statistical("xpt", _people(100_000, 60)),
    "honest xlsx, 100,000 rows of 20": lambda: _sheet("xlsx", 100_000, 20),
    "honest ods, 60,000 rows of 20": lambda: _sheet("ods", 60_000, 20),
    "honest sav that does not say its rows": lambda: says_many_rows(-1),
}
