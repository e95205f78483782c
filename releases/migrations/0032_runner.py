from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """How often a worker began to take a fingerprint."""

    dependencies: ClassVar = [("releases", "0031_protective_decisions")]

    operations: ClassVar = [
        migrations.AddField("fingerprint", "digest_attempts", models.PositiveSmallIntegerField(default=0)),
        migrations.AddField("fingerprint", "sketch_attempts", models.PositiveSmallIntegerField(default=0)),
    ]
