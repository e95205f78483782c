"""Where tables are: the kinds of places, and what has to be known of each before it is read.

Whoever guards a table asks here. A place of no kind that is known is refused, and a new kind has to say everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from releases.engine.errors import InvalidInput


class Snapshot(Enum):
    """How it is known that all counts of a run are of one moment."""

    TRANSACTION = "the server reads all of them in one transaction"
    FILE = "the file looks the same before and after"
    OBJECT = "the storage names the same version before and after"


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of places.

    Attributes:
        title: of one of them, in a sentence.
        form: of its addresses.
        has_network: it is reached over the network; a process that reads another can make no socket.
        needs_secret: nobody is let in without one; else only where its address names who signs in.
        counts_itself: it works out the counts, so it is asked first for some that are known.
        snapshot: of a run.
    """

    title: str
    form: str
    has_network: bool
    needs_secret: bool
    counts_itself: bool
    snapshot: Snapshot


FOLDER = Kind(
    title="folder",
    form="file:///FOLDER",
    has_network=False,
    needs_secret=False,
    counts_itself=False,
    snapshot=Snapshot.FILE,
)
DATABASE = Kind(
    title="database",
    form="postgresql://ROLE@HOST/DATABASE",
    has_network=True,
    needs_secret=True,
    counts_itself=True,
    snapshot=Snapshot.TRANSACTION,
)
STORAGE = Kind(
    title="storage",
    form="s3://KEY@BUCKET/PREFIX?endpoint=https://HOST",
    has_network=True,
    needs_secret=False,
    counts_itself=False,
    snapshot=Snapshot.OBJECT,
)
#: What storage takes for its region where none is named.
USUAL_REGION = "us-east-1"
#: By how an address begins.
KINDS = {"file": FOLDER, "postgresql": DATABASE, "s3": STORAGE}


def kind_of(location: str) -> Kind:
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
