"""The only place where a table is opened: in a process that is confined, by a connection that reaches that table alone.

DuckDB parses what strangers send. So a process says first that it is confined (`this_process_is_confined`, called by
``releases/worker/reader.py`` once its limits are set); in any other, opening a table is an error. Each connection is
confined before anybody gets it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The last of them keeps the others as they are.
_CONFINED = {
    # Times with a time zone are text in it, wherever the machine is.
    "TimeZone": "'UTC'",
    # A progress bar would print how many rows there are.
    "enable_progress_bar": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_persistent_secrets": "false",
    # Variables of the program are no tables.
    "python_enable_replacements": "false",
    "enable_external_access": "false",
    "lock_configuration": "true",
}
_is_confined = False


class Unconfined(RuntimeError):
    """A table was to be opened in a process that nothing confines."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a connection of DuckDB may use.

    Attributes:
        temp_folder: for what does not fit into memory.
        memory: a size with its unit, such as 2GB.
    """

    temp_folder: Path
    memory: str


def this_process_is_confined() -> None:
    """From here on this process may open tables."""
    global _is_confined
    _is_confined = True


def refuse_unless_confined() -> None:
    """Call before anything opens a table.

    Raises:
        Unconfined: nothing confines this process.
    """
    if not _is_confined:
        raise Unconfined("Tables are opened in a confined process alone (see releases/worker/runner.py).")


def connect(
    *, paths: Sequence[str | Path], limits: Limits | None = None, options: Mapping[str, str] | None = None
) -> DuckDBPyConnection:
    """A connection of DuckDB that reads and writes these files, and nothing else on this machine or beyond it. It loads
    no extension either. Nothing that is executed later can undo it.

    Args:
        limits: None for those of DuckDB.
        options: further settings of DuckDB; they cannot be changed later.

    Raises:
        Unconfined: nothing confines this process.
    """
    refuse_unless_confined()
    import duckdb

    connection = duckdb.connect()
    _confine(connection, paths, limits, options or {})
    return connection


def _confine(
    connection: DuckDBPyConnection,
    paths: Sequence[str | Path],
    limits: Limits | None,
    options: Mapping[str, str],
) -> None:
    if limits is not None:
        connection.execute(f"SET temp_directory = {_literal(limits.temp_folder)}")
        connection.execute(f"SET memory_limit = {_literal(limits.memory)}")
    connection.execute(f"SET allowed_paths = [{', '.join(_literal(path) for path in paths)}]")
    for setting, value in {**options, **_CONFINED}.items():
        connection.execute(f"SET {setting} = {value}")


def _literal(text: object) -> str:
    return "'" + str(text).replace("'", "''") + "'"
