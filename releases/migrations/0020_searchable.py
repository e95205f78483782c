"""The words by which the catalogue finds a release stand beside it, also those of releases made before. Indexes have
all that the catalogue, the list of releases and the board of budgets go by, so that these read few of the wide rows."""

import django.db.models.deletion
from django.db import migrations, models

#: Releases read at once: their results are wide.
BATCH = 100


def write_down_words(apps, schema_editor):
    """Of every result that there is; of one that says nothing of columns, no words."""
    from releases.publication.search_index import searchable

    made = apps.get_model("releases", "Release").objects.filter(result__isnull=False)
    kept = apps.get_model("releases", "Searchable").objects
    keys = list(made.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(keys), BATCH):
        results = made.filter(pk__in=keys[start : start + BATCH]).values_list("pk", "result")
        kept.bulk_create(kept.model(release_id=key, text=searchable(result)) for key, result in results)


class Migration(migrations.Migration):

    dependencies = [
        ('releases', '0019_what_was_asked'),
    ]

    operations = [
        migrations.CreateModel(
            name='Searchable',
            fields=[
                ('release', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='searchable', serialize=False, to='releases.release')),
                ('text', models.TextField()),
            ],
        ),
        migrations.RemoveIndex(
            model_name='release',
            name='catalogue',
        ),
        migrations.AddIndex(
            model_name='release',
            index=models.Index(fields=['is_public', 'state', '-published_at', 'certifies', 'dataset', 'title', 'id'], name='catalogue'),
        ),
        migrations.AddIndex(
            model_name='release',
            index=models.Index(fields=['dataset', '-created_at', 'id'], name='releases_of_dataset'),
        ),
        migrations.RemoveIndex(
            model_name='ledgerentry',
            name='entries_by_kind',
        ),
        migrations.AddIndex(
            model_name='ledgerentry',
            index=models.Index(fields=['kind', 'release', 'actor', 'made_at', 'epsilon'], name='entries_by_kind'),
        ),
        migrations.RunPython(write_down_words, migrations.RunPython.noop),
    ]
