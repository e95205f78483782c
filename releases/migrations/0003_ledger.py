"""The ledger. The database itself refuses to change or delete its entries, whoever asks."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

MESSAGE = "ledger entries are append-only"

SQLITE = [
    f"""
    CREATE TRIGGER ledger_no_update BEFORE UPDATE ON releases_ledgerentry
    BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END
    """,
    f"""
    CREATE TRIGGER ledger_no_delete BEFORE DELETE ON releases_ledgerentry
    BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END
    """,
]
POSTGRESQL = [
    f"""
    CREATE FUNCTION releases_ledger_append_only() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{MESSAGE}'; END $$
    """,
    """
    CREATE TRIGGER ledger_append_only BEFORE UPDATE OR DELETE ON releases_ledgerentry
    FOR EACH ROW EXECUTE FUNCTION releases_ledger_append_only()
    """,
    """
    CREATE TRIGGER ledger_no_truncate BEFORE TRUNCATE ON releases_ledgerentry
    FOR EACH STATEMENT EXECUTE FUNCTION releases_ledger_append_only()
    """,
]


def add_triggers(apps, schema_editor):
    statements = {"sqlite": SQLITE, "postgresql": POSTGRESQL}.get(schema_editor.connection.vendor)
    if statements is None:
        raise RuntimeError("The ledger needs SQLite or PostgreSQL: only these are known to refuse changes to it.")
    for statement in statements:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    replaces = [("releases", "0002_append_only_ledger"), ("releases", "0006_list_indexes")]
    dependencies = [migrations.swappable_dependency(settings.AUTH_USER_MODEL), ("releases", "0002_releases")]

    operations = [
        migrations.CreateModel(
            name="LedgerEntry",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("sequence", models.PositiveIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("grant", "budget granted"),
                            ("charge", "release charged"),
                            ("return", "charge given back"),
                            ("restore", "restored backup made good"),
                        ],
                        max_length=10,
                    ),
                ),
                ("key", models.UUIDField(unique=True)),
                ("detail", models.JSONField()),
                ("epsilon", models.BigIntegerField(default=0)),
                ("delta", models.BigIntegerField(default=0)),
                ("rho", models.BigIntegerField(default=0)),
                ("rho_delta", models.BigIntegerField(default=0)),
                ("made_at", models.DateTimeField()),
                ("previous", models.CharField(blank=True, max_length=64)),
                ("hash", models.CharField(max_length=64)),
                (
                    "actor",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="entries", to="releases.budget"
                    ),
                ),
                (
                    "release",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="entries",
                        to="releases.release",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["-made_at", "-sequence"], name="entries_by_time"),
                    models.Index(fields=["kind", "release", "actor", "made_at", "epsilon"], name="entries_by_kind"),
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("budget", "sequence"), name="one_entry_a_number"),
                    models.UniqueConstraint(
                        condition=models.Q(("kind", "charge")), fields=("release",), name="one_charge_a_release"
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("kind", "return")), fields=("release",), name="one_return_a_release"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("kind", "charge"), _negated=True),
                            models.Q(
                                ("delta__gte", 0),
                                ("epsilon__gte", 0),
                                ("rho__gte", 0),
                                ("rho_delta__gte", 0),
                                models.Q(("epsilon__gt", 0), ("rho__gt", 0), _connector="OR"),
                            ),
                            _connector="OR",
                        ),
                        name="a_charge_adds",
                    ),
                ],
            },
        ),
        migrations.RunPython(add_triggers, migrations.RunPython.noop),
    ]
