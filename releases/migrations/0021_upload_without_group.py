from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("releases", "0019_what_was_asked"),
    ]

    operations = [
        # Nobody ever gave one: a dataset is shared once there is one.
        migrations.RemoveField(
            model_name="upload",
            name="group",
        ),
    ]
