"""The database itself refuses to change or delete events of the audit log, whoever asks."""

from django.db import migrations

MESSAGE = "audit events are append-only"

SQLITE = [
    f"""
    CREATE TRIGGER audit_no_update BEFORE UPDATE ON releases_auditevent
    BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END
    """,
    f"""
    CREATE TRIGGER audit_no_delete BEFORE DELETE ON releases_auditevent
    BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END
    """,
]
POSTGRESQL = [
    f"""
    CREATE FUNCTION releases_audit_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{MESSAGE}'; END $$
    """,
    """
    CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON releases_auditevent
    FOR EACH ROW EXECUTE FUNCTION releases_audit_append_only()
    """,
    """
    CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON releases_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION releases_audit_append_only()
    """,
]


def add_triggers(apps, schema_editor):
    statements = {"sqlite": SQLITE, "postgresql": POSTGRESQL}.get(schema_editor.connection.vendor)
    if statements is None:
        raise RuntimeError("The audit log needs SQLite or PostgreSQL: only these are known to refuse changes to it.")
    for statement in statements:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    dependencies = [("releases", "0004_review")]
    operations = [migrations.RunPython(add_triggers, migrations.RunPython.noop)]
