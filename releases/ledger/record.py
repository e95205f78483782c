"""What the database knows of the record outside it (`chain.py`): lines added, counted on both sides, and compared.

    note   add a line; once the transaction is committed, the database notes that it knows the line, and then
           `installation.json` that the database does
    look   what is wrong with the marks as a whole; until a reviewer has seen to it, nothing of the installation goes on

A line is written before the commit of what it says, so it may say more than happened, never less. A database that
knows fewer lines than it was known to know is an older one: a backup was restored, however that was done. A record
without the last line that the database knows is an older one, or was cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from releases.ledger import chain
from releases.models import Installation, LedgerEntry

#: Said to people where the database has nothing to do with the marks.
OF_ANOTHER = "the marks folder belongs to another database; set MARKS_DIR to a folder of this database's own"


def note(what: Mapping[str, Any]) -> None:
    """Add a line to the record, in the transaction of what it says.

    Raises:
        Unreadable: the record is lost or broken.
    """
    own = Installation.own()
    if chain.whose() is None and not _is_begun(own):
        chain.belong_to(own.key)
    line = chain.append(what, known=own.number)
    transaction.on_commit(lambda: _know(line))


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """What was found when database and marks were compared.

    Attributes:
        fault: in words; empty where all is well.
        is_another: the marks are those of another database.
        is_lost: the marks, or a part of the record, are gone: what was done since is not known.
    """

    own: Installation
    fault: str = ""
    is_another: bool = False
    is_lost: bool = False

    @property
    def is_restored(self) -> bool:
        """Whether the database is a restored backup, and the record says what was done since."""
        return bool(self.fault) and not self.is_another and not self.is_lost


def look() -> Found:
    """Compare the database with the marks as a whole. What is said to be known is read before what knows it."""
    try:
        whose, known = chain.whose(), chain.read().known
    except chain.Unreadable as error:
        return Found(own=Installation.own(), fault=f"the marks cannot be read: {error}", is_lost=True)
    own = Installation.own()
    if whose is None:
        fault = "the folder of the marks, or a part of it, is gone" if _is_begun(own) else ""
        return Found(own=own, fault=fault, is_lost=bool(fault))
    if whose.key != own.key:
        return Found(own=own, fault=OF_ANOTHER, is_another=True)
    found = chain.read()
    if not found.has(own.number, own.head):
        fault = (
            f"the record outside the database is older than the database, or was cut: it has {found.number:,} lines, "
            f"and the database knows {own.number:,}"
        )
        return Found(own=own, fault=fault, is_lost=True)
    if own.restored_at is not None and found.number <= own.number:
        fault = (
            "a backup was restored, and the record outside the database is as old as the backup: it does not say what "
            "was done since"
        )
        return Found(own=own, fault=fault, is_lost=True)
    if own.restored_at is not None or own.number < max(known, whose.number):
        fault = (
            f"a backup was restored: the database knows {own.number:,} of {found.number:,} lines of the record outside "
            f"it"
        )
        return Found(own=own, fault=fault)
    return Found(own=own)


def know_all(own: Installation) -> None:
    """Let a locked installation go on from the record as it is, as a reviewer decided. Inside a transaction."""
    found = chain.read(whole=True)
    own.number, own.head, own.restored_at, own.has_ended_sign_ins = found.number, found.head, None, False
    own.save(update_fields=["number", "head", "restored_at", "has_ended_sign_ins"])
    number = found.number
    transaction.on_commit(lambda: chain.raise_to(number))


def _know(line: chain.RecordLine) -> None:
    # Of a database that is behind, the number says since when, until a reviewer has seen to it.
    if look().fault:
        return
    Installation.objects.filter(number__lt=line.number).update(number=line.number, head=line.hash)
    chain.raise_to(line.number)


def _is_begun(own: Installation) -> bool:
    """Whether there must be marks of this database."""
    return own.number > 0 or LedgerEntry.objects.exists()
