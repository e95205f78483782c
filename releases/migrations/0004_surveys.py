"""Surveys; the database itself refuses to change what respondents were promised, or their reports."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

PROMISED = "what an opened survey has promised is fixed"
REPORTED = "reports are only added, one at a time, while the survey is open"

SQLITE = [
    f"""
    CREATE TRIGGER survey_keeps_its_promise BEFORE UPDATE ON releases_survey
    WHEN OLD.state <> 'draft' AND (
        NEW.state = 'draft' OR NEW.id IS NOT OLD.id OR NEW.title IS NOT OLD.title
        OR NEW.question IS NOT OLD.question OR NEW.answers IS NOT OLD.answers OR NEW.epsilon IS NOT OLD.epsilon
        OR NEW.truth IS NOT OLD.truth OR NEW.other IS NOT OLD.other OR NEW.opened_at IS NOT OLD.opened_at
        OR (OLD.state = 'closed' AND (
            NEW.state <> 'closed' OR NEW.result IS NOT OLD.result OR NEW.closed_at IS NOT OLD.closed_at)))
    BEGIN SELECT RAISE(ABORT, '{PROMISED}'); END
    """,
    f"""
    CREATE TRIGGER survey_stays BEFORE DELETE ON releases_survey WHEN OLD.state <> 'draft'
    BEGIN SELECT RAISE(ABORT, '{PROMISED}'); END
    """,
    f"""
    CREATE TRIGGER tally_begins_at_0 BEFORE INSERT ON releases_surveytally WHEN NEW.number <> 0
    BEGIN SELECT RAISE(ABORT, '{REPORTED}'); END
    """,
    f"""
    CREATE TRIGGER tally_grows_by_1 BEFORE UPDATE ON releases_surveytally
    WHEN NEW.id <> OLD.id OR NEW.survey_id <> OLD.survey_id OR NEW.answer <> OLD.answer
        OR NEW.number <> OLD.number + 1
        OR NOT EXISTS (SELECT 1 FROM releases_survey WHERE id = OLD.survey_id AND state = 'open')
    BEGIN SELECT RAISE(ABORT, '{REPORTED}'); END
    """,
    f"""
    CREATE TRIGGER tally_stays BEFORE DELETE ON releases_surveytally
    BEGIN SELECT RAISE(ABORT, '{REPORTED}'); END
    """,
]
POSTGRESQL = [
    f"""
    CREATE FUNCTION releases_survey_promise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF OLD.state <> 'draft' THEN
        IF TG_OP = 'DELETE' THEN RAISE EXCEPTION '{PROMISED}'; END IF;
        IF NEW.state = 'draft' OR ROW(NEW.id, NEW.title, NEW.question, NEW.answers, NEW.epsilon, NEW.truth, NEW.other,
                NEW.opened_at) IS DISTINCT FROM ROW(OLD.id, OLD.title, OLD.question, OLD.answers, OLD.epsilon,
                OLD.truth, OLD.other, OLD.opened_at)
            OR (OLD.state = 'closed' AND ROW(NEW.state, NEW.result, NEW.closed_at)
                IS DISTINCT FROM ROW(OLD.state, OLD.result, OLD.closed_at))
        THEN RAISE EXCEPTION '{PROMISED}'; END IF;
    END IF;
    IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;
    RETURN NEW; END $$
    """,
    """
    CREATE TRIGGER survey_keeps_its_promise BEFORE UPDATE OR DELETE ON releases_survey
    FOR EACH ROW EXECUTE FUNCTION releases_survey_promise()
    """,
    f"""
    CREATE FUNCTION releases_tally_grows() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.number = 0 THEN RETURN NEW; END IF;
    ELSIF TG_OP = 'UPDATE' THEN
        IF ROW(NEW.id, NEW.survey_id, NEW.answer, NEW.number) = ROW(OLD.id, OLD.survey_id, OLD.answer, OLD.number + 1)
            AND EXISTS (SELECT 1 FROM releases_survey WHERE id = OLD.survey_id AND state = 'open')
        THEN RETURN NEW; END IF;
    END IF;
    RAISE EXCEPTION '{REPORTED}'; END $$
    """,
    """
    CREATE TRIGGER tally_grows_by_1 BEFORE INSERT OR UPDATE OR DELETE ON releases_surveytally
    FOR EACH ROW EXECUTE FUNCTION releases_tally_grows()
    """,
    """
    CREATE TRIGGER tally_no_truncate BEFORE TRUNCATE ON releases_surveytally
    FOR EACH STATEMENT EXECUTE FUNCTION releases_tally_grows()
    """,
]


def add_triggers(apps, schema_editor):
    statements = {"sqlite": SQLITE, "postgresql": POSTGRESQL}.get(schema_editor.connection.vendor)
    if statements is None:
        raise RuntimeError("Surveys need SQLite or PostgreSQL: only these are known to refuse changes to reports.")
    for statement in statements:
        schema_editor.execute(statement)


class Migration(migrations.Migration):
    replaces = [("releases", "0008_surveys")]
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("releases", "0003_ledger"),
    ]

    operations = [
        migrations.CreateModel(
            name="Survey",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("title", models.CharField(max_length=200)),
                ("question", models.CharField(max_length=500)),
                ("answers", models.JSONField(help_text="texts to choose from, in order")),
                ("epsilon", models.CharField(help_text="of one report, as a decimal", max_length=40)),
                (
                    "state",
                    models.CharField(
                        choices=[("draft", "draft"), ("open", "open"), ("closed", "closed")],
                        default="draft",
                        max_length=8,
                    ),
                ),
                ("is_public", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("opened_at", models.DateTimeField(blank=True, null=True)),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                ("truth", models.PositiveIntegerField(blank=True, null=True)),
                ("other", models.PositiveIntegerField(blank=True, null=True)),
                ("result", models.JSONField(blank=True, null=True)),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="surveys",
                        to="auth.group",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="surveys", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["-created_at"], name="surveys_by_time")],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state", "draft"),
                            models.Q(("opened_at__isnull", False), ("other__isnull", False), ("truth__isnull", False)),
                            _connector="OR",
                        ),
                        name="an_opened_survey_has_a_law",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "closed"), _negated=True),
                            models.Q(("closed_at__isnull", False), ("result__isnull", False)),
                            _connector="OR",
                        ),
                        name="a_closed_survey_has_a_result",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(("is_public", False), ("state", "closed"), _connector="OR"),
                        name="only_a_closed_survey_is_public",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="SurveyTally",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("answer", models.PositiveSmallIntegerField(help_text="its place in the survey's list, from 0")),
                ("number", models.PositiveIntegerField(default=0)),
                (
                    "survey",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="tallies", to="releases.survey"
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("survey", "answer"), name="one_tally_an_answer")],
            },
        ),
        migrations.RunPython(add_triggers, migrations.RunPython.noop),
    ]
