"""Pages of live sessions: plan one, ask in it, read its transcript, close it.

In: questions one at a time. Out: answers that are published at once. Read ``sessions.py`` first.
"""
