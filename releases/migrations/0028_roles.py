"""Roles are stored. Nobody loses what they could do, but that only curators upload tables from now on."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def give_first_roles(apps, schema_editor):
    """By what people could do before:

    analyst         everybody asked in open sessions
    curator         whoever owns a dataset or an upload
    reviewer        staff saw the reviewers' pages, and so did the group that decides
    administrator   staff changed the organisation's settings; superusers did everything in Django's admin

    Where a group decides, reviewers outside of it look on, as before.
    """
    person = apps.get_model(settings.AUTH_USER_MODEL)
    held = apps.get_model("releases", "HeldRole")
    everybody = person.objects.all()
    deciding = apps.get_model("releases", "Organisation").objects.values("reviewers")
    first = [
        ("analyst", everybody),
        ("curator", everybody.filter(pk__in=apps.get_model("releases", "Dataset").objects.values("owner"))),
        ("curator", everybody.filter(pk__in=apps.get_model("releases", "Upload").objects.values("owner"))),
        ("reviewer", everybody.filter(is_staff=True)),
        ("reviewer", everybody.filter(groups__in=deciding)),
        ("administrator", everybody.filter(is_staff=True)),
        ("administrator", everybody.filter(is_superuser=True)),
    ]
    for role, people in first:
        given = [held(person_id=number, role=role) for number in people.values_list("pk", flat=True)]
        held.objects.bulk_create(given, ignore_conflicts=True, batch_size=500)


class Migration(migrations.Migration):
    dependencies = [
        ("releases", "0027_fingerprints"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="HeldRole",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("role", models.CharField(choices=[("analyst", "analyst"), ("curator", "curator"), ("reviewer", "reviewer"), ("administrator", "administrator")], max_length=15)),
                ("person", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="held_roles", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("person", "role"), name="each_role_once")],
            },
        ),
        migrations.AlterField(
            model_name="auditevent",
            name="action",
            field=models.CharField(choices=[('sign-in', 'signed in'), ('sign-out', 'signed out'), ('sign-in failed', 'failed to sign in'), ('account', "changed the account's security"), ('upload', 'uploaded a table'), ('discard', 'discarded'), ('rename', 'renamed'), ('delete rows', 'deleted the rows of'), ('declare', 'declared columns or protection'), ('save', 'saved'), ('load plan', 'loaded a plan into'), ('share', 'shared a dataset'), ('request', 'asked for'), ('take back', 'took a request back'), ('first approval', 'approved, as the first of two'), ('approve', 'approved'), ('deny', 'denied'), ('ask back', 'asked back'), ('submit', 'charged and queued'), ('cancel', 'cancelled'), ('publish', 'finished'), ('open', 'opened the session'), ('close', 'closed the session'), ('fail', 'gave up on'), ('make public', 'made public'), ('make private', 'made private'), ('withdraw', 'withdrew'), ('open survey', 'opened'), ('close survey', 'closed'), ('download', 'downloaded'), ('freeze', 'froze'), ('unfreeze', 'unfroze'), ('restore', 'booked what was missing'), ('verify', 'verified the ledger'), ('export', 'exported'), ('settings', 'changed the settings'), ('roles', 'changed the roles of'), ('notices', 'turned e-mail on or off')], db_index=True, max_length=20),
        ),
        migrations.RunPython(give_first_roles, migrations.RunPython.noop),
    ]
