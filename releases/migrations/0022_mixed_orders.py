"""Sums at each order of a mixture, from the prices that charges recorded; budgets granted before keep their rule.

A charge that stands added the divergences of its recorded price. Where an entry recorded none (a restored backup), it
added at most its rho at every order. Whether a budget may leave its rule is decided when it is granted more
(`releases.engine.filters`, on the rule of before), so no budget can spend more by this migration.
"""

from django.db import migrations, models

from releases.engine.accounting.mixture import ORDERS, divergences

CLOSED = 4 * 10**18


def add_up(apps, schema_editor):
    Budget = apps.get_model("releases", "Budget")
    LedgerEntry = apps.get_model("releases", "LedgerEntry")
    for budget in Budget.objects.exclude(sequence=0):
        entries = LedgerEntry.objects.filter(budget=budget)
        returned = {each["returns"] for each in entries.filter(kind="return").values_list("detail", flat=True)}
        sums = [0] * len(ORDERS)
        for entry in entries.filter(kind__in=("charge", "restore")).exclude(sequence__in=returned).iterator():
            price = entry.detail.get("price")
            if price is not None:
                costs = divergences(pure_epsilon=price["pure_epsilon"], rho=price["rho"], closed=CLOSED)
            elif entry.rho:
                costs = divergences(pure_epsilon=None, rho=entry.rho, closed=CLOSED)
                costs = [cost + 10**6 for cost in costs]
            else:
                continue
            sums = [min(CLOSED, spent + cost) for spent, cost in zip(sums, costs)]
        Budget.objects.filter(pk=budget.pk).update(spent_orders=sums)
    Budget.objects.filter(policy="zcdp").exclude(epsilon="").update(keeps_rule_of_before=True)


class Migration(migrations.Migration):
    dependencies = [("releases", "0021_upload_without_group")]
    operations = [
        migrations.AddField("budget", "spent_orders", models.JSONField(blank=True, default=list)),
        migrations.AddField("budget", "keeps_rule_of_before", models.BooleanField(default=False)),
        migrations.AddField("ledgerentry", "orders", models.JSONField(null=True)),
        migrations.RunPython(add_up, migrations.RunPython.noop),
    ]
