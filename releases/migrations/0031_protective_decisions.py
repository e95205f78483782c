"""How much a database knows of the record outside it, and a key of its own for every database."""

import uuid

from django.conf import settings
from django.db import migrations, models

from releases.ledger import chain


def name_the_database(apps, schema_editor):
    """A database without entries had no key until now. One that has people and finds marks is taken for an older one of
    the same site; an empty one is another database, whatever marks it finds."""
    installation = apps.get_model("releases", "Installation")
    if installation.objects.exists():
        return
    whose = chain.whose()
    is_older = whose is not None and apps.get_model(settings.AUTH_USER_MODEL).objects.exists()
    installation.objects.create(id=1, key=whose.key if is_older else uuid.uuid4())


class Migration(migrations.Migration):
    dependencies = [("releases", "0029_workloads"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField("installation", "number", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("installation", "head", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddField("installation", "restored_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("installation", "has_ended_sign_ins", models.BooleanField(default=False)),
        migrations.AddField("installation", "settled", models.JSONField(default=list)),
        migrations.RunPython(name_the_database, migrations.RunPython.noop),
    ]
