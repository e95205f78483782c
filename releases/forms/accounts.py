"""allauth's forms in the site's words: they behave as theirs, and only labels and help differ."""

from __future__ import annotations

from typing import Any, ClassVar

from allauth.account import forms as account
from allauth.mfa.base import forms as mfa
from allauth.mfa.totp import forms as totp
from allauth.mfa.webauthn import forms as passkeys

_CODE = "Code from the app, or a recovery code"


class _InOurWords:
    """Gives fields the labels and helps below, and takes the placeholders out that would say it another way."""

    labels: ClassVar[dict[str, str]] = {}
    helps: ClassVar[dict[str, str]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        fields: dict[str, Any] = self.fields  # type: ignore[attr-defined]
        for name, label in self.labels.items():
            fields[name].label = label
            fields[name].widget.attrs.pop("placeholder", None)
        for name, text in self.helps.items():
            fields[name].help_text = text


class AddEmailForm(_InOurWords, account.AddEmailForm):
    labels: ClassVar = {"email": "E-mail address"}


class ResetPasswordForm(_InOurWords, account.ResetPasswordForm):
    labels: ClassVar = {"email": "E-mail address"}


class ChangePasswordForm(_InOurWords, account.ChangePasswordForm):
    labels: ClassVar = {
        "oldpassword": "Current password",
        "password1": "New password",
        "password2": "New password, again",
    }
    helps: ClassVar = {"oldpassword": ""}


class SetPasswordForm(_InOurWords, account.SetPasswordForm):
    labels: ClassVar = {"password1": "New password", "password2": "New password, again"}


class ResetPasswordKeyForm(_InOurWords, account.ResetPasswordKeyForm):
    labels: ClassVar = {"password1": "New password", "password2": "New password, again"}


class ReauthenticateForm(_InOurWords, account.ReauthenticateForm):
    labels: ClassVar = {"password": "Password"}
    helps: ClassVar = {"password": ""}


class AuthenticateForm(_InOurWords, mfa.AuthenticateForm):
    labels: ClassVar = {"code": _CODE}


class ReauthenticateByCodeForm(_InOurWords, mfa.ReauthenticateForm):
    labels: ClassVar = {"code": _CODE}


class ActivateTOTPForm(_InOurWords, totp.ActivateTOTPForm):
    labels: ClassVar = {"code": "Code that the app shows"}


class AddPasskeyForm(_InOurWords, passkeys.AddWebAuthnForm):
    labels: ClassVar = {"name": "Name", "passwordless": "Sign in with it alone, without the password"}
    helps: ClassVar = {
        "name": "To tell your passkeys apart.",
        "passwordless": "It then has to ask for a PIN, a finger or a face. If not, it comes after the password.",
    }


class EditPasskeyForm(_InOurWords, passkeys.EditWebAuthnForm):
    labels: ClassVar = {"name": "Name"}
