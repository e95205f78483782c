"""What a release costs, and whether a budget admits it.

In: privacy events, that is each mechanism's noise and how often it is drawn. Out: prices, rounded up, and yes or no.
Nothing here touches data. Read ``events.py`` first, then ``accountant.py``, then ``filters.py``.
"""
