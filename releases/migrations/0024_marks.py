"""Whose marks are whose, and the marks of budgets from before: from now on a mark that is missing is a loss."""

import uuid

from django.db import migrations, models
from django.db.models import Q

from releases.ledger import chain, high_water_marks
from releases.engine.accounting.filters import CLOSED, Totals


def mark_what_stands(apps, schema_editor):
    """Once for an installation: where there are entries and no folder that says whose marks it holds, every budget's
    mark is written as its ledger stands, unless one stands that is as high or higher."""
    Budget, Installation = apps.get_model("releases", "Budget"), apps.get_model("releases", "Installation")
    begun = Budget.objects.filter(sequence__gt=0)
    if not begun.exists():
        return
    whose = chain.whose()
    own = Installation.objects.create(id=1, key=whose.key if whose else uuid.uuid4(), acknowledged=[])
    if whose is not None:
        # A backup from before was restored beside marks from afterwards: what is missing there is lost.
        return
    for budget in begun:
        standing = high_water_marks.read(budget.pk)
        if standing is None or (standing.sequence, standing.hash) == (budget.sequence, budget.head):
            granted = {column: getattr(budget, column) for column in ("epsilon", "delta", "policy", "unit", "neighbours")}
            # A sum that is only added up in a later migration is not known here, and unknown is no room.
            totals = Totals.read({column: getattr(budget, column, CLOSED) for column in Totals().columns()})
            mark = high_water_marks.Mark(
                sequence=budget.sequence,
                hash=budget.head,
                totals=totals,
                granted=granted if budget.epsilon else None,
                name=budget.name,
            )
            high_water_marks.put(budget.pk, mark)
    chain.belong_to(own.key)


class Migration(migrations.Migration):
    # Files cannot be undone with a transaction: each is written only where none stands, so a second try is the same.
    dependencies = [("releases", "0022_mixed_orders")]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                (
                    "id",
                    models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False),
                ),
                ("key", models.UUIDField(default=uuid.uuid4, editable=False)),
                ("acknowledged", models.JSONField(default=list)),
            ],
            options={
                "constraints": [models.CheckConstraint(condition=Q(id=1), name="one_installation")],
            },
        ),
        migrations.RunPython(mark_what_stands, migrations.RunPython.noop),
    ]
