"""Parquet files in storage that speaks S3: what it says of them, and their rows, a batch at a time.

    names      the objects below a prefix that are such files
    described  the columns of one of them, with their types
    version    which version of it the storage holds
    ObjectTable

Where they are is ``s3://KEY:SECRET@BUCKET/PREFIX?endpoint=https://HOST&region=REGION#NAME``. Who signs in and where is
in it alone: nothing is taken from the environment, from files of the account or from a service of the machine. Of a
file's footer its schema is read, and where the columns are; its statistics are neither shown nor used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

from numpy.typing import NDArray
from sqlglot import exp

from releases.engine.tables.connection import Limits, connect, refuse_unless_confined
from releases.engine.tables.facts import UnreadableTable
from releases.engine.tables.places import USUAL_REGION
from releases.engine.tables.sources import UNPUSHED, EmbeddedTable, described_by
from releases.engine.tables.stored import form_said
from releases.engine.tables.typed import of_duckdb

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.fs
    import pyarrow.parquet

_ROWS_AT_A_TIME = 1 << 16
#: Of each column that is read, so much is fetched at once.
_BYTES_AT_A_TIME = 4 << 20
_SECONDS, _ATTEMPTS = 10, 3
_ROWS = "rows of an object"


@contextmanager
def refused_in_words() -> Iterator[None]:
    """What the storage answers stays here: it can name the key, the bucket or the host.

    Raises:
        UnreadableTable: it did not answer, or refused, or the file is damaged.
    """
    import pyarrow

    try:
        yield
    except (OSError, pyarrow.ArrowException):
        raise UnreadableTable(
            "The storage does not answer, does not let this site read, or holds no such table. Nothing was read."
        ) from None


def names(url: str) -> list[str]:
    """Those of the objects below the prefix of a URL that are Parquet files, without the prefix.

    Raises:
        UnreadableTable: as `refused_in_words`.
        Unconfined: nothing confines this process.
    """
    import pyarrow.fs

    with refused_in_words():
        system, folder = _signed_in(url)
        found = system.get_file_info(pyarrow.fs.FileSelector(folder))
        files = [str(each.base_name) for each in found if each.type is pyarrow.fs.FileType.File]
    return sorted(name for name in files if name.endswith(".parquet") and "#" not in name)


def described(location: str, *, limits: Limits | None = None) -> dict[str, str]:
    """The columns of a file with their types, as the embedded database calls them; none where there is no such file."""
    import pyarrow.fs

    with refused_in_words():
        system, path = _signed_in(location)
        if system.get_file_info(path).type is not pyarrow.fs.FileType.File:
            return {}
        table = ObjectTable(location, limits=limits)
    return dict(described_by(table.connection, f'"{_ROWS}"'))


def version(location: str) -> str:
    """Which version of an object the storage holds: its ETag, the time of its last change, and its version where the
    storage keeps several. It tells how often the table was written, so it is shown nowhere.

    Raises:
        UnreadableTable: as `refused_in_words`.
        Unconfined: nothing confines this process.
    """
    with refused_in_words():
        system, path = _signed_in(location)
        with system.open_input_file(path) as opened:
            return _version(opened)


class ObjectTable(EmbeddedTable):
    """A Parquet file in storage, by a connection of DuckDB that reaches nothing: the rows are handed to it.

    Only columns that a statement names are read, from the start for each statement. Columns whose names differ in
    nothing but case are not there: DuckDB could not tell them apart.

    Raises:
        OSError: the storage does not answer, refuses, or holds another version than it did when this was made.
        Unconfined: nothing confines this process.
    """

    def __init__(self, location: str, *, limits: Limits | None = None) -> None:
        self._system, self._path = _signed_in(location)
        self._version = ""
        with self._opened() as file:
            self._schema = _plain(file.schema_arrow)
            said = self._schema.metadata or {}
        self.number_form = form_said({_text(key): _text(value) for key, value in said.items()})
        self.columns = tuple(self._schema.names)
        self.connection = connect(paths=[], limits=limits, options=UNPUSHED)
        self._offer(self.columns)
        self.types = of_duckdb(described_by(self.connection, f'"{_ROWS}"'))

    @property
    def relation(self) -> exp.Expr:
        return exp.table_(_ROWS, quoted=True)

    def batches(self, statement: exp.Expr, parameters: Sequence[list[str]]) -> Iterator[tuple[NDArray[Any], ...]]:
        named = {each.name for each in statement.find_all(exp.Column)}
        self._offer([name for name in self.columns if name in named] or self.columns[:1])
        yield from super().batches(statement, parameters)

    def _offer(self, columns: Sequence[str]) -> None:
        import pyarrow

        schema = pyarrow.schema([self._schema.field(name) for name in columns])
        self.connection.register(_ROWS, _Stream(self, schema))

    def read(self, schema: pyarrow.Schema) -> Iterator[pyarrow.RecordBatch]:
        """Some columns of all rows. Texts are UTF-8, which nothing behind this checks again."""
        with self._opened() as file:
            for batch in file.iter_batches(_ROWS_AT_A_TIME, columns=schema.names, use_threads=False):
                chosen = batch.select(schema.names).cast(schema)
                chosen.validate(full=True)
                yield chosen

    @contextmanager
    def _opened(self) -> Iterator[pyarrow.parquet.ParquetFile]:
        import pyarrow.parquet

        with self._system.open_input_file(self._path) as opened:
            found = _version(opened)
            if found != (self._version or found):
                raise OSError("The object was changed while it was read.")
            self._version = found
            with pyarrow.parquet.ParquetFile(opened, buffer_size=_BYTES_AT_A_TIME, pre_buffer=False) as file:
                yield file


class _Stream:
    """Rows that can be read any number of times."""

    def __init__(self, table: ObjectTable, schema: pyarrow.Schema) -> None:
        self._table, self._schema = table, schema

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        import pyarrow

        rows = pyarrow.RecordBatchReader.from_batches(self._schema, self._table.read(self._schema))
        return rows.__arrow_c_stream__(requested_schema)


def _plain(schema: pyarrow.Schema) -> pyarrow.Schema:
    """With the values of dictionaries in their place, as the file itself has them."""
    import pyarrow

    lowered = [name.lower() for name in schema.names]
    return pyarrow.schema(
        [
            field.with_type(field.type.value_type) if pyarrow.types.is_dictionary(field.type) else field
            for field in schema
            if lowered.count(field.name.lower()) == 1
        ],
        schema.metadata,
    )


def _version(opened: Any) -> str:
    said = opened.metadata()
    found = [_text(said.get(name, b"")) for name in ("ETag", "Last-Modified", "VersionId")]
    if not found[0]:
        # Whether it changes could not be known.
        raise OSError("The storage names no version of the object.")
    return " ".join(found)


def _text(given: bytes) -> str:
    return given.decode(errors="replace")


def _signed_in(location: str) -> tuple[pyarrow.fs.S3FileSystem, str]:
    """The one endpoint of a location, and the path of its object or prefix."""
    refuse_unless_confined()
    import pyarrow.fs

    url, _, name = location.partition("#")
    parts = urlsplit(url)
    options = dict(parse_qsl(parts.query))
    endpoint = urlsplit(options["endpoint"])
    if parts.username and not parts.password:
        raise UnreadableTable("The storage is signed in to with a key whose secret was not found. Nothing was read.")
    who = (
        {"access_key": unquote(parts.username), "secret_key": unquote(parts.password or "")}
        if parts.username
        else {"anonymous": True}
    )
    system = pyarrow.fs.S3FileSystem(
        **who,
        region=options.get("region", USUAL_REGION),
        scheme=endpoint.scheme,
        endpoint_override=endpoint.netloc,
        connect_timeout=_SECONDS,
        request_timeout=_SECONDS,
        retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
    )
    return system, "/".join(filter(None, (parts.hostname, parts.path.strip("/"), name)))
