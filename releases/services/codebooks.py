"""Around the declared columns: what is typed and not declared yet, codebooks under a name, and descriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction
from django.utils import timezone

from releases.engine.domain.schema import Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import AuditAction, Codebook, Dataset, KeptColumns
from releases.schema.descriptions import Notes, apart, merged, noted, read_note, read_paragraph

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LONGEST_NAME = 100


def keep_columns(
    *, dataset: Dataset, by: User, typed: dict[str, Any] | None = None, codebook: str | None = None
) -> KeptColumns:
    """Keep what somebody has typed of the columns, or pasted as a codebook, as it is; the other of both stays.

    Nothing is declared by it, and nobody else's is touched.
    """
    kept, _ = KeptColumns.objects.update_or_create(
        dataset=dataset,
        person=by,
        defaults={
            **({} if typed is None else {"typed": typed}),
            **({} if codebook is None else {"codebook": codebook}),
            "declared": dataset.declared,
            "kept_at": timezone.now(),
        },
    )
    return kept


def forget_columns(*, dataset: Dataset, by: User) -> None:
    """Discard what somebody had typed and not declared."""
    KeptColumns.objects.filter(dataset=dataset, person=by).delete()


@transaction.atomic
def describe_dataset(*, dataset: Dataset, notes: Notes, description: str | None = None, by: User | None = None) -> None:
    """Say what a table is, and what its columns hold and are measured in. What was released keeps what it said.

    Args:
        notes: of some columns; an empty text takes back what was said.
        description: of the table; None leaves it as it is.

    Raises:
        InvalidInput: a text breaks its rule, or is about a column that the table does not have.
    """
    for position, name in enumerate(notes):
        if name not in dataset.columns and name not in dataset.made_columns:
            raise InvalidInput(f"columns[{position}].name", name, "is not a column of the table")
    read = {name: {field: read_note(field, text) for field, text in each.items()} for name, each in notes.items()}
    # As it is now: what somebody else has said of another column since this one was read stays.
    locked = Dataset.objects.select_for_update().get(pk=dataset.pk)
    said = merged(locked.column_notes, read)
    about = locked.description if description is None else read_paragraph(description)
    dataset.column_notes, dataset.description = said, about
    if (said, about) == (locked.column_notes, locked.description):
        return
    dataset.save(update_fields=["column_notes", "description"])
    audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail="what the table and its columns are, in words")


def save_codebook(*, name: str, universe: Universe, notes: Notes, by: User, group: Group | None = None) -> Codebook:
    """Save columns under a name, to be filled in for other tables.

    Args:
        group: whose people may use it too; nobody else where it is None.

    Raises:
        InvalidInput: the name breaks its rule, or is that of another codebook of the same person.
    """
    called = " ".join(name.split())
    if not called:
        raise InvalidInput("name of the codebook", called, "must say what the codebook is of")
    if len(called) > LONGEST_NAME:
        rest = f"must be at most {LONGEST_NAME} characters long"
        raise InvalidInput("name of the codebook", f"{len(called):,} characters", rest)
    if not called.isprintable():
        raise InvalidInput("name of the codebook", called, "must be printable text")
    columns = [noted(each.to_json(), notes) for each in universe.attributes]
    try:
        with transaction.atomic():
            saved = Codebook.objects.create(name=called, owner=by, group=group, columns=columns)
            shared = f", shared with {group.name}" if group is not None else ""
            audit_log.record(AuditAction.SAVE, actor=by, on=saved, detail=f"{len(columns):,} columns{shared}")
    except IntegrityError:
        rest = "is the name of another codebook of yours; choose another name, or delete that one first"
        raise InvalidInput("name of the codebook", called, rest) from None
    return saved


@transaction.atomic
def discard_codebook(*, codebook: Codebook, by: User) -> None:
    """Delete a saved codebook. What was declared with it stays."""
    audit_log.record(AuditAction.DISCARD, actor=by, on=codebook)
    codebook.delete()


def columns_of_codebook(codebook: Codebook) -> tuple[Universe, Notes]:
    """The columns of a saved codebook, and what it says of them."""
    read = apart({"version": 1, "columns": codebook.columns})
    return Schema.from_json(read.schema).universe, read.notes
