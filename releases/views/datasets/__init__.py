"""Pages of a dataset: upload, columns, codebooks, learned declarations, protection, budget request.

In: a curator's work on one table. Out: declarations, through ``services``. Read ``datasets.py`` first.
"""
