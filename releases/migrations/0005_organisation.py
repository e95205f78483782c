"""The organisation's settings, people's tokens and notices, and the audit log, which the database lets only grow."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

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
    # The first and the last of those replaced: unless a database has applied all of them or none, nothing can be
    # migrated, as 0022 depends on the last.
    replaces = [
        ("releases", "0001_initial"),
        ("releases", "0004_review"),
        ("releases", "0005_append_only_audit_log"),
        ("releases", "0007_api_tokens"),
        ("releases", "0009_notices"),
        ("releases", "0014_limit_for_one_person"),
        ("releases", "0018_token_scope"),
        ("releases", "0021_upload_without_group"),
    ]
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("releases", "0004_surveys"),
    ]

    operations = [
        migrations.CreateModel(
            name="Organisation",
            fields=[
                ("id", models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ("upload_cap_bytes", models.PositiveBigIntegerField()),
                ("default_epsilon", models.CharField(blank=True, max_length=40)),
                ("review_above", models.CharField(blank=True, max_length=40)),
                ("is_two_person", models.BooleanField(default=False)),
                ("alert_addresses", models.TextField(blank=True, help_text="one a line")),
                (
                    "reviewers",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="auth.group",
                    ),
                ),
                ("most_per_person", models.CharField(blank=True, max_length=40)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=models.Q(("id", 1)), name="one_organisation")],
            },
        ),
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("digest", models.CharField(max_length=64, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("last_used_at", models.DateTimeField(blank=True, null=True)),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="api_tokens",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("ends_at", models.DateTimeField(blank=True, null=True)),
                (
                    "scope",
                    models.CharField(
                        choices=[("read", "read only"), ("all", "all that you may do")], default="all", max_length=10
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="MailChoice",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="mail_choice",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("wants_mail", models.BooleanField(default=True)),
            ],
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("addresses", models.TextField(blank=True, help_text="one a line; empty where no e-mail is wanted")),
                ("title", models.CharField(max_length=250)),
                ("text", models.TextField()),
                ("path", models.CharField(help_text="of the page it is about", max_length=100)),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("sent_at", models.DateTimeField(blank=True, null=True)),
                ("read_at", models.DateTimeField(blank=True, null=True)),
                (
                    "person",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="notices",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["person", "read_at"], name="notices_to_read"),
                    models.Index(condition=models.Q(("sent_at", None)), fields=["id"], name="notices_to_send"),
                    models.Index(fields=["path"], name="notices_by_page"),
                ],
            },
        ),
        migrations.CreateModel(
            name="AuditEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField(auto_now_add=True, db_index=True)),
                (
                    "action",
                    models.CharField(
                        choices=[
                            ("sign-in", "signed in"),
                            ("sign-out", "signed out"),
                            ("sign-in failed", "failed to sign in"),
                            ("account", "changed the account's security"),
                            ("upload", "uploaded a table"),
                            ("discard", "discarded"),
                            ("rename", "renamed"),
                            ("delete rows", "deleted the rows of"),
                            ("declare", "declared columns or protection"),
                            ("save", "saved"),
                            ("load plan", "loaded a plan into"),
                            ("share", "shared a dataset"),
                            ("request", "asked for"),
                            ("take back", "took a request back"),
                            ("first approval", "approved, as the first of two"),
                            ("approve", "approved"),
                            ("deny", "denied"),
                            ("ask back", "asked back"),
                            ("submit", "charged and queued"),
                            ("cancel", "cancelled"),
                            ("publish", "finished"),
                            ("open", "opened the session"),
                            ("close", "closed the session"),
                            ("fail", "gave up on"),
                            ("make public", "made public"),
                            ("make private", "made private"),
                            ("withdraw", "withdrew"),
                            ("open survey", "opened"),
                            ("close survey", "closed"),
                            ("download", "downloaded"),
                            ("freeze", "froze"),
                            ("unfreeze", "unfroze"),
                            ("restore", "booked what was missing"),
                            ("verify", "verified the ledger"),
                            ("export", "exported"),
                            ("settings", "changed the settings"),
                            ("notices", "turned e-mail on or off"),
                        ],
                        db_index=True,
                        max_length=20,
                    ),
                ),
                ("kind", models.CharField(blank=True, max_length=20, verbose_name="object")),
                ("object_id", models.CharField(blank=True, db_index=True, max_length=40)),
                ("name", models.CharField(blank=True, max_length=200)),
                ("detail", models.TextField(blank=True)),
                (
                    "actor",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
        ),
        migrations.RunPython(add_triggers, migrations.RunPython.noop),
    ]
