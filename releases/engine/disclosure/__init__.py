"""What a published attack finds out about people from synthetic rows, tried on invented tables. Data-free.

In: a plan and randomness. Out: how often a hidden answer is guessed right of people inside and outside of the table.
Nothing here gets rows, counts or results of a table of people: tables are invented from the plan's declared columns.
Read `membership.py` first.
"""
