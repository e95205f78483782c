"""A session's workload names the columns that it can be asked about. It used to name the first of them alone."""

from typing import Any

from django.db import migrations


def _first_bin(column: dict[str, Any]) -> Any:
    if column.get("categories"):
        return [column["categories"][0]]
    lowest, second = column["edges"][:2]
    return {"from": lowest, "to": second}


def name_all_columns(apps: Any, schema_editor: Any) -> None:
    for release in apps.get_model("releases", "Release").objects.filter(is_session=True).select_related("dataset"):
        # What was planned is about the columns of its plan; a draft, about those that are declared.
        columns = release.plan["schema"]["columns"] if release.plan else release.dataset.declared
        if release.workload and columns:
            count = {column["name"]: _first_bin(column) for column in columns}
            release.workload = {"version": 1, "queries": [{"count": count}]}
            release.save(update_fields=["workload"])


class Migration(migrations.Migration):
    dependencies = [
        ("releases", "0012_finished_is_not_public"),
    ]

    operations = [
        migrations.RunPython(name_all_columns, migrations.RunPython.noop),
    ]
