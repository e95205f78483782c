"""One small table in every format that is read, and in an archive: what the tests write, without the code they test."""

from __future__ import annotations

import gzip
import io
import tempfile
import zipfile
from datetime import date
from pathlib import Path
from xml.sax.saxutils import escape

import polars
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pyreadstat

from benchmarks.site import bombs
from benchmarks.site.bombs import zipped
from tests.engine.tables.files.sas import sas7bdat

NAMES = ("age", "height", "town")
ROWS = [(31.0, 1.59, "Köln"), (44.0, 1.7, "Ulm & Neu-Ulm"), (-9.0, 2.0, None), (None, 1e-7, "a,b;c")]
LABELS = {
    "column_labels": {"age": "Age in years"},
    "variable_value_labels": {"age": {1.0: "one", -9.0: "no answer"}},
    "missing_ranges": {"age": [-9]},
}


def text(value):
    if value is None:
        return ""
    return value if isinstance(value, str) else str(int(value)) if value.is_integer() else repr(value)


def separated(separator, encoding="utf-8", decimal=".", rows=ROWS):
    def quoted(value):
        said = text(value).replace(".", decimal) if isinstance(value, float) else text(value)
        return f'"{said}"' if any(sign in said for sign in ',;\t"') else said

    lines = [separator.join(NAMES), *(separator.join(quoted(each) for each in row) for row in rows)]
    return ("\n".join(lines) + "\n").encode(encoding)


def xlsx(sheets):
    """Sheets by their names, each of rows of cells."""

    def cell(value):
        if value is None:
            return "<c/>"
        if isinstance(value, str):
            return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        if isinstance(value, date):
            return f'<c s="1"><v>{(value - date(1899, 12, 30)).days}</v></c>'
        return f"<c><v>{value!r}</v></c>"

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    listed = "".join(
        f'<sheet name="{escape(name)}" sheetId="{i}" r:id="r{i}"/>' for i, name in enumerate(sheets, start=1)
    )
    related = "".join(
        f'<Relationship Id="r{i}" Type="{office}/worksheet" Target="worksheets/sheet{i}.xml"/>'
        for i in range(1, len(sheets) + 1)
    )
    members = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r0" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">{related}</Relationships>',
    }
    # The second style is that of days.
    styles = '<xf numFmtId="0"/><xf numFmtId="14" applyNumberFormat="1"/>'
    members["xl/styles.xml"] = f'<styleSheet xmlns="{main}"><cellXfs count="2">{styles}</cellXfs></styleSheet>'
    for number, rows in enumerate(sheets.values(), start=1):
        written = "".join(f"<row>{''.join(cell(each) for each in row)}</row>" for row in rows)
        members[f"xl/worksheets/sheet{number}.xml"] = (
            f'<worksheet xmlns="{main}"><sheetData>{written}</sheetData></worksheet>'
        )
    return zipped(members)


def ods(sheets):
    def cell(value):
        if value is None:
            return "<table:table-cell/>"
        if isinstance(value, str):
            return f'<table:table-cell office:value-type="string"><text:p>{escape(value)}</text:p></table:table-cell>'
        return f'<table:table-cell office:value-type="float" office:value="{value!r}"/>'

    tables = "".join(
        f'<table:table table:name="{escape(name)}">'
        + "".join(f"<table:table-row>{''.join(cell(each) for each in row)}</table:table-row>" for row in rows)
        + "</table:table>"
        for name, rows in sheets.items()
    )
    return bombs.ods(tables)


def by_file(write):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        write(path)
        return path.read_bytes()


def statistical(suffix, rows=ROWS):
    frame = polars.DataFrame({name: [row[i] for row in rows] for i, name in enumerate(NAMES)})
    if suffix == "dta":
        return by_file(lambda path: pyreadstat.write_dta(frame, str(path)))
    if suffix == "xpt":
        return by_file(lambda path: pyreadstat.write_xport(frame, str(path), file_format_version=8))
    return by_file(lambda path: pyreadstat.write_sav(frame, str(path), compress=suffix == "zsav", **LABELS))


def of_sas(rows):
    is_text = [any(isinstance(row[i], str) for row in rows) for i in range(len(NAMES))]
    labels = {"age": "Age in years"}
    return sas7bdat(
        {
            name: (labels.get(name, ""), "$40" if text else "BEST12", 40 if text else 0)
            for name, text in zip(NAMES, is_text, strict=True)
        },
        rows,
    )


def labelled(suffix, labels=None, ranges=None):
    """The table with labels of columns and, where the format has them, of values and of what is missing."""
    if suffix == "sas7bdat":
        return of_sas(ROWS)
    frame = polars.DataFrame({name: [row[i] for row in ROWS] for i, name in enumerate(NAMES)})
    said = {"column_labels": {"age": "Age in years"}}
    if suffix == "xpt":
        return by_file(lambda path: pyreadstat.write_xport(frame, str(path), file_format_version=8, **said))
    if suffix == "dta":
        # Stata labels whole numbers alone.
        frame = frame.with_columns(polars.col("age").cast(polars.Int32))
        said["variable_value_labels"] = {"age": {1: "one", -9: "no answer"}}
        return by_file(lambda path: pyreadstat.write_dta(frame, str(path), **said))
    said |= {"variable_value_labels": labels, "missing_ranges": ranges}
    return by_file(lambda path: pyreadstat.write_sav(frame, str(path), **said))


def arrow(rows):
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(NAMES)})


#: By a name, how rows are written; the decimal sign is of formats that have no numbers of their own.
FORMATS = {
    "csv": lambda rows, decimal: separated(",", decimal=decimal, rows=rows),
    "tsv": lambda rows, decimal: separated("\t", decimal=decimal, rows=rows),
    "xlsx": lambda rows, _: xlsx({"Data": [NAMES, *rows]}),
    "xlsm": lambda rows, _: with_macros(xlsx({"Data": [NAMES, *rows]})),
    "ods": lambda rows, _: ods({"Data": [NAMES, *rows]}),
    "sav": lambda rows, _: statistical("sav", rows),
    "zsav": lambda rows, _: statistical("zsav", rows),
    "dta": lambda rows, _: statistical("dta", rows),
    "xpt": lambda rows, _: statistical("xpt", rows),
    "sas7bdat": lambda rows, _: of_sas(rows),
    "parquet": lambda rows, _: by_file(lambda path: pyarrow.parquet.write_table(arrow(rows), path)),
    "feather": lambda rows, _: by_file(lambda path: pyarrow.feather.write_feather(arrow(rows), str(path))),
    "arrow": lambda rows, _: by_file(lambda path: record_batches(arrow(rows), path)),
    "gz": lambda rows, decimal: gzip.compress(separated(",", decimal=decimal, rows=rows), mtime=0),
    "zip": lambda rows, decimal: zipped({"people.csv": separated(",", decimal=decimal, rows=rows)}),
}


def with_macros(content):
    """A workbook as programs write one that holds macros."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    types = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Override '
    types += 'PartName="/xl/workbook.xml" ContentType="application/vnd.ms-excel.sheet.macroEnabled.main+xml"/></Types>'
    return zipped(members | {"[Content_Types].xml": types, "xl/vbaProject.bin": b"\xd0\xcf\x11\xe0" * 100})


def record_batches(table, path):
    with pa.ipc.new_file(str(path), table.schema) as written:
        written.write_table(table)


def every_format(rows=ROWS, decimal="."):
    """By a name, the bytes."""
    return {name: write(rows, decimal) for name, write in FORMATS.items()}


def _titled(separator):
    title = f'"People{separator} a ""list"""{separator * 3}\n{separator * 3}\n'
    head, *rows = separated(separator).decode().splitlines()
    # A separator more than values in each line makes an unnamed column without values.
    return (title + "".join(f"{line}{separator}\n" for line in (head, *rows))).encode()


#: The same table below a title and an empty row, and with a column that has neither a name nor values.
_TITLED_ROWS = [("People",), (None, None), (*NAMES[:2], None, NAMES[2]), *((*row[:2], None, row[2]) for row in ROWS)]
TITLED = {
    "csv": _titled(","),
    "tsv": _titled("\t"),
    "xlsx": xlsx({"Data": _TITLED_ROWS}),
    "ods": ods({"Data": _TITLED_ROWS}),
    "gz": gzip.compress(_titled(","), mtime=0),
    "zip": zipped({"people.csv": _titled(",")}),
}


def of_dates(name, days):
    """A table of days of their own type, and the numbers of the rows."""
    numbers = list(range(len(days)))
    if name == "xlsx":
        return xlsx({"Data": [("day", "row"), *zip(days, numbers, strict=True)]})
    kind = pa.timestamp("us") if name == "timestamps" else pa.date32()
    table = pa.table({"day": pa.array(days, pa.date32()).cast(kind), "row": numbers})
    if name in ("parquet", "timestamps"):
        return by_file(lambda path: pyarrow.parquet.write_table(table, path))
    if name == "feather":
        return by_file(lambda path: pyarrow.feather.write_feather(table, str(path)))
    if name == "sas7bdat":
        # Days since 1960.
        since = [each and float((each - date(1960, 1, 1)).days) for each in days]
        columns = {"day": ("", "DATE9", 0), "row": ("", "", 0)}
        return sas7bdat(columns, list(zip(since, map(float, numbers), strict=True)))
    frame, write = polars.from_arrow(table), pyreadstat.write_sav if name == "sav" else pyreadstat.write_dta
    return by_file(lambda path: write(frame, str(path)))
