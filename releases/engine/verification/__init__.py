"""Evidence that the engine does what it claims, gathered by running it: for `manage.py verify` and for the tests.

Proofs are beside the code; what is here would notice where code and proof part. `privacy_loss` tells neighbouring
tables apart by what mechanisms release, `coverage` counts answers that leave their bound, `oracles` prices known plans
by other software. `recording` compares what is drawn for two tables, and takes noise away to see whether that is
noticed.

Nothing here is imported by what releases anything.
"""
