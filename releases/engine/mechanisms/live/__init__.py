"""Live sessions that answer by plain noise, or by what they bought when they were opened: a histogram, a list, a fit.

In: a plan's public inputs, then counts. Out: a session that answers one question at a time. Read ``noise.py`` first;
what all sessions share is in ``pmw/session.py`` and ``pmw/online.py``.
"""
