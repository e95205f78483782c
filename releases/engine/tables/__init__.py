"""Reading tables: ingestion, statements in the database's dialect, and the exact counts that mechanisms start from.

In: files, a ``Schema``, the columns asked about. Out: exact counts and sums, which only mechanisms may see.
This is the one room that reads data. Read ``query.py`` first.
"""
