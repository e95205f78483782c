"""The kinds of places that are known. A place of no kind that is known is refused."""

from __future__ import annotations

from releases.engine.errors import InvalidInput
from releases.engine.tables.places import FOLDER, STORAGE, PlaceKind
from releases.engine.tables.servers.mysql import MARIADB, MYSQL
from releases.engine.tables.servers.postgresql import POSTGRESQL
from releases.engine.tables.servers.spark import SPARK
from releases.engine.tables.servers.warehouses import WAREHOUSES

#: By how an address begins.
KINDS: dict[str, PlaceKind] = {each.scheme: each for each in (FOLDER, POSTGRESQL, MARIADB, MYSQL, STORAGE, SPARK)}
#: Kinds of databases that have a dialect and no session.
WITHOUT_SESSION = frozenset(WAREHOUSES)


def kind_of(location: str) -> PlaceKind:
    """The kind of an address, or of what `open_table` takes: a path is that of a file in a folder.

    Raises:
        InvalidInput: it is of no kind that is known.
    """
    scheme, separator, _ = location.partition("://")
    if not separator:
        return FOLDER
    if scheme not in KINDS:
        raise InvalidInput("table", scheme, f"must be a file, {' or '.join(each.form for each in KINDS.values())}")
    return KINDS[scheme]
