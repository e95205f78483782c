"""The ledger: what was spent of each budget, checked and remembered outside the database.

In: prices of submitted releases. Out: entries that are never changed, balances, reports, the audit log.
Only ``ledger.py`` charges. ``high_water_marks.py`` notices an old backup; ``stale_ledger.py`` says what is behind.
Read ``ledger.py`` first.
"""
