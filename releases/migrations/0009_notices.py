import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('releases', '0008_surveys'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='MailChoice',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='mail_choice', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('wants_mail', models.BooleanField(default=True)),
            ],
        ),
        migrations.RemoveField(
            model_name='budgetalert',
            name='sent_at',
        ),
        migrations.AlterField(
            model_name='auditevent',
            name='action',
            field=models.CharField(choices=[('sign-in', 'signed in'), ('sign-out', 'signed out'), ('sign-in failed', 'failed to sign in'), ('account', "changed the account's security"), ('upload', 'uploaded a table'), ('discard', 'discarded'), ('declare', 'declared columns or protection'), ('load plan', 'loaded a plan into'), ('share', 'shared a dataset'), ('request', 'asked for'), ('take back', 'took a request back'), ('first approval', 'approved, as the first of two'), ('approve', 'approved'), ('deny', 'denied'), ('ask back', 'asked back'), ('submit', 'charged and queued'), ('cancel', 'cancelled'), ('publish', 'published'), ('open', 'opened the session'), ('fail', 'gave up on'), ('make public', 'made public'), ('make private', 'made private'), ('withdraw', 'withdrew'), ('open survey', 'opened'), ('close survey', 'closed'), ('download', 'downloaded'), ('freeze', 'froze'), ('unfreeze', 'unfroze'), ('restore', 'booked what was missing'), ('verify', 'verified the ledger'), ('export', 'exported'), ('settings', 'changed the settings'), ('notices', 'turned e-mail on or off')], db_index=True, max_length=20),
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('addresses', models.TextField(blank=True, help_text='one a line; empty where no e-mail is wanted')),
                ('title', models.CharField(max_length=250)),
                ('text', models.TextField()),
                ('path', models.CharField(help_text='of the page it is about', max_length=100)),
                ('made_at', models.DateTimeField(auto_now_add=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('read_at', models.DateTimeField(blank=True, null=True)),
                ('person', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['person', 'read_at'], name='notices_to_read'), models.Index(condition=models.Q(('sent_at', None)), fields=['id'], name='notices_to_send'), models.Index(fields=['path'], name='notices_by_page')],
            },
        ),
    ]
