import hashlib
from pathlib import Path

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def note_the_files(apps, schema_editor):
    """What is stored at this moment is what later readings are held against. A missing file stays without a digest."""
    for dataset in apps.get_model("releases", "Dataset").objects.filter(rows_deleted_at=None):
        path = Path(settings.TABLES_DIR) / dataset.location
        if "://" in dataset.location or not path.is_file():
            continue
        with path.open("rb") as file:
            dataset.file_sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        dataset.save(update_fields=["file_sha256"])


def make_files_private(apps, schema_editor):
    """Files of before were made under whatever umask there was. `manage.py audit` names what cannot be changed here."""
    from releases.storage.private_files import make_private

    make_private()


class Migration(migrations.Migration):
    # Attempts of before are on no record, so a release that was begun before is taken to have opened its table.
    dependencies = [
        ("releases", "0024_marks"),
    ]

    operations = [
        migrations.CreateModel(
            name="Attempt",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("token", models.UUIDField(unique=True)),
                ("started_at", models.DateTimeField()),
                ("opened_at", models.DateTimeField(blank=True, null=True)),
                ("ended_at", models.DateTimeField(blank=True, null=True)),
                ("failure", models.CharField(blank=True, max_length=80)),
                (
                    "release",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="tried", to="releases.release"
                    ),
                ),
            ],
            options={"indexes": [models.Index(fields=["release", "opened_at"], name="attempts_by_release")]},
        ),
        migrations.AddField(
            model_name="release",
            name="next_attempt_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="release",
            name="ended_because",
            field=models.CharField(
                blank=True,
                choices=[("plan changed", "plan changed"), ("nothing read", "nothing read")],
                default="",
                max_length=20,
            ),
            preserve_default=False,
        ),
        migrations.AddField(
            model_name="upload",
            name="next_attempt_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name="dataset",
            name="file_sha256",
            field=models.CharField(blank=True, default="", max_length=64),
            preserve_default=False,
        ),
        migrations.RunPython(note_the_files, migrations.RunPython.noop),
        migrations.RunPython(make_files_private, migrations.RunPython.noop),
    ]
