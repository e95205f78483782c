from __future__ import annotations

import uuid
from typing import ClassVar

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """Administrators register databases and folders on the site."""

    dependencies: ClassVar = [
        ('releases', '0037_collections'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations: ClassVar = [
        migrations.AlterField(
            model_name='auditevent',
            name='action',
            field=models.CharField(choices=[('sign-in', 'signed in'), ('sign-out', 'signed out'), ('sign-in failed', 'failed to sign in'), ('account', "changed the account's security"), ('password', 'changed the password of'), ('remove factor', 'removed a second factor of'), ('revoke token', 'revoked tokens of'), ('close account', 'closed the account of'), ('open account', 'opened the account of'), ('join group', 'put into a group'), ('leave group', 'took out of a group'), ('upload', 'uploaded a table'), ('discard', 'discarded'), ('rename', 'renamed'), ('discard table', 'discarded'), ('delete rows', 'deleted the rows of'), ('declare', 'declared columns or protection'), ('save', 'saved'), ('load plan', 'loaded a plan into'), ('share', 'shared a dataset'), ('unshare', 'shared with fewer'), ('request', 'asked for'), ('take back', 'took a request back'), ('first approval', 'approved, as the first of two'), ('approve', 'approved'), ('deny', 'denied'), ('ask back', 'asked back'), ('join', 'joined to another budget'), ('ask consent', 'asked an owner about'), ('submit', 'charged and queued'), ('cancel', 'cancelled'), ('publish', 'finished'), ('open', 'opened the session'), ('close', 'closed the session'), ('fail', 'gave up on'), ('make public', 'made public'), ('make private', 'made private'), ('withdraw', 'withdrew'), ('open survey', 'opened'), ('close survey', 'closed'), ('download', 'downloaded'), ('freeze', 'froze'), ('unfreeze', 'unfroze'), ('restore', 'booked what was missing'), ('verify', 'verified the ledger'), ('export', 'exported'), ('settings', 'changed the settings'), ('register connection', 'registered'), ('remove connection', 'removed'), ('roles', 'changed the roles of'), ('take role', 'took a role of'), ('notices', 'turned e-mail on or off')], db_index=True, max_length=20),
        ),
        migrations.CreateModel(
            name='RegisteredConnection',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=40, unique=True)),
                ('address', models.CharField(max_length=500)),
                ('registered_at', models.DateTimeField(auto_now_add=True)),
                ('server_version', models.TextField(blank=True)),
                ('software', models.CharField(max_length=200)),
                ('registered_by', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'connection',
            },
        ),
    ]
