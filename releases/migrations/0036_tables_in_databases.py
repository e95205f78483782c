from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """A dataset can be a table in a database, of which the catalogue is noted."""

    dependencies: ClassVar = [("releases", "0035_release_kind")]

    operations: ClassVar = [
        migrations.AddField("dataset", "catalogue", models.JSONField(default=dict, blank=True)),
        migrations.AlterField("dataset", "location", models.CharField(max_length=500)),
        migrations.AlterField(
            "release",
            "ended_because",
            models.CharField(
                max_length=20,
                blank=True,
                choices=[
                    ("plan changed", "plan changed"),
                    ("nothing read", "nothing read"),
                    ("database away", "database away"),
                ],
            ),
        ),
    ]
