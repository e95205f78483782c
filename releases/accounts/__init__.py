"""Signing in: the adapters of django-allauth, and the devices that a person has signed in from.

In: sign-ins and changes of passwords. Out: notes in the audit log; tokens end with a password.
Read ``adapters.py`` first.
"""
