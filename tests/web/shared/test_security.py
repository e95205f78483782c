"""What the browser is told to refuse, and how little each page weighs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.urls import reverse

from tests.stack import ROOT
from tests.web.shared.test_access import assert_is_closed_light_and_well_formed

TEMPLATES = ROOT / "templates"
ACCOUNT_PAGES = [
    *("account_login", "account_signup", "account_reset_password", "account_reset_password_done", "account_logout"),
    *("account_change_password", "account_email", "account_reauthenticate"),
    *("mfa_index", "mfa_activate_totp", "mfa_add_webauthn", "mfa_list_webauthn"),
]


def test_the_pages_of_accounts_and_of_what_is_not_there_are_closed_to_others_light_and_well_formed(as_, alice):
    """Those of the site are looked at where everybody visits them, in `test_access`."""
    addresses = [*map(reverse, ACCOUNT_PAGES), "/nothing/here/"]
    visited = [(address, as_(who).get(address)) for who in (alice, None) for address in addresses]
    pages = [(address, response) for address, response in visited if response.status_code != 302]
    assert len(pages) > len(ACCOUNT_PAGES)
    for address, response in pages:
        assert_is_closed_light_and_well_formed(response, address)


def test_no_answer_may_be_kept_for_others_or_shown_again_unasked(client, confirmed, alice, public):
    for address in (
        reverse("release_detail", args=[public.pk]),
        reverse("download", args=[public.pk, "answers.csv"]),
        reverse("answers", args=[public.pk]),
        "/catalogue",
        "/api/catalogue",
        "/api/datasets",
    ):
        assert client.get(address)["Cache-Control"] == "private, no-cache", address
    made = confirmed(alice).post(reverse("tokens"), {"name": "a script", "days": "30", "scope": "all"})
    assert b"dpweb_" in made.content
    assert "no-store" in made["Cache-Control"]


def test_no_template_has_inline_code_even_in_branches_no_test_visits():
    for template in TEMPLATES.rglob("*.html"):
        text = template.read_text()
        if template.name == "report.html":  # a file that is kept, and no page of the site
            text = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
        assert not re.search(r"\sstyle=|<style\b|\son[a-z]+=|javascript:|hx-on", text), template
        for tag in re.findall(r"<script\b[^>]*>", text):
            # A data block is not run.
            assert "src=" in tag or 'type="application/json"' in tag, template


def test_cookies_are_closed_to_scripts_and_to_other_sites(client, alice):
    client.post("/accounts/login/", {"login": "alice", "password": "correct horse battery staple"})
    session = client.cookies[settings.SESSION_COOKIE_NAME]
    assert (session["httponly"], session["samesite"]) == (True, "Lax")
    assert client.cookies["csrftoken"]["samesite"] == "Lax"


@pytest.fixture
def production(tmp_path):
    environment = {
        **{name: value for name, value in os.environ.items() if name != "DEBUG"},
        "DATA_DIR": str(tmp_path / "var"),
        "HTTPS": "1",
        "TRUSTED_PROXIES": "1",
        "SECRET_KEY": "a secret key of this test alone, of a good length: 8f3a61c0b7d94e25",
        "ALLOWED_HOSTS": "statistics.example.org",
        "DJANGO_SETTINGS_MODULE": "dpweb.settings",
    }

    def run(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)

    return run


def test_the_deployment_check_is_clean_with_production_settings(production):
    done = production("manage.py", "check", "--deploy", "--fail-level", "INFO")
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout + done.stderr


def test_over_https_cookies_follow_and_what_a_proxy_says_is_believed_only_where_one_is_configured(production):
    """Over HTTPS too: without a proxy anybody could send these headers."""
    code = (
        "import importlib, os\n"
        "import dpweb.settings as s\n"
        "for proxies in (None, '0', '1', '2'):\n"
        "    os.environ.pop('TRUSTED_PROXIES', None)\n"
        "    os.environ.update({'TRUSTED_PROXIES': proxies} if proxies else {})\n"
        "    importlib.reload(s)\n"
        "    print(s.ALLAUTH_TRUSTED_PROXY_COUNT, getattr(s, 'SECURE_PROXY_SSL_HEADER', None) is not None)\n"
        "print(s.DEBUG, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_SSL_REDIRECT, s.SECURE_HSTS_SECONDS)"
    )
    *proxies, https = production("-c", code).stdout.splitlines()
    # Gunicorn speaks no HTTPS: where the site is reached over it, there is one.
    assert proxies == ["1 True", "0 False", "1 True", "2 True"]
    assert https.split() == ["False", "True", "True", "True", "31536000"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        pytest.param({"HTTPS": True, "TRUSTED_PROXIES": 0}, {"releases.W001"}, id="it would redirect to itself"),
        pytest.param({"HTTPS": True, "TRUSTED_PROXIES": 1}, set(), id="behind a proxy"),
        pytest.param({"METRICS_TOKEN": "x" * 19}, {"releases.E004"}, id="a metrics token that can be guessed"),
        pytest.param({"METRICS_TOKEN": "x" * 20}, set(), id="a metrics token of 20 characters"),
    ],
)
def test_settings_that_cannot_be_meant_are_found_at_the_start(settings, given, found):
    for name, value in given.items():
        setattr(settings, name, value)
    assert {each.id for each in run_checks()} & {"releases.W001", "releases.E004"} == found


def test_our_own_script_evaluates_nothing():
    script = Path(ROOT / "releases/static/releases/charts.js").read_text()
    assert "eval" not in script
    assert "innerHTML" not in script
    assert "ast: true" in script
