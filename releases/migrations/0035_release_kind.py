from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations, models
from django.db.models import Case, Q, Value, When

from releases.models.release_kinds import KindField, plain

CERTIFICATE = "certificate"


def name_kinds(apps: Any, schema_editor: Any) -> None:
    """Each release has the kind that two columns and its questions implied."""
    releases = apps.get_model("releases", "Release").objects.using(schema_editor.connection.alias)
    releases.filter(certifies__isnull=False).update(kind=CERTIFICATE)
    releases.filter(is_session=True).update(kind="session")
    releases.filter(kind="release", workload__states=True).update(kind="check")


def name_sessions(apps: Any, schema_editor: Any) -> None:
    releases = apps.get_model("releases", "Release").objects.using(schema_editor.connection.alias)
    releases.update(is_session=Case(When(kind="session", then=Value(True)), default=Value(False)))


class Migration(migrations.Migration):
    """One column says of what kind a release is."""

    dependencies: ClassVar = [("releases", "0034_file_facts")]

    operations: ClassVar = [
        migrations.AddField("release", "kind", KindField(max_length=16, default=plain)),
        migrations.RunPython(name_kinds, name_sessions),
        migrations.RemoveField("release", "is_session"),
        migrations.AddConstraint(
            "release",
            models.CheckConstraint(
                name="certificate_of_a_release",
                condition=Q(kind=CERTIFICATE, certifies__isnull=False)
                | (~Q(kind=CERTIFICATE) & Q(certifies__isnull=True)),
            ),
        ),
    ]
