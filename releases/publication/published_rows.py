"""Synthetic rows from tables that somebody else published: read from their files, fitted, and described.

No dataset is read, nothing is stored and no budget is spent.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO, StringIO
from math import prod
from zipfile import ZIP_DEFLATED, ZipFile

import pyarrow as pa
from pyarrow import csv as arrow_csv

from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.engine.estimation.published import PublishedTable, columns_of, fit_published, universe_of
from releases.engine.estimation.synthetic import most_rows, synthetic_records
from releases.engine.noise.randomness import OperatingSystemRandomness
from releases.publication.files import synthetic_table

ROWS, README = "synthetic.csv", "README.txt"
#: The separator of a table is the one of these that its first line has most often.
_SEPARATORS = ",;\t"


@dataclass(frozen=True, kw_only=True)
class PublishedRows:
    """
    Attributes:
        table: the rows.
        readme: what they are made of, and what they are not.
    """

    table: pa.Table
    readme: str

    @property
    def archive(self) -> bytes:
        """A zip file of the rows and what they are."""
        file = BytesIO()
        with ZipFile(file, "w", ZIP_DEFLATED) as archive:
            archive.writestr(ROWS, self.csv)
            archive.writestr(README, self.readme)
        return file.getvalue()

    @property
    def csv(self) -> bytes:
        file = BytesIO()
        arrow_csv.write_csv(self.table, file)
        return file.getvalue()


def lines_of(source: str, content: bytes) -> list[list[str]]:
    """The lines of a table, separated by commas, semicolons or tabs, without empty ones.

    Raises:
        InvalidInput: what is no text in UTF-8, or has a quotation mark that is never closed.
    """
    try:
        text = content.decode("utf-8-sig")
        head = text.partition("\n")[0]
        separator = max(_SEPARATORS, key=head.count)
        return [line for line in csv.reader(StringIO(text, newline=""), delimiter=separator, strict=True) if line]
    except UnicodeDecodeError:
        raise InvalidInput(source, "the file", "must be a table as text in UTF-8: save it as CSV UTF-8") from None
    except csv.Error as error:
        raise InvalidInput(source, str(error), "must be a table as CSV") from None


def published_rows(
    files: Mapping[str, Sequence[Sequence[str]]],
    *,
    universe: Universe | None,
    deviation: float,
    rows: int | None,
    max_cells: int | None = None,
    max_rows: int | None = None,
) -> PublishedRows:
    """
    Args:
        files: the lines of each table, by its name.
        universe: where the columns are declared; else each has the values that the tables list.
        deviation: of the noise on each count, as its publisher states it.
        rows: as many as the tables count where not given.
        max_cells: of all columns together, where fewer are taken than the fit can hold.
        max_rows: where fewer are made than the columns allow.

    Raises:
        InvalidInput: naming the file, the line, the value and the rule.
    """
    domain = universe_of(files) if universe is None else universe
    # Before any table is read, which holds all combinations of its columns in memory.
    named = {name for source, lines in files.items() for name in columns_of(source, lines[0] if lines else ())}
    cells = prod(each.size for each in domain.attributes if each.name in named)
    if max_cells is not None and cells > max_cells:
        rule = f"must be at most {max_cells:,} here; the command `manage.py published` takes more"
        raise InvalidInput("tables", f"{cells:,} combinations of values", rule)
    tables = [PublishedTable.read(name, lines, domain) for name, lines in files.items()]
    rng = OperatingSystemRandomness()
    distribution, total = fit_published(domain, tables, deviation=deviation, rng=rng)
    wanted, most = round(total) if rows is None else rows, most_rows(domain)
    most = most if max_rows is None else min(most, max_rows)
    if not 1 <= wanted <= most:
        raise InvalidInput("rows", wanted, f"must be 1 to {most:,}")
    records = synthetic_records(domain, distribution, rows=wanted, rng=rng)
    table = synthetic_table(domain.project(records.columns), records)
    return PublishedRows(table=table, readme=_readme(tables, wanted))


def _readme(tables: Sequence[PublishedTable], rows: int) -> str:
    listed = "\n".join(f"- {table.source}: {' x '.join(table.names)}" for table in tables)
    return (
        f"{rows:,} synthetic rows, made from published tables of counts alone:\n\n{listed}\n\n"
        "No row is a person, and no person's record was read. Nothing is promised about people: whatever the published "
        "tables tell about somebody, these rows tell too. What no table counts together is independent in the rows, "
        "as far as the tables allow.\n"
    )
