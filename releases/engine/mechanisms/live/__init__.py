"""Live sessions that answer by plain noise: on each answer, or on the histogram once, when the session is opened.

In: a plan's public inputs, then counts. Out: a session that answers one question at a time. Read ``noise.py`` first;
what all sessions share is in ``pmw/session.py`` and ``pmw/online.py``.
"""
