from __future__ import annotations

from typing import Any, ClassVar

from django.db import migrations

ROWS = (
    ("workload", "stored_questions", "ReleaseQuestions"),
    ("plan", "stored_plan", "ReleasePlan"),
    ("result", "stored_result", "ReleaseResult"),
)


def to_rows(apps: Any, schema_editor: Any) -> None:
    """One release at a time: its result can take megabytes."""
    using = schema_editor.connection.alias
    releases = apps.get_model("releases", "Release").objects.using(using)
    for column, pointer, model in ROWS:
        rows = apps.get_model("releases", model).objects.using(using)
        filled = releases.exclude(**{column: None}).filter(**{pointer: None})
        for number in list(filled.values_list("pk", flat=True)):
            content = releases.values_list(column, flat=True).get(pk=number)
            releases.filter(pk=number).update(**{pointer: rows.create(content=content)})


def from_rows(apps: Any, schema_editor: Any) -> None:
    using = schema_editor.connection.alias
    releases = apps.get_model("releases", "Release").objects.using(using)
    for column, pointer, model in ROWS:
        for number, row in list(releases.exclude(**{pointer: None}).values_list("pk", f"{pointer}_id")):
            content = apps.get_model("releases", model).objects.using(using).values_list("content", flat=True).get(pk=row)
            releases.filter(pk=number).update(**{column: content})


class Migration(migrations.Migration):
    """Questions, plan and result of each release move to rows of their own."""

    dependencies: ClassVar = [("releases", "0039_release_contents")]

    operations: ClassVar = [migrations.RunPython(to_rows, from_rows)]
