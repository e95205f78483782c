"""Accounts are made by staff, not by visitors; what allauth says of them is said in the site's words."""

from __future__ import annotations

from typing import ClassVar

from allauth.account.adapter import DefaultAccountAdapter
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest


class ClosedAccountAdapter(DefaultAccountAdapter):
    """Sign-up is closed: who may see personal data is an organisation's decision."""

    error_messages: ClassVar = DefaultAccountAdapter.error_messages | {
        "account_inactive": "This account is closed.",
        "cannot_remove_primary_email": "The main e-mail address cannot be removed. Make another the main one first.",
        "duplicate_email": "This e-mail address is yours already.",
        "email_password_mismatch": "No account has this e-mail address and this password.",
        "email_taken": "This e-mail address is somebody's already.",
        "enter_current_password": "This is not your current password.",
        "incorrect_code": "This code is not right. It changes every 30 seconds; take the one shown now.",
        "incorrect_password": "This password is not right.",
        "max_email_addresses": "You cannot have more than %d e-mail addresses.",
        "rate_limited": "Too many attempts. Wait three minutes and try again.",
        # The longer of allauth's two limits: five wrong passwords for one account within five minutes.
        "too_many_login_attempts": "Too many failed attempts to sign in. Wait five minutes and try again.",
        "unknown_email": "Nobody has this e-mail address.",
        "unverified_primary_email": "Your main e-mail address has to be confirmed first.",
        "username_password_mismatch": "No account has this user name and this password.",
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False


class SecondFactorAdapter(DefaultMFAAdapter):
    error_messages: ClassVar = DefaultMFAAdapter.error_messages | {
        "add_email_blocked": "An account with a second factor cannot be given another e-mail address.",
        "cannot_delete_authenticator": "This second factor cannot be removed.",
        "cannot_generate_recovery_codes": "Recovery codes are for accounts with a second factor. Add one first.",
        "incorrect_code": ClosedAccountAdapter.error_messages["incorrect_code"],
    }

    def get_totp_issuer(self) -> str:
        return f"dpweb at {self._get_site_name()}"

    def generate_authenticator_name(self, user: AbstractBaseUser, type: Authenticator.Type) -> str:
        number = Authenticator.objects.filter(user_id=user.pk, type=type).count()
        return f"Passkey {number + 1}"
