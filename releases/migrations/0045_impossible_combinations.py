from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("releases", "0044_seconds_left"),
    ]

    operations = [
        migrations.AddField(
            model_name="dataset",
            name="impossible",
            field=models.JSONField(blank=True, default=list),
        ),
    ]
