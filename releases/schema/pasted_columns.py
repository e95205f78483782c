"""Columns pasted from a spreadsheet: lines of cells between tabs, read into texts by column; nothing is declared by it.

    name    type      lowest  highest  bins  missing codes
    age     integer   18      68       5     -9
    sex     categories ...

The first line names the fields by the heads of a codebook in CSV, or by `lowest`, `highest` and `bins`. Without such a
line the cells are those of `ORDER`. A cell with tabs, quotes or line breaks is in quotes, as spreadsheets copy it. What
cannot be read is listed by its line and field, and the rest is taken.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from releases.engine.errors import InvalidInput
from releases.schema.codebook_csv import HEADS, plain_head

#: A block of more is no table of columns.
MAX_BYTES, MAX_LINES = 200_000, 500
#: The fields of a line where no line names them.
ORDER = ("name", "type", "values", "outside", "missing", "description", "unit")
_ENDS = {
    "lowest": ("lowest", "minimum", "min"),
    "highest": ("highest", "maximum", "max"),
    "bins": ("bins", "number of bins"),
}
_KNOWN = HEADS | {head: field for field, heads in _ENDS.items() for head in heads}


@dataclass(frozen=True, kw_only=True, slots=True)
class PastedLine:
    """What a line says of a column.

    Attributes:
        number: of the line in the block, the first being 1.
        cells: by field what is in its cell, where it is not empty.
    """

    number: int
    name: str
    cells: dict[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class PastedBlock:
    """What was understood of a block, and what was not.

    Attributes:
        problems: each with the number of its line, which its `field` names too.
    """

    lines: tuple[PastedLine, ...]
    problems: tuple[tuple[int, InvalidInput], ...]


def read_block(text: str, *, columns: Iterable[str]) -> PastedBlock:
    """Read a pasted block about the columns of a table.

    Raises:
        InvalidInput: it is empty, too large, or its quotes do not end.
    """
    if len(text.encode(errors="replace")) > MAX_BYTES:
        raise InvalidInput("block", f"{len(text):,} characters", f"must be at most {MAX_BYTES:,} bytes")
    rows = list(_rows(text))
    if not rows:
        raise InvalidInput("block", None, "must be lines of cells that were copied from a spreadsheet")
    fields, unknown = _fields(rows[0][1])
    problems = [(rows[0][0], each) for each in unknown]
    if fields is None:
        fields = list(ORDER)
    else:
        del rows[0]
    found: dict[str, PastedLine] = {}
    known = set(columns)
    for number, cells in rows:
        try:
            line = _line(number, cells, fields, known)
            if line.name in found:
                rule = f"is in line {found[line.name].number} already, which is taken"
                raise InvalidInput(f"line {number}.name", line.name, rule)
            found[line.name] = line
        except InvalidInput as error:
            problems.append((number, error))
    return PastedBlock(lines=tuple(found.values()), problems=tuple(problems))


def values_of(line: PastedLine) -> str:
    """The categories or edges that a line says, in the way they are typed; empty where it says none.

    Raises:
        InvalidInput: it says them in two ways, or one end of a range alone.
    """
    lowest, highest, bins, values = (line.cells.get(each, "") for each in ("lowest", "highest", "bins", "values"))
    if not (lowest or highest):
        if bins and values:
            raise InvalidInput("bins", bins, "is given besides categories or edges; keep one of them")
        return values or bins
    if values:
        raise InvalidInput("values", values, "is given besides lowest and highest; keep one of them")
    if not (lowest and highest):
        given, other = ("lowest", "highest") if lowest else ("highest", "lowest")
        raise InvalidInput(other, None, f"must be given where {given} is")
    if not bins:
        return f"{lowest} to {highest}"
    if bins.isascii() and bins.isdigit():
        return f"{lowest} to {highest} in {bins} bins"
    if bins.isascii() and bins.isalpha():
        return f"{lowest} to {highest} by {bins}"
    raise InvalidInput("bins", bins, "must be the number of bins in digits or, of dates, a word such as month")


def _rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Each line that is not empty, with the number of the line it begins on."""
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), dialect="excel-tab", strict=True)
    while True:
        begins = reader.line_num + 1
        if begins > MAX_LINES:
            raise InvalidInput("block", f"line {begins:,}", f"is beyond the {MAX_LINES:,} lines that a block may have")
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InvalidInput(f"line {begins}", str(error), "must be cells between tabs, in quotes that end") from None
        if any(cell.strip() for cell in cells):
            yield begins, cells


def _fields(first: list[str]) -> tuple[list[str] | None, list[InvalidInput]]:
    """The field of each cell, empty for an unknown head; None where the first line names no fields."""
    named = [_KNOWN.get(plain_head(cell), "") for cell in first]
    given = [cell for cell in first if cell.strip()]
    is_head = "name" in named and (len(given) == 1 or sum(map(bool, named)) > 1)
    if not is_head:
        return None, []
    problems = []
    for position, (cell, field) in enumerate(zip(first, named, strict=True)):
        if field and field in named[:position]:
            problems.append(InvalidInput("line 1", cell, f"says {field} again; the first such column is taken"))
            named[position] = ""
        elif cell.strip() and not field:
            heads = ", ".join(dict.fromkeys(_KNOWN.values()))
            rule = f"is no known head, so the cells below it are not read; heads are {heads}"
            problems.append(InvalidInput("line 1", cell, rule))
    return named, problems


def _line(number: int, cells: list[str], fields: list[str], known: set[str]) -> PastedLine:
    if beyond := [each for each in cells[len(fields) :] if each.strip()]:
        raise InvalidInput(f"line {number}", beyond[0], f"is in a cell too many; a line has at most {len(fields)}")
    said = {field: cell for field, cell in zip(fields, cells, strict=False) if field and cell.strip()}
    name = said.pop("name", "")
    name = name if name in known else name.strip()
    if name not in known:
        rest = "; cells are separated by tabs" if len(cells) == 1 else ""
        raise InvalidInput(f"line {number}.name", name, f"is not a column of the table{rest}")
    return PastedLine(number=number, name=name, cells={field: cell.strip() for field, cell in said.items()})
