"""What a single button or a link says, on pages of several rooms."""

from __future__ import annotations

from typing import ClassVar

from django import forms

from releases.forms.fields import LenientForm, SentField, TextsField, missing


class CheckForm(LenientForm):
    """Whether a form was sent only to hear what is wrong with it."""

    check = SentField()


class SearchForm(LenientForm):
    q = forms.CharField(required=False)

    @property
    def wanted(self) -> str:
        return self.given["q"] or ""


class VisibilityForm(forms.Form):
    """Whether something is to be public, and which certificates of it."""

    YES: ClassVar = "yes"
    public = forms.ChoiceField(
        choices=[(YES, "public"), ("no", "private")],
        error_messages={
            **missing("public: nothing was chosen; must be yes or no"),
            "invalid_choice": "public: '%(value)s' must be yes or no",
        },
    )
    certificates = TextsField()


class MailForm(forms.Form):
    """Whether notices come by e-mail too."""

    YES: ClassVar = "yes"
    wants_mail = forms.ChoiceField(
        choices=[(YES, "by e-mail too"), ("no", "on the site alone")],
        error_messages={
            **missing("E-mail: nothing was chosen."),
            "invalid_choice": "E-mail: '%(value)s' must be yes or no.",
        },
    )
