"""Notices to people, on their page and by e-mail, and alerts when a budget runs low.

In: what happened, and to whom it matters. Out: rows that are shown, and mail that is sent later.
Read ``messages.py`` first.
"""
