"""The database itself ties what a budget has spent, and may spend, to entries of the ledger.

A budget's sums, caps, sequence and head change in one update at most for each entry, and only after it was inserted.
Every column of the budget that is not named below as free is guarded, so one that is added before this migration is too.
`INSERT OR REPLACE` deletes without firing SQLite's delete triggers, unless the connection asked for recursive ones; what
is append-only therefore refuses to insert a row that would take another's place.
"""

import json

from django.db import migrations

APPEND_ONLY = "are append-only"
MOVED = "what a budget may spend and has spent changes only with an entry of the ledger"
SETTLED = "what a budget protects and how it adds up is fixed once it was granted"
EMPTY = "a budget begins with nothing granted and nothing spent"
STAYS = "a budget with entries in the ledger stays"

#: Columns of a budget that decide no charge.
FREE = {"id", "name", "owner_id", "is_frozen", "frozen_reason", "created_at"}
#: Those that give the amounts their meaning: free until the first entry.
MEANING = {"unit", "neighbours", "policy"}

#: By table and message, the conditions under which a new row would take the place of another.
REPLACED = {
    "releases_ledgerentry": (
        f"ledger entries {APPEND_ONLY}",
        [
            "id = NEW.id",
            "key = NEW.key",
            "budget_id = NEW.budget_id AND sequence = NEW.sequence",
            "release_id = NEW.release_id AND kind = NEW.kind AND kind IN ('charge', 'return')",
        ],
    ),
    "releases_auditevent": (f"audit events {APPEND_ONLY}", ["id = NEW.id"]),
    "releases_budget": (STAYS, ["id = NEW.id"]),
    "releases_survey": ("what an opened survey has promised is fixed", ["id = NEW.id"]),
    "releases_surveytally": (
        "reports are only added, one at a time, while the survey is open",
        ["id = NEW.id", "survey_id = NEW.survey_id AND answer = NEW.answer"],
    ),
}


def guarded(budget):
    """Each guarded column, and whether its values are whole numbers."""
    fields = [field for field in budget._meta.concrete_fields if field.column not in FREE | MEANING]
    return {field.column: "Integer" in field.get_internal_type() for field in fields}


def empty(budget):
    """Every text that a guarded column of a new budget may have, as a list in SQL."""
    values = [getattr(budget(), field.attname) for field in budget._meta.concrete_fields if field.column in guarded(budget)]
    texts = {json.dumps(each) if isinstance(each, (bool, dict, list)) else str(each) for each in values}
    # SQLite writes a false value as a number.
    texts |= {"0"} if False in values else set()
    return ", ".join("'" + text.replace("'", "''") + "'" for text in sorted(texts))


def rules(columns, differs):
    """What must hold of entry `e`, the one that NEW names, for the budget to move from OLD to NEW with it."""
    spent = [column for column in columns if column.startswith("spent")]
    granted = [column for column in columns if column not in (*spent, "sequence", "head")]
    numbers = [column for column in spent if columns[column]]
    changed = " OR ".join(differs(column) for column in spent)
    regranted = " OR ".join(differs(column) for column in granted)
    lowered = " OR ".join(f"NEW.{column} < OLD.{column}" for column in numbers)
    return f"""
        e.budget_id = OLD.id AND e.sequence = NEW.sequence AND e.hash = NEW.head AND e.previous = OLD.head
        AND NEW.sequence > OLD.sequence
        AND (e.kind = 'grant' OR NOT ({regranted}))
        AND (e.kind <> 'grant' OR NOT ({changed}))
        AND (e.kind = 'return' OR NOT ({lowered}))
    """


def sqlite(budget):
    columns = guarded(budget)

    def differs(column):
        return f"NEW.{column} IS NOT OLD.{column}"

    for table, (message, conditions) in REPLACED.items():
        exists = " OR ".join(f"EXISTS (SELECT 1 FROM {table} WHERE {condition})" for condition in conditions)
        yield f"""
        CREATE TRIGGER {table.removeprefix("releases_")}_no_replace BEFORE INSERT ON {table} WHEN {exists}
        BEGIN SELECT RAISE(ABORT, '{message}'); END
        """
    yield f"""
    CREATE TRIGGER budget_begins_empty BEFORE INSERT ON releases_budget
    WHEN {" OR ".join(f"CAST(NEW.{column} AS TEXT) NOT IN ({empty(budget)})" for column in columns)}
    BEGIN SELECT RAISE(ABORT, '{EMPTY}'); END
    """
    yield f"""
    CREATE TRIGGER budget_moves_with_an_entry BEFORE UPDATE ON releases_budget
    WHEN (NEW.id IS NOT OLD.id OR {" OR ".join(map(differs, columns))})
        AND NOT EXISTS (SELECT 1 FROM releases_ledgerentry e WHERE NEW.id = OLD.id AND {rules(columns, differs)})
    BEGIN SELECT RAISE(ABORT, '{MOVED}'); END
    """
    yield f"""
    CREATE TRIGGER budget_keeps_its_meaning BEFORE UPDATE ON releases_budget
    WHEN OLD.sequence > 0 AND ({" OR ".join(map(differs, sorted(MEANING)))})
    BEGIN SELECT RAISE(ABORT, '{SETTLED}'); END
    """
    yield f"""
    CREATE TRIGGER budget_stays BEFORE DELETE ON releases_budget
    WHEN EXISTS (SELECT 1 FROM releases_ledgerentry WHERE budget_id = OLD.id)
    BEGIN SELECT RAISE(ABORT, '{STAYS}'); END
    """


def postgresql(budget, schema):
    columns = guarded(budget)

    def differs(column):
        return f"NEW.{column} IS DISTINCT FROM OLD.{column}"

    # Without its own search path a function would look into a temporary table of the same name first.
    path = f"SET search_path = {schema}, pg_temp"
    yield f"""
    CREATE FUNCTION releases_budget_guard() RETURNS trigger LANGUAGE plpgsql {path} AS $$ BEGIN
    IF TG_OP = 'TRUNCATE' THEN RAISE EXCEPTION '{STAYS}'; END IF;
    IF TG_OP = 'DELETE' THEN
        IF EXISTS (SELECT 1 FROM releases_ledgerentry WHERE budget_id = OLD.id) THEN RAISE EXCEPTION '{STAYS}'; END IF;
        RETURN OLD;
    END IF;
    IF TG_OP = 'INSERT' THEN
        IF {" OR ".join(f"NEW.{column}::text NOT IN ({empty(budget)})" for column in columns)}
        THEN RAISE EXCEPTION '{EMPTY}'; END IF;
        RETURN NEW;
    END IF;
    IF (NEW.id <> OLD.id OR {" OR ".join(map(differs, columns))})
        AND NOT EXISTS (SELECT 1 FROM releases_ledgerentry e WHERE NEW.id = OLD.id AND {rules(columns, differs)})
    THEN RAISE EXCEPTION '{MOVED}'; END IF;
    IF OLD.sequence > 0 AND ({" OR ".join(map(differs, sorted(MEANING)))}) THEN RAISE EXCEPTION '{SETTLED}'; END IF;
    RETURN NEW; END $$
    """
    yield """
    CREATE TRIGGER budget_moves_with_an_entry BEFORE INSERT OR UPDATE OR DELETE ON releases_budget
    FOR EACH ROW EXECUTE FUNCTION releases_budget_guard()
    """
    yield """
    CREATE TRIGGER budget_no_truncate BEFORE TRUNCATE ON releases_budget
    FOR EACH STATEMENT EXECUTE FUNCTION releases_budget_guard()
    """
    yield f"ALTER FUNCTION releases_tally_grows() {path}"


def add_triggers(apps, schema_editor):
    budget = apps.get_model("releases", "Budget")
    connection = schema_editor.connection
    if connection.vendor == "sqlite":
        statements = sqlite(budget)
    else:
        with connection.cursor() as cursor:
            cursor.execute("SELECT quote_ident(current_schema())")
            statements = postgresql(budget, cursor.fetchone()[0])
    for statement in statements:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("releases", "0025_attempts")]
    operations = [migrations.RunPython(add_triggers, migrations.RunPython.noop)]
