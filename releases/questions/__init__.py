"""What the web knows of each kind of question: the fields that ask for it, its words, the unit of its error, how its
answers are shown.

In: questions and statistics of the engine. Out: a `Kind`. One module in ``kinds/`` for each kind, which stands beside
the engine's module of the same name. Read `base.py` first.
"""
