"""Pages of reviewers: budgets, their ledger, and requests to decide.

In: budgets, entries of the ledger, requests. Out: `BudgetPage`, `QueuePage`, `LedgerRow`.
Read ``budget_page.py`` first.
"""
