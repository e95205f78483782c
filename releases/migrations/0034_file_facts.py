from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """How a table's file is written, and what the file itself says of its columns."""

    dependencies: ClassVar = [("releases", "0033_grants")]

    operations: ClassVar = [
        migrations.AddField("upload", "file_facts", models.JSONField(default=dict, blank=True)),
        migrations.AddField("dataset", "file_facts", models.JSONField(default=dict, blank=True)),
        migrations.AddField("dataset", "file_codebook", models.JSONField(default=list, blank=True)),
    ]
