"""Workloads, each with its versions. Releases of one owner and group that asked the same get one together.

Only what was stored of the releases' questions and plans is read. The release's own copy of its questions stays as it
is, so on the way back nothing is lost but the names.
"""

import hashlib
import json
import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

MESSAGE = "a version of a workload never changes; editing makes the next"
#: Keys in one statement.
CHUNK = 500
LONGEST_NAME = 200
#: Questions that the site asks for pages of its own: to learn a column, or to certify a release.
NOT_ASKED_BY_PEOPLE = {"range", "categories", "largest_error"}


def in_chunks(keys):
    for start in range(0, len(keys), CHUNK):
        yield keys[start : start + CHUNK]


def alike(releases):
    """The keys of submitted releases, oldest first, by owner, group and a digest of what they ask."""
    found = {}
    submitted = releases.exclude(state__in=["draft", "cancelled"]).filter(
        is_session=False, certifies=None, workload__isnull=False, plan__isnull=False
    )
    asked = submitted.order_by("submitted_at", "created_at").values_list(
        "pk", "dataset__owner_id", "dataset__group_id", "workload"
    )
    for pk, owner, group, workload in asked.iterator(chunk_size=100):
        queries = workload.get("queries") or [] if isinstance(workload, dict) else []
        if not queries or any(NOT_ASKED_BY_PEOPLE & set(each) for each in queries):
            continue
        digest = hashlib.sha256(json.dumps(workload, sort_keys=True).encode()).digest()
        found.setdefault((owner, group, digest), []).append(pk)
    return found


def name_for(title, taken):
    """The dataset's title, numbered where the owner has that name already."""
    number, name = 1, title[:LONGEST_NAME]
    while name in taken:
        number += 1
        end = f" ({number})"
        name = title[: LONGEST_NAME - len(end)] + end
    taken.add(name)
    return name


def gather_releases(apps, schema_editor):
    release, workload = apps.get_model("releases", "Release"), apps.get_model("releases", "Workload")
    version = apps.get_model("releases", "WorkloadVersion")
    taken = {}
    for (owner, group, _), keys in alike(release.objects).items():
        if len(keys) < 2:
            continue
        newest = release.objects.select_related("dataset").only("workload", "plan", "dataset__title").get(pk=keys[-1])
        made = workload.objects.create(
            id=uuid.uuid4(),
            name=name_for(f"Questions of {newest.dataset.title}", taken.setdefault(owner, set())),
            owner_id=owner,
            group_id=group,
        )
        first = version.objects.create(
            workload=made, number=1, questions=newest.workload, columns=newest.plan["schema"]["columns"]
        )
        for some in in_chunks(keys):
            release.objects.filter(pk__in=some).update(workload_version=first)


SQLITE = [
    f"""
    CREATE TRIGGER workload_version_no_update BEFORE UPDATE ON releases_workloadversion
    BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END
    """,
]
POSTGRESQL = [
    f"""
    CREATE FUNCTION releases_workload_version_stays() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION '{MESSAGE}'; END $$
    """,
    """
    CREATE TRIGGER workload_version_no_update BEFORE UPDATE ON releases_workloadversion
    FOR EACH ROW EXECUTE FUNCTION releases_workload_version_stays()
    """,
]


def add_triggers(apps, schema_editor):
    for statement in SQLITE if schema_editor.connection.vendor == "sqlite" else POSTGRESQL:
        schema_editor.execute(statement)


def drop_triggers(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TRIGGER workload_version_no_update")
    else:
        schema_editor.execute("DROP FUNCTION releases_workload_version_stays() CASCADE")


class Migration(migrations.Migration):
    dependencies = [("releases", "0028_roles"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Workload",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200)),
                ("description", models.TextField(blank=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("group", models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name="workloads", to="auth.group")),
                ("owner", models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name="workloads", to=settings.AUTH_USER_MODEL)),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("owner", "name"), name="one_workload_a_name")]},
        ),
        migrations.CreateModel(
            name="WorkloadVersion",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", models.PositiveIntegerField()),
                ("questions", models.JSONField()),
                ("columns", models.JSONField()),
                ("made_at", models.DateTimeField(auto_now_add=True)),
                ("made_by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("workload", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="versions", to="releases.workload")),
            ],
            options={"constraints": [models.UniqueConstraint(fields=("workload", "number"), name="one_version_a_number")]},
        ),
        migrations.AddField(
            model_name="release",
            name="workload_version",
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="releases", to="releases.workloadversion"),
        ),
        migrations.RunPython(add_triggers, drop_triggers),
        migrations.RunPython(gather_releases, migrations.RunPython.noop),
    ]
