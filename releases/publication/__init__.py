"""What a published release consists of: its receipt, files, data dictionary, README, archive, registry entry.

In: a finished run and its release. Out: files on disc, written once, and what is derived from them.
Read ``receipt.py`` first, then ``files.py``.
"""
