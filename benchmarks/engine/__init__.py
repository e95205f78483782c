"""What the software costs and reaches, measured: run by `manage.py bench`, never by the tests or by a release.

Each module has one function that yields its tables. A figure with a target says whether it is met; one beside a peer is
measured in the same process, right after the other.
"""
