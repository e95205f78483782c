"""Pages. Each fetches with a getter that returns the object or a 404, calls one service, and renders.

One room for each noun: datasets, releases, results, sessions, surveys, review, account, public; ``common`` for all.
In: requests. Out: HTML and downloads. Nothing is written here but through `services`.
Read ``../permissions.py`` first, then ``datasets/datasets.py``.
"""
