"""What people send: a file of any kind that is read here, stored as a table of text.

In: a file, and what its curator declares of it. Out: a Parquet file, its digest, or a refusal in plain words.
Read ``ingest.py`` first.
"""
