"""What recognises a table's rows in another dress. A worker takes it of the tables that are there already."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("releases", "0026_guards")]

    operations = [
        migrations.CreateModel(
            name="Fingerprint",
            fields=[
                ("dataset", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name="fingerprint", serialize=False, to="releases.dataset")),
                ("digest", models.CharField(db_index=True, max_length=64, null=True)),
                ("sketch", models.BinaryField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Relative",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("share", models.CharField(choices=[("few", "some of the rows"), ("half", "half of the rows or more"), ("all", "about all of the rows")], max_length=4)),
                ("one", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="relatives", to="releases.dataset")),
                ("other", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="+", to="releases.dataset")),
            ],
        ),
        migrations.AddConstraint(
            model_name="relative",
            constraint=models.UniqueConstraint(fields=("one", "other"), name="relatives_once"),
        ),
    ]
