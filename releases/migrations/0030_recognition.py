"""Few distinct rows are no evidence. What is alike is no longer stored, and a reviewer joins budgets by an act."""

import struct

import django.db.models.deletion
from django.db import migrations, models

#: As many hashes as a full sample of a sketch has.
KEPT = 256
ACTIONS = [('sign-in', 'signed in'), ('sign-out', 'signed out'), ('sign-in failed', 'failed to sign in'), ('account', "changed the account's security"), ('upload', 'uploaded a table'), ('discard', 'discarded'), ('rename', 'renamed'), ('delete rows', 'deleted the rows of'), ('declare', 'declared columns or protection'), ('save', 'saved'), ('load plan', 'loaded a plan into'), ('share', 'shared a dataset'), ('request', 'asked for'), ('take back', 'took a request back'), ('first approval', 'approved, as the first of two'), ('approve', 'approved'), ('deny', 'denied'), ('ask back', 'asked back'), ('join', 'joined to another budget'), ('ask consent', 'asked an owner about'), ('submit', 'charged and queued'), ('cancel', 'cancelled'), ('publish', 'finished'), ('open', 'opened the session'), ('close', 'closed the session'), ('fail', 'gave up on'), ('make public', 'made public'), ('make private', 'made private'), ('withdraw', 'withdrew'), ('open survey', 'opened'), ('close survey', 'closed'), ('download', 'downloaded'), ('freeze', 'froze'), ('unfreeze', 'unfroze'), ('restore', 'booked what was missing'), ('verify', 'verified the ledger'), ('export', 'exported'), ('settings', 'changed the settings'), ('roles', 'changed the roles of'), ('notices', 'turned e-mail on or off')]


def forget_what_is_no_evidence(apps, schema_editor):
    """Of how many distinct rows a digest is was never noted: a worker takes it again of the tables that are there.

    A full sample of all columns shows that a whole file has enough of them. A budget that was joined stays joined.
    """
    fingerprints = apps.get_model("releases", "Fingerprint").objects
    fingerprints.update(digest=None)
    for each in fingerprints.filter(sketch__isnull=False).iterator(chunk_size=50):
        sketch = bytes(each.sketch)
        version, number = struct.unpack_from("<BH", sketch)
        is_telling = version == 1 and number > 0 and struct.unpack_from("<H", sketch, 3)[0] >= KEPT
        fingerprints.filter(pk=each.pk).update(is_telling=is_telling)


class Migration(migrations.Migration):
    dependencies = [("releases", "0029_workloads")]

    operations = [
        migrations.AddField("fingerprint", "is_telling", models.BooleanField(null=True)),
        migrations.AddField(
            "budgetrequest",
            "joins",
            models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="releases.budget"),
        ),
        migrations.AlterField("auditevent", "action", models.CharField(choices=ACTIONS, db_index=True, max_length=20)),
        migrations.RunPython(forget_what_is_no_evidence, migrations.RunPython.noop),
        migrations.DeleteModel("Relative"),
    ]
