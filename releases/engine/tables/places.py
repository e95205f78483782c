"""Where tables are: what has to be known of each kind of places before one is read.

A folder and storage hold files that this machine counts. Databases count themselves; what a kind of them has to say
beside this is in ``databases.py``, and all kinds are listed in ``registry.py``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum


class Snapshot(Enum):
    """How it is known that all counts of a run are of one moment."""

    TRANSACTION = "the server reads all of them in one transaction"
    FILE = "the file looks the same before and after"
    OBJECT = "the storage names the same version before and after"
    SET_ASIDE = "the server reads the columns once, and all counts are of what it has kept of them"


class Secret(Enum):
    """Whether somebody signs in. The secret is where the connection's password is; see ``storage/addresses.py``."""

    NONE = "nobody signs in"
    OF_WHO_IS_NAMED = "who is named in the address, if anybody is"
    ALWAYS = "nobody is let in without a secret"


@dataclass(frozen=True, kw_only=True, slots=True)
class PlaceKind:
    """A kind of places.

    Attributes:
        scheme: how its addresses begin.
        title: of one of them, in a sentence.
        form: of its addresses.
        options: how the names of the parameters begin that its addresses may have; their values are no secrets.
        has_network: it is reached over the network; a process that reads another can make no socket.
        secret: whether one is needed.
        snapshot: of a run.

    Raises:
        TypeError: a part is missing.
    """

    scheme: str
    title: str
    form: str
    options: tuple[str, ...]
    has_network: bool
    secret: Secret
    snapshot: Snapshot

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) in (None, ""):
                raise TypeError(f"the kind of places {self.scheme!r} does not say its {each.name}")


FOLDER = PlaceKind(
    scheme="file",
    title="folder",
    form="file:///FOLDER",
    options=(),
    has_network=False,
    secret=Secret.NONE,
    snapshot=Snapshot.FILE,
)
STORAGE = PlaceKind(
    scheme="s3",
    title="storage",
    form="s3://KEY@BUCKET/PREFIX?endpoint=https://HOST",
    options=("endpoint=", "region="),
    has_network=True,
    secret=Secret.OF_WHO_IS_NAMED,
    snapshot=Snapshot.OBJECT,
)
#: What storage takes for its region where none is named.
USUAL_REGION = "us-east-1"
