from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """Questions, plan and result of a release can lie in rows of their own."""

    dependencies: ClassVar = [("releases", "0038_connections")]

    operations: ClassVar = [
        operation
        for model, column in (
            ("ReleaseQuestions", "stored_questions"),
            ("ReleasePlan", "stored_plan"),
            ("ReleaseResult", "stored_result"),
        )
        for operation in (
            migrations.CreateModel(
                model,
                [
                    (
                        "id",
                        models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID"),
                    ),
                    ("content", models.JSONField()),
                ],
            ),
            migrations.AddField(
                "release",
                column,
                models.OneToOneField(null=True, on_delete=django.db.models.deletion.PROTECT, to=f"releases.{model}"),
            ),
        )
    ]
