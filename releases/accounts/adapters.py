"""Accounts are made by staff, not by visitors; what allauth says of them is said in the site's words."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from allauth.core.internal import ratelimit
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from releases import services
from releases.accounts import known_devices
from releases.ledger import audit_log

#: Wrong passwords for an account from a browser that it was signed in with before.
_ON_A_KNOWN_DEVICE = "5/5m/key"


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

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Hold back who has guessed too often, by account and address together: no guessing elsewhere keeps an owner
        out. A browser in which the owner has signed in before has a count of its own."""
        login = str(credentials.get("username") or credentials.get("email") or "")
        device = known_devices.device_of(request, login=login)
        if not device:
            try:
                super().pre_authenticate(request, **credentials)
            except ValidationError:
                audit_log.held_back(request)
                raise
            return
        self._login_failed_rl_usage = ratelimit.consume(
            request,
            app="allauth.account",
            action="login_failed",
            config={"login_failed": _ON_A_KNOWN_DEVICE},
            key=f"{device}:{login.lower()}",
        )
        if not self._login_failed_rl_usage:
            audit_log.held_back(request)
            raise self.validation_error("too_many_login_attempts")

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        address = ratelimit.truncate_ip(self.get_client_ip(request))
        return f"{super()._get_login_attempts_cache_key(request, **credentials)}:{address}"

    def post_login(self, request: HttpRequest, user: AbstractBaseUser, **more: Any) -> HttpResponse:
        response: HttpResponse = super().post_login(request, user, **more)
        known_devices.remember(request, response, user)
        return response

    def set_password(self, user: AbstractBaseUser, password: str) -> None:
        # With the tokens that end by it, or not at all.
        with transaction.atomic():
            super().set_password(user, password)


class TokensEndWithThePassword:
    """Revokes a person's tokens when their password is new, on whatever page or command line it was set.

    A password that is only hashed again, as Django does at a sign-in after its hashing has changed, is not new.
    """

    def validate(self, password: str, user: AbstractBaseUser | None = None) -> None:
        return None

    def get_help_text(self) -> str:
        return "Your tokens for programs end with the old password. Make new ones afterwards."

    def password_changed(self, password: str, user: AbstractBaseUser | None = None) -> None:
        """Called by Django once the new password is saved."""
        if user is None or user.pk is None:
            return
        request = context.request
        by = request.user if request is not None and request.user.is_authenticated else None
        number = services.tokens.end_tokens(owner=cast("User", user), by=by)
        if number and request is not None:
            ended = "1 token for programs was" if number == 1 else f"{number} tokens for programs were"
            messages.warning(request, f"With the old password, {ended} revoked. Programs need new ones.")


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
