from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    """A release holds its questions, plan and result no more; it points to them."""

    dependencies: ClassVar = [("releases", "0040_fill_release_contents")]

    operations: ClassVar = [
        migrations.RemoveConstraint("release", "published_has_a_result"),
        migrations.AddConstraint(
            "release",
            models.CheckConstraint(
                name="published_has_a_result",
                condition=~Q(state__in=["published", "withdrawn"]) | Q(stored_result__isnull=False),
            ),
        ),
        migrations.RemoveField("release", "workload"),
        migrations.RemoveField("release", "plan"),
        migrations.RemoveField("release", "result"),
    ]
