"""Saved questions are a SavedWorkload, since a Workload is what the engine answers. The table keeps its name."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations


class Migration(migrations.Migration):
    dependencies: ClassVar = [("releases", "0050_disclosure_tests")]

    operations: ClassVar = [
        migrations.AlterModelTable(name="workload", table="releases_workload"),
        migrations.RenameModel(old_name="Workload", new_name="SavedWorkload"),
    ]
