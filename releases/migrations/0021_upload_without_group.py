from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("releases", "0020_searchable"),
    ]

    operations = [
        # Nobody ever gave one: a dataset is shared once there is one.
        migrations.RemoveField(
            model_name="upload",
            name="group",
        ),
    ]
