from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('releases', '0018_token_scope'),
    ]

    operations = [
        migrations.AddField(
            model_name='releaserequest',
            name='asked_plan',
            field=models.JSONField(null=True),
        ),
    ]
