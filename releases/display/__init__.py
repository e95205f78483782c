"""How values are put before people: charts, formulas, durations, the glossary, error messages.

In: plain values and errors. Out: specifications of charts, MathML and words. Nothing here reads the database.
Read ``error_messages.py`` first.
"""
