"""What the database itself refuses, whoever asks: to change, delete or replace what is append-only, and to move what a
budget may spend, or has spent, without an entry of the ledger."""

import uuid

import pytest
from django.apps import apps
from django.db import DatabaseError, connection, transaction

from releases import services
from releases.engine.accounting.filters import CLOSED
from releases.models import Budget, EntryKind, LedgerEntry, append_only
from tests.web.past_the_guards import lift
from tests.web.steps import charge, submit
from tests.web.steps import execute as run

IS_SQLITE = connection.vendor == "sqlite"
#: What of a budget decides no charge, and what gives its amounts their meaning.
FREE = {"name": "Other", "is_frozen": True, "frozen_reason": "Why not.", "created_at": "2020-01-01 00:00:00+00:00"}
MEANING = {"unit": {"kind": "person"}, "neighbours": "replace", "policy": "pure"}


@pytest.fixture
def charged(dataset, alice):
    """A budget with a grant and a charge."""
    charge(dataset, 1, alice)
    return Budget.objects.get()


def execute(statement, *values):
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement, values)


def refused(statement, *values, match=None):
    with pytest.raises(DatabaseError, match=match):
        execute(statement, *values)


def rows(table):
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table} ORDER BY 1")
        return cursor.fetchall()


def other_value(field):
    """Another value of a budget's column, that its type and constraints let through."""
    standing = getattr(Budget.objects.get(), field.attname)
    if isinstance(standing, int):
        return standing - 1 if standing else 1
    if isinstance(standing, str):
        return "1.5"
    return {"other": 1} if isinstance(standing, dict) else [1]


#: A new column is guarded until it is named above.
GUARDED = [field for field in Budget._meta.concrete_fields if field.name not in {"id", "owner", *FREE, *MEANING}]


def stays(*, match="changes only with an entry", **changes):
    with pytest.raises(DatabaseError, match=match), transaction.atomic():
        Budget.objects.update(**changes)


@pytest.mark.parametrize("field", GUARDED, ids=[field.name for field in GUARDED])
def test_a_column_that_decides_charges_does_not_change_alone(charged, field):
    lift("budget_does_not_fall")
    stays(**{field.attname: other_value(field)})


def test_the_guarded_columns_are_these():
    named = {"spent_epsilon", "spent_rho", "cap_epsilon", "cap_rho", "epsilon", "delta", "sequence", "head"}
    assert named <= {field.name for field in GUARDED}


def test_what_decides_no_charge_changes_freely_and_the_meaning_until_a_grant(charged, make_dataset):
    Budget.objects.update(**FREE)
    for name, value in MEANING.items():
        stays(match="fixed once it was granted", **{name: value})
    waiting = make_dataset(epsilon="", content=b"age,sex\n30,male\n").budget
    Budget.objects.filter(pk=waiting.pk).update(**MEANING)


@pytest.mark.parametrize(
    "changes",
    [
        {"spent_epsilon": 0, "spent_rho": 0},
        {"sequence": 1},
        {"sequence": 3, "head": "0" * 64},
        {"cap_epsilon": 9 * 10**12, "epsilon": "9"},
    ],
)
def test_the_last_entry_moves_the_budget_no_second_time(charged, changes):
    stays(**changes)


def entry_after(budget, by, kind, **changes):
    standing = {"epsilon": 1, "previous": budget.head, "hash": "1" * 64, "sequence": budget.sequence + 1}
    release = services.releases.draft_release(dataset=budget.datasets.get(), by=by)
    who = {"key": uuid.uuid4(), "release": release, "actor": by, "detail": {}, "made_at": budget.created_at}
    made = LedgerEntry(budget=budget, kind=kind, **who, **(standing | changes))
    made.save(force_insert=True)
    return {"sequence": made.sequence, "head": made.hash}


@pytest.mark.parametrize(
    ("kind", "entry", "changes"),
    [
        ("charge", {}, {"spent_epsilon": 0}),
        ("charge", {}, {"cap_epsilon": 9 * 10**12}),
        ("charge", {"previous": "0" * 64}, {}),
        ("restore", {}, {"spent_rho": 0}),
        ("return", {}, {"cap_rho": 9 * 10**12}),
        ("grant", {}, {"spent_epsilon": 0}),
        ("grant", {}, {"spent_epsilon": CLOSED}),
    ],
)
def test_an_entry_moves_only_what_its_kind_may(charged, alice, kind, entry, changes):
    moved = entry_after(charged, alice, EntryKind(kind), **entry)
    stays(**moved, **changes)
    if not entry:
        Budget.objects.update(**moved)


def test_another_budget_s_entry_moves_nothing(charged, make_dataset, alice):
    other = make_dataset(content=b"age,sex\n30,male\n31,male\n").budget
    moved = entry_after(charged, alice, EntryKind.CHARGE, sequence=7)
    with pytest.raises(DatabaseError, match="changes only with an entry"), transaction.atomic():
        Budget.objects.filter(pk=other.pk).update(**moved)


def test_a_budget_with_entries_is_not_deleted_and_none_begins_with_anything_granted_or_spent(charged, alice):
    refused("DELETE FROM releases_budget", match="stays")
    empty = {"name": "New", "owner": alice, "unit": {"kind": "row"}, "neighbours": "replace", "policy": "zcdp"}
    Budget.objects.create(**empty).delete()
    for field in GUARDED:
        if isinstance(field.get_default(), (int, str)):
            value = 1 if isinstance(field.get_default(), int) else "1"
            with pytest.raises(DatabaseError), transaction.atomic():
                Budget.objects.create(**empty, **{field.attname: value})
    assert Budget.objects.count() == 1


#: Guards of rows that are never changed, and can go with what they belong to; and the tables.
REPLACED = {
    "workload_version": "workloadversion",
    "questions": "releasequestions",
    "plan": "releaseplan",
    "result": "releaseresult",
}


def test_every_guard_is_there():
    """SQLite drops a table's triggers where a migration makes the table again."""
    with connection.cursor() as cursor:
        if IS_SQLITE:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        else:
            cursor.execute("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled = 'O'")
        found = {name for (name,) in cursor.fetchall()}
    expected = {"survey_keeps_its_promise", "tally_grows_by_1", "budget_moves_with_an_entry", "budget_does_not_fall"}
    expected |= {f"{name}_no_update" for name in REPLACED if IS_SQLITE or name == "workload_version"}
    for name in ("ledger", "audit"):
        expected |= {f"{name}_no_update", f"{name}_no_delete"} if IS_SQLITE else {f"{name}_append_only"}
        expected |= set() if IS_SQLITE else {f"{name}_no_truncate"}
    if IS_SQLITE:
        expected |= {"budget_begins_empty", "budget_keeps_its_meaning", "budget_stays", "survey_stays", "tally_stays"}
        tables = ("ledgerentry", "auditevent", "budget", "survey", "surveytally", *REPLACED.values())
        expected |= {f"{name}_no_replace" for name in tables} | {"tally_begins_at_0"}
    else:
        expected |= {"budget_no_truncate", "tally_no_truncate"}
        expected |= {f"{name}_{guard}" for name in REPLACED for guard in ("append_only", "no_truncate")}
    assert found == expected


#: Models whose rows change, and why; every other one is marked as append-only.
CHANGE = {
    "ApiToken": "when it was last used is noted, and it is revoked",
    "Attempt": "how it ended is noted",
    "Budget": "guarded by triggers of its own: it moves with an entry of the ledger",
    "BudgetAlert": "sent once",
    "BudgetRequest": "decided",
    "Codebook": "edited",
    "Collection": "its epsilon is shared out again while parts are drafts",
    "CollectionPart": "its weight, and gone with a discarded draft",
    "Dataset": "declared, shared and renamed",
    "DisclosureTest": "on its way",
    "Fingerprint": "taken later, and again for other columns",
    "HeldRole": "given and taken",
    "Installation": "moves with the record outside the database",
    "KeptColumns": "what is typed",
    "MailChoice": "chosen",
    "Notice": "read",
    "Organisation": "the settings",
    "RegionBoundaries": "uploaded again and removed; a release keeps its own",
    "RegisteredConnection": "for which versions it counted right is noted, and it is removed",
    "Release": "from draft to result",
    "ReleaseRequest": "decided",
    "Searchable": "as the release",
    "Session": "its threshold is drawn again",
    "SessionAnswer": "only added to by the site; the record outside the database counts the answers",
    "SessionCells": "made with the session by the site, and changed by nothing",
    "Survey": "guarded by triggers of its own",
    "SurveyTally": "guarded by triggers of its own",
    "Upload": "on its way",
    "SavedWorkload": "renamed",
}


def test_every_model_is_marked_or_listed_with_the_reason_why_its_rows_change():
    names = {model.__name__ for model in apps.get_app_config("releases").get_models()}
    guarded = {model.__name__ for model in append_only.marked()}
    assert names == guarded | set(CHANGE)
    assert not guarded & set(CHANGE)


@pytest.fixture
def a_row_of_each(charged, make_draft, alice):
    """At least one row of every marked model."""
    release = make_draft(charged.datasets.get())
    services.workloads.save_workload(release=release, name="Yearly", by=alice)
    submit(release, alice)
    assert run(release)


@pytest.mark.parametrize("model", append_only.marked(), ids=lambda model: model.__name__)
def test_no_row_of_a_marked_model_is_changed_replaced_or_deleted(a_row_of_each, model):
    table, fields = model._meta.db_table, [field.column for field in model._meta.concrete_fields]
    before = rows(table)
    assert before
    for column in fields:
        refused(f"UPDATE {table} SET {column} = {column}", match=model.append_only.message)
    if not model.append_only.may_be_deleted:
        refused(f"DELETE FROM {table}", match=model.append_only.message)
    if IS_SQLITE:
        refused(f"REPLACE INTO {table} SELECT * FROM {table}", match=model.append_only.message)
        # By each other unique column or constraint too, with a number of its own.
        others = ", ".join(fields[1:])
        if any(field.unique for field in model._meta.concrete_fields[1:]) or model._meta.constraints:
            refused(f"INSERT OR REPLACE INTO {table} ({others}) SELECT {others} FROM {table}")
    else:
        refused(f"TRUNCATE {table} CASCADE")
        refused(f"INSERT INTO {table} SELECT * FROM {table} ON CONFLICT (id) DO UPDATE SET id = {table}.id")
    assert rows(table) == before


def test_a_table_that_was_made_again_gets_its_triggers_back_and_until_then_the_audit_names_them(a_row_of_each):
    name = "workloadversion_no_replace" if IS_SQLITE else "workload_version_append_only"
    execute(f"DROP TRIGGER {name}" + ("" if IS_SQLITE else " ON releases_workloadversion"))
    assert append_only.missing(connection) == [name]
    append_only.add_missing(connection)
    assert append_only.missing(connection) == []


def test_with_its_guard_lifted_the_columns_are_still_within_the_caps(charged):
    lift()
    stays(match=None, spent_epsilon=9 * 10**12, spent_rho=9 * 10**12)
    stays(match=None, spent_epsilon=-1)
