from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("releases", "0043_share_rule"),
    ]

    operations = [
        migrations.AddField(
            model_name="upload",
            name="seconds_left",
            field=models.FloatField(blank=True, null=True),
        ),
    ]
