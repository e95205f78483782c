"""What the browser is told to refuse, and how little each page weighs."""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.urls import reverse

from releases import services
from tests.stack import ROOT
from tests.web.pages import body

TEMPLATES = ROOT / "templates"
ACCOUNT_PAGES = [
    *("account_login", "account_signup", "account_reset_password", "account_reset_password_done", "account_logout"),
    *("account_change_password", "account_email", "account_reauthenticate"),
    *("mfa_index", "mfa_activate_totp", "mfa_add_webauthn", "mfa_list_webauthn"),
]


@pytest.fixture
def every_page(dataset, draft, make_queued, asked, as_, alice, sofia):
    """Each page of the site as (address, response), as whoever sees most of it."""
    full = make_queued(dataset, mechanism="laplace-histogram", epsilon="0.5")
    assert services.execution.execute_release(release_id=full.pk)
    queued = make_queued(dataset, epsilon="0.1")
    own = [
        *(reverse(name) for name in ("home", "catalogue", "dataset_list", "upload", "release_list")),
        *(reverse(name, args=[dataset.pk]) for name in ("dataset_detail", "columns", "protection", "budget")),
        *(reverse(name, args=[asked.budget.datasets.first().pk]) for name in ("protection", "budget")),
        *(reverse(name, args=[draft.pk]) for name in ("questions", "compare", "confirm")),
        reverse("compare", args=[draft.pk]) + "?curves=1&error=20",
        *(reverse(name, args=[full.pk]) for name in ("release_detail", "receipt")),
        reverse("release_detail", args=[queued.pk]),
        "/nothing/here/",
    ]
    review = [
        *(reverse(name) for name in ("review_queue", "budget_board")),
        reverse("budget_request", args=[asked.pk]),
        reverse("budget_detail", args=[dataset.budget.pk]),
    ]
    accounts = [reverse(name) for name in ACCOUNT_PAGES]
    visits = [(alice, own), (sofia, review), (alice, accounts), (None, [*accounts, "/catalogue/"])]
    answers = ((f"{each} as {who}", as_(who).get(each)) for who, addresses in visits for each in addresses)
    return [(address, response) for address, response in answers if response.status_code != 302]


def directives(response):
    policy = response["Content-Security-Policy"]
    return {part.split()[0]: part.split()[1:] for part in policy.split(";") if part.strip()}


WANTED = {"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
WANTED |= {"Cross-Origin-Opener-Policy": "same-origin"}


def test_every_page_is_closed_to_others_light_and_well_formed(every_page):
    """It may run and style the site's own files alone, asks no other host for anything, and may not be kept for others.
    HTML, style and htmx, compressed, are few bytes; charts are loaded only where there are some."""
    shared = ["site.css", "vendor/pico-2.1.1.min.css", "vendor/htmx-2.0.11.min.js"]
    static = ROOT / "releases/static/releases"
    common = sum(len(gzip.compress((static / name).read_bytes())) for name in shared)
    for address, response in every_page:
        policy, page = directives(response), body(response)
        assert policy["default-src"] == ["'none'"], address
        assert policy["script-src"] == policy["style-src"] == ["'self'"], address
        assert "unsafe" not in response["Content-Security-Policy"], address
        assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"], address
        assert policy["form-action"] == ["'self'"], address
        assert {name: response[name] for name in WANTED} == WANTED, address
        assert {"private", "no-store"} & set(response["Cache-Control"].split(", ")), address
        links = re.findall(r"""\b(?:src|href|action)=["']([a-z]+:[^"']*|//[^"']*)""", page)
        assert [link for link in links if not link.startswith("data:image/svg+xml")] == [], address
        assert common + len(gzip.compress(page.encode())) < 60_000, address
        assert '<html lang="en-GB">' in page, address
        assert re.search(r"<title>\s*\S.* · dpweb</title>", page, flags=re.DOTALL), address
        assert page.count("<h1") == 1, address
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), address
    with_charts = {address.split("/")[1] for address, response in every_page if "vega" in body(response)}
    assert with_charts == {"releases", "review"}


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
