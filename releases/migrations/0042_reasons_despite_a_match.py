from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    """A reviewer who grants a budget to rows that were recognised says why."""

    dependencies: ClassVar = [('releases', '0041_wide_columns_go')]

    operations: ClassVar = [
        migrations.AddField(
            model_name='budgetrequest',
            name='match_reason',
            field=models.TextField(blank=True, editable=False, default=''),
            preserve_default=False,
        ),
    ]
