"""Writing past the triggers, as somebody with the database's own account could."""

from django.db import connection

#: On PostgreSQL one trigger guards a budget's row.
_ON = {
    "ledger_no_update": "ledger_append_only ON releases_ledgerentry",
    "budget_keeps_its_meaning": "budget_moves_with_an_entry ON releases_budget",
}


def lift(trigger="budget_moves_with_an_entry"):
    """Take a guard off, by its name on SQLite, until the test's transaction is rolled back."""
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            # PostgreSQL alters no table with checks outstanding.
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute(f"DROP TRIGGER IF EXISTS {_ON.get(trigger, f'{trigger} ON releases_budget')}")
        else:
            cursor.execute(f"DROP TRIGGER IF EXISTS {trigger}")
