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
    dependencies = [("releases", "0030_recognition"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.AddField("installation", "number", models.PositiveBigIntegerField(default=0)),
        migrations.AddField("installation", "head", models.CharField(blank=True, default="", max_length=64)),
        migrations.AddField("installation", "restored_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField("installation", "has_ended_sign_ins", models.BooleanField(default=False)),
        migrations.AddField("installation", "settled", models.JSONField(default=list)),
        migrations.AlterField(
            "auditevent",
            "action",
            models.CharField(
                choices=[
                    ('sign-in', 'signed in'),
                    ('sign-out', 'signed out'),
                    ('sign-in failed', 'failed to sign in'),
                    ('account', "changed the account's security"),
                    ('password', 'changed the password of'),
                    ('remove factor', 'removed a second factor of'),
                    ('revoke token', 'revoked tokens of'),
                    ('close account', 'closed the account of'),
                    ('open account', 'opened the account of'),
                    ('join group', 'put into a group'),
                    ('leave group', 'took out of a group'),
                    ('upload', 'uploaded a table'),
                    ('discard', 'discarded'),
                    ('rename', 'renamed'),
                    ('discard table', 'discarded'),
                    ('delete rows', 'deleted the rows of'),
                    ('declare', 'declared columns or protection'),
                    ('save', 'saved'),
                    ('load plan', 'loaded a plan into'),
                    ('share', 'shared a dataset'),
                    ('unshare', 'shared with fewer'),
                    ('request', 'asked for'),
                    ('take back', 'took a request back'),
                    ('first approval', 'approved, as the first of two'),
                    ('approve', 'approved'),
                    ('deny', 'denied'),
                    ('ask back', 'asked back'),
                    ('join', 'joined to another budget'),
                    ('ask consent', 'asked an owner about'),
                    ('submit', 'charged and queued'),
                    ('cancel', 'cancelled'),
                    ('publish', 'finished'),
                    ('open', 'opened the session'),
                    ('close', 'closed the session'),
                    ('fail', 'gave up on'),
                    ('make public', 'made public'),
                    ('make private', 'made private'),
                    ('withdraw', 'withdrew'),
                    ('open survey', 'opened'),
                    ('close survey', 'closed'),
                    ('download', 'downloaded'),
                    ('freeze', 'froze'),
                    ('unfreeze', 'unfroze'),
                    ('restore', 'booked what was missing'),
                    ('verify', 'verified the ledger'),
                    ('export', 'exported'),
                    ('settings', 'changed the settings'),
                    ('roles', 'changed the roles of'),
                    ('take role', 'took a role of'),
                    ('notices', 'turned e-mail on or off'),
                ],
                db_index=True,
                max_length=20,
            ),
        ),
        migrations.RunPython(name_the_database, migrations.RunPython.noop),
    ]
