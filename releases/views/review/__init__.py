"""Pages for reviewers: what waits for a decision, all budgets, the ledger, backups, settings of the site.

In: requests for budgets and releases. Out: decisions, through ``services``. Read ``queue.py`` first.
"""
