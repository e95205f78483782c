"""What a table can hold and whom it is about: the universe, the schema, the privacy unit and budget.

In: JSON declarations. Out: ``Universe``, ``Schema``, ``PrivacyBudget``, read by every other room.
Read ``privacy.py`` first, then ``attribute.py``, ``universe.py`` and ``schema.py``.
"""
