"""What workers share: leases on rows, hints to the broker, and how failures are logged.

In: ids of rows that wait. Out: at most one worker at a time on each. Read ``leases.py`` first.
"""
