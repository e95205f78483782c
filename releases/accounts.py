"""Accounts are made by staff, not by visitors."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class ClosedAccountAdapter(DefaultAccountAdapter):
    """Sign-up is closed: who may see personal data is an organisation's decision."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
