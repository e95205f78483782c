"""What a kind of databases has to say before a table of one may be counted there: each has one entry.

An entry names no row and asks nothing by itself. Its functions are called in a confined process alone; they import the
driver, which need not be installed where no such database is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any
from urllib.parse import SplitResult

from releases.engine.tables.dialects import Dialect
from releases.engine.tables.places import PlaceKind
from releases.engine.tables.sources import EngineSession, Source

#: That a database has for its answer to one question about its catalogue.
SECONDS = 10
#: Names that the list of tables can hold; of more, those that come first.
MOST_TABLES = 2_000
#: Of `rights`, where a database cannot be asked: an administrator has to say that the role reads alone.
NOT_SAID = "may do more than read, for all that the server can say"


@dataclass(frozen=True, kw_only=True, slots=True)
class CatalogueColumn:
    """What a table's declaration says of a column. None of it comes from rows.

    Attributes:
        type: as the database writes it.
        comment: in its owner's words; empty of most.
        values: all that it can hold, where its type lists them, as the counts read them.
    """

    type: str
    comment: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Database(PlaceKind):
    """A kind of databases.

    Attributes:
        port: where an address names none.
        is_of_form: whether an address has all parts that `form` names.
        guard: parameters that the address of a registered connection gets, by which no server can read the password. A
            name can be registered for another server than before. Without them, and where there is a secret, a
            connection is only used if the settings name it.
        driver: the package that has to be installed.
        errors: of the driver, those that a server's refusals and failures are raised as.
        dialect: in which statements are written.
        session: opens a session by a URL with the password: it cannot write, and all that it counts is of one moment.
        table: the same, and a table in it by its name, ``schema.table``. The self test is the caller's.
        asked: a connection for questions about the catalogue, each of which takes at most `SECONDS`. The functions
            below ask it.
        names: of tables that the role may read, in the order of the alphabet, at most `MOST_TABLES`; none that holds
            what `#` and `.` divide in a location.
        columns: of one table that the role may read, by name.
        rights: what the role may do beside reading, in words; empty of one that reads alone. What cannot be found out
            is such a right.
        is_utf8: every text can be read. Of other encodings one row could end a run.
        version: of the server, as it writes it, and never empty: the self test is run once for each.
    """

    port: int
    is_of_form: Callable[[SplitResult], bool]
    guard: tuple[str, ...]
    driver: str
    errors: Callable[[], tuple[type[Exception], ...]]
    dialect: Dialect
    session: Callable[[str], EngineSession]
    table: Callable[[str, str], Source]
    asked: Callable[[str], AbstractContextManager[Any]]
    names: Callable[[Any], list[str]]
    columns: Callable[[Any, str], Mapping[str, CatalogueColumn]]
    rights: Callable[[Any], list[str]]
    is_utf8: Callable[[Any], bool]
    version: Callable[[Any], str]

    @property
    def is_installed(self) -> bool:
        return find_spec(self.driver) is not None


def names_role_and_database(parts: SplitResult) -> bool:
    """Whether an address is of the form ``SCHEME://ROLE@HOST/DATABASE``."""
    return bool(parts.hostname and parts.username and parts.path.strip("/"))
