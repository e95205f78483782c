"""Datasets: taking tables in and declaring what they are."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from releases.engine.accounting.filters import Policy
from releases.engine.domain.attribute import DROP
from releases.engine.domain.impossible import Combination, check_declared, combinations_to_json
from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.schema import OWN_ROWS, Schema
from releases.engine.domain.universe import Universe
from releases.engine.errors import InvalidInput
from releases.ledger import audit_log
from releases.models import (
    AuditAction,
    AuditEvent,
    Budget,
    Dataset,
    EntryKind,
    Fingerprint,
    LedgerEntry,
    Release,
    ReleaseState,
    RequestState,
)
from releases.models.role_rules import check_may_upload
from releases.notifications import messages
from releases.publication.spreadsheets import begins_a_formula
from releases.schema import file_codebook
from releases.services import reading
from releases.services.lost_budgets import refuse_while_lost
from releases.storage.private_files import private_folder

if TYPE_CHECKING:
    from releases.engine.tables.facts import FileFacts
    from releases.engine.tables.files.ingest import Ingested
    from releases.engine.tables.files.limits import TableLimits
    from releases.engine.tables.files.progress import Progress

#: What a release's worker, or a session, reads the rows for, with a plan that was made already.
#: Closing reads none, but a session that no worker could close is open again.
NEEDING_ROWS = (
    ReleaseState.REVIEW,
    ReleaseState.QUEUED,
    ReleaseState.RUNNING,
    ReleaseState.OPEN,
    ReleaseState.CLOSING,
)


class Kept(Exception):
    """What was to be deleted has to stay. The text says why."""


LONGEST_TITLE = 200
#: Receipts name the universe's size in full, and numbers of more than 4,300 digits are refused by Python and by most
#: readers of JSON.
MAX_CELLS_SAID = 10**4000


def ingest_dataset(
    *, owner: User, title: str, source: Path, group: Group | None = None, facts: FileFacts | None = None
) -> Dataset:
    """Take a table in, here and now. Pages and the API leave it to a worker (see ``services/uploads.py``).

    Args:
        source: the file on disc; it is read, checked and left where it is.
        facts: how the file is written; None for what is proposed, with nothing asked.

    Raises:
        NotAllowed: the owner is no curator. Nothing is kept.
        UnreadableTable: the file is not a table that can be read. Nothing is kept.
    """
    # A caller may have read the owner, with the roles of then, long ago.
    check_may_upload(User.objects.get(pk=owner.pk))
    title = read_title(title, what="the table is")
    number = uuid.uuid4()
    if facts is not None:
        facts = reading.upload_start(source, table=upload_limits(), facts=facts).facts
    ingested = read_table(source, table_file(number), facts=facts)
    with transaction.atomic():
        return keep_dataset(number=number, owner=owner, title=title, group=group, ingested=ingested)


def read_table(
    source: Path, destination: Path, *, facts: FileFacts | None = None, progress: Progress | None = None
) -> Ingested:
    """Check a file and write it as the counts will read it.

    Raises:
        UnreadableTable: the file is not a table that can be read. Nothing is kept.
        OverLimit: reading it takes more time or memory than it may. Nothing is kept.
    """
    private_folder(destination.parent)
    try:
        return reading.upload(source, destination, table=upload_limits(), facts=facts, progress=progress)
    finally:
        # A process that is ended leaves what it has written.
        destination.with_suffix(".partial").unlink(missing_ok=True)


def upload_limits() -> TableLimits:
    """What a table that is sent to this site may come to."""
    from releases.engine.tables.files.limits import TableLimits

    return TableLimits(rows=settings.MAX_UPLOAD_ROWS, unfolded=settings.MAX_UPLOAD_UNFOLDED_BYTES)


def keep_dataset(
    *, number: uuid.UUID, owner: User, title: str, ingested: Ingested, group: Group | None = None
) -> Dataset:
    """Make a dataset of a table that was read. Called inside a transaction.

    It has no budget, also where the same file is here already: a budget that only the exact rows get would tell whoever
    guesses them that they are right. They are recognised by the reviewer who grants a budget.
    """
    dataset = Dataset.objects.create(
        id=number,
        title=title,
        owner=owner,
        group=group,
        digest=ingested.digest,
        file_sha256=ingested.file_sha256,
        columns=list(ingested.columns),
        file_facts=ingested.facts.to_json(),
        file_codebook=ingested.codebook,
        location=table_file(number).name,
    )
    audit_log.record(AuditAction.UPLOAD, actor=owner, on=dataset)
    return dataset


def table_file(number: uuid.UUID) -> Path:
    """Where the table of a dataset with this identifier is stored."""
    return Path(settings.TABLES_DIR) / f"{number}.parquet"


def read_title(title: str, *, what: str) -> str:
    """What something is called, without the spaces around it.

    Raises:
        InvalidInput: it is empty, longer than a list has room for, or holds what cannot be seen.
    """
    read = title.strip()
    if not read:
        raise InvalidInput("title", title, f"must say what {what}")
    if len(read) > LONGEST_TITLE:
        raise InvalidInput("title", f"{len(read):,} characters", f"must be at most {LONGEST_TITLE} characters long")
    if not read.isprintable():
        raise InvalidInput("title", title, "must be one line of printable text")
    return read


def table_path(dataset: Dataset) -> str:
    """Where the file of a table that was uploaded is stored."""
    return str(Path(settings.TABLES_DIR) / dataset.location)


@transaction.atomic
def declare_universe(
    *,
    dataset: Dataset,
    columns: list[dict[str, Any]],
    impossible: list[dict[str, Any]] | None = None,
    by: User | None = None,
) -> Universe:
    """Declare (or declare again) what the columns can hold. Releases keep the declaration they were planned with.

    Args:
        impossible: combinations of bins that cannot occur; None for those that are declared already.

    Raises:
        InvalidInput: a column is not in the table, a rule of the schema format is broken, or the declared protection
            does not go with it.
    """
    stays = dataset.impossible if impossible is None else impossible
    try:
        universe = Schema.from_json({"version": 1, "columns": columns, "impossible": stays}).universe
    except InvalidInput as error:
        if impossible is not None or not error.field.startswith("impossible"):
            raise
        rule = f"{error.rule}. Remove the impossible combination that says so first"
        raise InvalidInput(error.field, error.value, rule) from None
    check_declared(universe.impossible, universe.attributes)
    universe.check_columns(dataset.columns)
    file_codebook.check_can_all_be_met(dataset, universe)
    if universe.is_of_states:
        raise InvalidInput("columns", "state_of", "is no declaration; a workload asks for the states of columns")
    for position, name in enumerate(universe.names):
        # Names head the columns of every CSV file that leaves the site.
        if begins_a_formula(name):
            raise InvalidInput(
                f"columns[{position}].name", name, "must not begin with = + - or @: a spreadsheet would run it"
            )
    if universe.size >= MAX_CELLS_SAID:
        raise InvalidInput(
            "columns", len(columns), "span more cells than can be written down; declare fewer columns or wider bins"
        )
    (budget,) = locked_with_budget(dataset)
    if budget is not None:
        Schema(universe=universe, unit=budget.privacy_unit, neighbours=budget.relation).check_unit()
    declared = [attribute.to_json() for attribute in universe.attributes]
    combinations = combinations_to_json(universe.impossible)
    if dataset.declared != declared:
        audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=f"the columns {', '.join(universe.names)}")
    if dataset.impossible != combinations:
        said = "; ".join(each.in_words() for each in universe.impossible) or "none"
        audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=f"the impossible combinations: {said}")
    dataset.declared, dataset.impossible = declared, combinations
    dataset.save(update_fields=["declared", "impossible"])
    # After the dataset's row is held: who takes the digest holds it too.
    Fingerprint.objects.filter(dataset=dataset).update(digest=None, digest_attempts=0)
    dataset.__dict__.pop("universe", None)
    return universe


def declare_schema_columns(
    *, dataset: Dataset, schema: Schema, says_impossible: bool, by: User | None = None
) -> Universe:
    """Declare the columns of a schema and, where it says anything of them, its impossible combinations.

    Raises:
        InvalidInput: as of `declare_universe`; or the schema says what becomes of rows that have one, or which rows
            each table counts, which is not declared: each mechanism has its rule.
    """
    if schema.universe.drops_impossible:
        rule = "is no declaration: plain questions count such rows, and fits leave them out"
        raise InvalidInput("impossible_rows", DROP, rule)
    if schema.universe.own_rows:
        raise InvalidInput(
            "rows_counted", OWN_ROWS, "is no declaration: each release chooses which rows its tables count"
        )
    said = schema.to_json()
    impossible = said.get("impossible", []) if says_impossible else None
    return declare_universe(dataset=dataset, columns=said["columns"], impossible=impossible, by=by)


@transaction.atomic
def add_impossible(*, dataset: Dataset, combination: Combination, by: User | None = None) -> None:
    """Declare one more combination of bins that cannot occur.

    Raises:
        InvalidInput: it is declared already, or there are too many, or together they leave nothing possible.
    """
    locked = Dataset.objects.select_for_update().get(pk=dataset.pk)
    _declare_impossible(dataset, locked, [*locked.impossible, combination.to_json()], by)


@transaction.atomic
def remove_impossible(*, dataset: Dataset, removed: str, by: User | None = None) -> None:
    """Declare a combination, given as JSON, no longer. One that is gone already stays so."""
    locked = Dataset.objects.select_for_update().get(pk=dataset.pk)
    left = [each for each in locked.impossible if json.dumps(each, sort_keys=True) != removed]
    _declare_impossible(dataset, locked, left, by)


def _declare_impossible(dataset: Dataset, locked: Dataset, impossible: list[dict[str, Any]], by: User | None) -> None:
    declare_universe(dataset=locked, columns=locked.declared or [], impossible=impossible, by=by)
    dataset.declared, dataset.impossible = locked.declared, locked.impossible
    dataset.__dict__.pop("universe", None)


@transaction.atomic
def declare_protection(
    *, dataset: Dataset, unit: PrivacyUnit, neighbours: NeighbouringRelation, by: User | None = None
) -> Budget:
    """Declare whom to protect, and against which neighbours: what epsilon will mean for this population.

    Fixed once a budget has been asked for: amounts spent under different meanings do not add up. Fixed as well while a
    release waits or runs, or a session is open: its plan has a meaning that was reviewed or charged.

    Raises:
        InvalidInput: the id column is not in the table, or the meaning is fixed and differs.
    """
    (budget,) = locked_with_budget(dataset)
    if unit.id_column is not None:
        _check_present(dataset, unit.id_column, field="unit.id")
    if dataset.universe is not None:
        Schema(universe=dataset.universe, unit=unit, neighbours=neighbours).check_unit()
    refuse_public_total(dataset, neighbours)
    said = f"protects {unit.in_words()}, {neighbours.value.replace('_', '/')} neighbours"
    if budget is None:
        audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=said)
        budget = Budget.objects.create(
            name=dataset.title,
            owner=dataset.owner,
            unit=unit.to_json(),
            neighbours=neighbours.value,
            policy=Policy.ZCDP.value,
        )
        dataset.budget = budget
        dataset.save(update_fields=["budget"])
        return budget
    same = budget.unit == unit.to_json() and budget.neighbours == neighbours.value
    if same:
        return budget
    if budget.is_settled:
        raise InvalidInput(
            "protection",
            unit.in_words(),
            f"cannot be changed once a budget was asked for; this population protects {budget.privacy_unit.in_words()} "
            f"with {budget.get_neighbours_display()} neighbours",
        )
    if under_way := release_under_way(dataset, within=budget.datasets.all()):
        raise InvalidInput("protection", unit.in_words(), f"cannot be declared now. {under_way}")
    for each in budget.datasets.exclude(pk=dataset.pk):
        refuse_public_total(each, neighbours)
        if unit.id_column is not None and unit.id_column not in each.columns:
            raise InvalidInput("unit.id", unit.id_column, "is not a column of every table of this population")
        if each.universe is not None:
            Schema(universe=each.universe, unit=unit, neighbours=neighbours).check_unit()
    audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=said)
    budget.unit, budget.neighbours = unit.to_json(), neighbours.value
    budget.save(update_fields=["unit", "neighbours"])
    return budget


def refuse_public_total(dataset: Dataset, neighbours: NeighbouringRelation) -> None:
    """A table in a database changes: its numbers of rows at two times would tell who came or went.

    Raises:
        InvalidInput: the number of rows would be public.
    """
    if dataset.is_in_database and neighbours is not NeighbouringRelation.ADD_REMOVE:
        raise InvalidInput(
            "neighbours",
            neighbours.value,
            f"must be {NeighbouringRelation.ADD_REMOVE.value} for {dataset.title}, a table in a database: its rows "
            f"come and go, so their number is private",
        )


@transaction.atomic
def join_population(*, dataset: Dataset, other: Dataset, by: User | None = None) -> Budget:
    """Register that a table is about the people of another: one population, one protection, one budget.

    Two tables that share people must spend from one budget, for what is published of the one adds to what is known
    of the other.

    Raises:
        InvalidInput: a budget was already asked for on this table, a release of it waits or runs, the other has none,
            or its protection does not go with this table.
    """
    left, joined = locked_with_budget(dataset, other)
    if joined is None:
        raise InvalidInput("population", other.title, "has not said whom it protects yet")
    if left == joined:
        return joined
    if left is not None and left.is_settled:
        raise InvalidInput("population", other.title, f"cannot be joined: a budget was asked for on {left.name} itself")
    refuse_public_total(dataset, joined.relation)
    refuse_while_lost(dataset.owner)
    if under_way := release_under_way(dataset, within=Dataset.objects.filter(pk=dataset.pk)):
        raise InvalidInput("population", other.title, f"cannot be joined now. {under_way}")
    if joined.privacy_unit.id_column is not None:
        _check_present(dataset, joined.privacy_unit.id_column, field="population")
    if dataset.universe is not None:
        Schema(universe=dataset.universe, unit=joined.privacy_unit, neighbours=joined.relation).check_unit()
    dataset.budget = joined
    dataset.save(update_fields=["budget"])
    if left is not None and not left.datasets.exists():
        left.requests.update(budget=joined)
        left.delete()
    audit_log.record(AuditAction.DECLARE, actor=by, on=dataset, detail=f"the people of {joined.name}")
    return joined


def locked_with_budget(*datasets: Dataset) -> list[Budget | None]:
    """The budgets that some datasets spend from as they stand now, locked before the datasets, as a submission does.

    Raises:
        InvalidInput: one was put into another population just now.
    """
    numbers = [each.pk for each in datasets]
    before = dict(Dataset.objects.filter(pk__in=numbers).values_list("pk", "budget"))
    held = [each for each in before.values() if each is not None]
    budgets = {each.pk: each for each in Budget.objects.select_for_update().filter(pk__in=held).order_by("pk")}
    locked = Dataset.objects.select_for_update().filter(pk__in=numbers).order_by("pk")
    if dict(locked.values_list("pk", "budget")) != before:
        raise InvalidInput("population", datasets[0].title, "was put together differently just now; look at it again")
    for each in datasets:
        number = before[each.pk]
        each.budget = None if number is None else budgets[number]
    return [each.budget for each in datasets]


def why_protection_is_fixed(dataset: Dataset) -> str:
    """Why a dataset's protection and population cannot be changed; empty where they can."""
    budget = dataset.budget
    if budget is None:
        return ""
    if budget.is_settled:
        return (
            "A budget was asked for under this protection, so it can no longer be changed: amounts spent under "
            "different meanings do not add up."
        )
    return release_under_way(dataset, within=budget.datasets.all())


def release_under_way(dataset: Dataset, *, within: QuerySet[Dataset]) -> str:
    """Which release of some tables of a population was planned for its protection and counts on it; empty for none.

    One of another table than the given one is not named: it can be somebody else's.
    """
    planned = Release.objects.filter(dataset__in=within, state__in=NEEDING_ROWS).order_by("created_at")
    own = planned.filter(dataset=dataset).only("title", "state").first()
    if own is not None:
        named, state = own.title, own.status
    elif (another := planned.only("state").first()) is not None:
        named, state = "A release of another table of this population", another.status
    else:
        return ""
    return (
        f"{named} is {state.label} and was planned under the present protection. To change that, take the release "
        f"back first, and submit it again afterwards."
    )


@transaction.atomic
def share_dataset(*, dataset: Dataset, group: Group | None, by: User) -> None:
    """Let a group work on the dataset, or nobody but its owner.

    Raises:
        InvalidInput: somebody else's dataset, or a group that its owner does not belong to.
    """
    chosen = group.name if group else "nobody else"
    if by.pk != dataset.owner_id:
        raise InvalidInput("group", chosen, f"can be chosen by {dataset.owner} alone, whose dataset it is")
    if group == dataset.group:
        return
    if group is not None and not by.groups.filter(pk=group.pk).exists():
        raise InvalidInput("group", chosen, "must be one that you belong to")
    # Whoever it was shared with has it no more.
    action = AuditAction.UNSHARE if dataset.group is not None else AuditAction.SHARE
    dataset.group = group
    dataset.save(update_fields=["group"])
    said = f"with {group.name if group else 'nobody'}"
    audit_log.record(action, actor=by, on=dataset, detail=said, facts=group_facts(group))


def group_facts(group: Group | None) -> dict[str, Any]:
    """With which group something is shared, as it is remembered."""
    return {"group": group.pk if group else None, "group_name": group.name if group else ""}


@transaction.atomic
def rename_dataset(*, dataset: Dataset, title: str, by: User | None = None) -> None:
    """Call a dataset something else. A population of this table alone that was named after it goes along.

    Raises:
        InvalidInput: the title breaks its rule.
    """
    title, before = read_title(title, what="the table is"), dataset.title
    if title == before:
        return
    audit_log.record(AuditAction.RENAME, actor=by, on=dataset, detail=f"it is called {title} now")
    dataset.title = title
    dataset.save(update_fields=["title"])
    budget = dataset.budget
    if budget is not None and budget.name == before and not budget.datasets.exclude(pk=dataset.pk).exists():
        budget.name = title
        budget.save(update_fields=["name"])


def why_not_discarded(dataset: Dataset) -> str:
    """Why a dataset has to stay; empty where it can be discarded."""
    kept = dataset.releases.exclude(state=ReleaseState.DRAFT)
    if LedgerEntry.objects.filter(release__dataset=dataset).exists():
        return (
            "Privacy was charged for it. The ledger keeps every charge for ever, with what it was for: what was "
            "learned of these people cannot be unlearned, so the site must know the table again if it comes back."
        )
    if kept.exists() or dataset.releases.filter(reviews__isnull=False).exists():
        return "A reviewer was asked about a release of it, and what was asked and said stays readable."
    budget = dataset.budget
    # Also where a copy is left: whoever guesses rows would otherwise learn that one is.
    if budget is not None and budget.entries.filter(kind=EntryKind.CHARGE).exists():
        return "The budget that it spends from was charged, so the site must know this table again if it comes back."
    return ""


def discard_dataset(*, dataset: Dataset, by: User | None = None) -> None:
    """Forget a table that nothing was charged for, with its drafts and its file.

    Its population's budget goes along where nothing but this table ever had to do with it. The ledger, the audit log
    and what was asked of reviewers stay.

    Raises:
        Kept: it has to stay.
    """
    with transaction.atomic():
        # Locked in the order of a submission, so that none slips in between.
        list(dataset.releases.select_for_update().values_list("pk"))
        if dataset.budget_id is not None:
            Budget.objects.select_for_update().get(pk=dataset.budget_id)
        Dataset.objects.select_for_update().get(pk=dataset.pk)
        if reason := why_not_discarded(dataset):
            raise Kept(reason)
        audit_log.record(AuditAction.DISCARD_TABLE, actor=by, on=dataset)
        budget = dataset.budget
        messages.upload_gone(dataset.pk)
        dataset.releases.all().delete()
        dataset.collections.all().delete()
        dataset.delete()
        if budget is not None and not budget.datasets.exists():
            _leave(budget)
    _remove_file(dataset)


def _leave(budget: Budget) -> None:
    """What becomes of a population that has no table any more."""
    waiting = budget.requests.filter(state=RequestState.WAITING)
    for asked in waiting:
        messages.request_taken_back(asked)
    waiting.update(state=RequestState.TAKEN_BACK)
    if not budget.entries.exists() and not budget.requests.exists():
        budget.delete()


def why_rows_stay(dataset: Dataset) -> str:
    """Why the rows are needed still; empty where they can be deleted."""
    if dataset.rows_deleted_at is not None:
        return "The rows were deleted already."
    if dataset.is_in_database:
        return "The rows are in a database of their own, not on this server."
    needing = dataset.releases.filter(state__in=NEEDING_ROWS).order_by("created_at")
    if (release := needing.first()) is None:
        return ""
    if release.status is ReleaseState.OPEN:
        return f"The session {release.title} is open and needs them. Close it first."
    if release.status is ReleaseState.CLOSING:
        return f"The session {release.title} is being closed. If that failed it would need them: wait until it is done."
    return f"The release {release.title} is {release.status.label} and needs them. Let it end, or cancel it, first."


def delete_rows(*, dataset: Dataset, by: User | None = None) -> None:
    """Delete a table's file for good. The dataset stays without it: its releases, its charges, and its fingerprint,
    by which a reviewer recognises the same rows if they come back.

    Raises:
        Kept: something needs the rows still.
    """
    with transaction.atomic():
        # A submission locks the dataset as well, once its release has left the drafts.
        locked = Dataset.objects.select_for_update().get(pk=dataset.pk)
        if reason := why_rows_stay(locked):
            raise Kept(reason)
        audit_log.record(AuditAction.DELETE_ROWS, actor=by, on=dataset)
        dataset.rows_deleted_at = timezone.now()
        dataset.save(update_fields=["rows_deleted_at"])
    _remove_file(dataset)


def remove_deleted_tables() -> None:
    """Delete the files of tables that were deleted: a process that ended at the wrong moment has left one, or a backup
    of the files was put back."""
    folder = Path(settings.TABLES_DIR)
    stored = {path.stem: path for path in folder.glob("*.parquet")} if folder.is_dir() else {}
    if not stored:
        return
    deleted = Dataset.objects.exclude(rows_deleted_at=None).values_list("pk", flat=True)
    discarded = AuditEvent.objects.filter(action=AuditAction.DISCARD_TABLE).values_list("object_id", flat=True)
    gone = {*map(str, deleted), *discarded} & stored.keys()
    # One that was discarded can be here again, from a backup of before.
    here = Dataset.objects.filter(pk__in=gone, rows_deleted_at=None).values_list("pk", flat=True)
    for number in gone - set(map(str, here)):
        stored[number].unlink(missing_ok=True)


def _remove_file(dataset: Dataset) -> None:
    if not dataset.is_in_database:
        Path(table_path(dataset)).unlink(missing_ok=True)


def _check_present(dataset: Dataset, name: str, *, field: str) -> None:
    if name not in dataset.columns:
        raise InvalidInput(field, name, "is not a column of the table")
