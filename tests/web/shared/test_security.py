"""What the browser is told to refuse, and how little each page weighs."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse

from tests.stack import ROOT
from tests.web.pages import body, inline_code

pytestmark = pytest.mark.django_db

TEMPLATES = ROOT / "templates"
ACCOUNT_PAGES = [
    "account_login",
    "account_signup",
    "account_reset_password",
    "account_reset_password_done",
    "account_logout",
    "account_change_password",
    "account_email",
    "account_reauthenticate",
    "mfa_index",
    "mfa_activate_totp",
    "mfa_add_webauthn",
    "mfa_list_webauthn",
]


@pytest.fixture
def every_page(dataset, draft, make_draft, make_queued, asked, as_, alice, sofia):
    """Each page of the site as (address, response), as whoever sees most of it."""
    from releases import services

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

    def visit():
        for person, addresses in visits:
            for address in addresses:
                response = as_(person).get(address)
                if response.status_code != 302:
                    yield f"{address} as {person}", response

    return visit


def directives(response):
    policy = response["Content-Security-Policy"]
    return {part.split()[0]: part.split()[1:] for part in policy.split(";") if part.strip()}


def test_no_page_may_run_or_style_anything_but_the_site_s_own_files(every_page):
    for address, response in every_page():
        policy = directives(response)
        assert policy["default-src"] == ["'none'"], address
        assert policy["script-src"] == policy["style-src"] == ["'self'"], address
        assert "unsafe" not in response["Content-Security-Policy"], address
        assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"], address
        assert policy["form-action"] == ["'self'"], address


def test_no_page_has_code_or_style_that_the_policy_would_refuse(every_page):
    found = {address: inline_code(response) for address, response in every_page()}
    assert {address: code for address, code in found.items() if code} == {}


def test_every_page_carries_the_other_headers(every_page):
    for address, response in every_page():
        assert response["X-Frame-Options"] == "DENY", address
        assert response["X-Content-Type-Options"] == "nosniff", address
        assert response["Referrer-Policy"] == "same-origin", address
        assert response["Cross-Origin-Opener-Policy"] == "same-origin", address


def test_no_answer_may_be_kept_for_others_or_shown_again_unasked(every_page, client, as_, confirmed, alice, public):
    for address, response in every_page():
        assert {"private", "no-store"} & set(response["Cache-Control"].split(", ")), address
    as_(None)
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


def test_no_page_asks_another_host_for_anything(every_page):
    for address, response in every_page():
        links = re.findall(r"""\b(?:src|href|action)=["']([a-z]+:[^"']*|//[^"']*)""", body(response))
        assert [link for link in links if not link.startswith("data:image/svg+xml")] == [], address


def test_every_page_is_light_without_its_charts(every_page):
    """HTML, style and htmx, compressed; charts are loaded where there are some."""
    shared = ["site.css", "vendor/pico-2.1.1.min.css", "vendor/htmx-2.0.11.min.js"]
    static = ROOT / "releases/static/releases"
    common = sum(len(gzip.compress((static / name).read_bytes())) for name in shared)
    for address, response in every_page():
        weight = common + len(gzip.compress(body(response).encode()))
        assert weight < 60_000, f"{address}: {weight}"


def test_charts_are_loaded_only_where_there_are_some(every_page):
    with_charts = {address.split("/")[1] for address, response in every_page() if "vega" in body(response)}
    assert with_charts == {"releases", "review"}


def test_every_page_has_a_title_a_language_and_one_main_heading(every_page):
    for address, response in every_page():
        page = body(response)
        assert '<html lang="en-GB">' in page, address
        assert re.search(r"<title>\s*\S.* · dpweb</title>", page, flags=re.DOTALL), address
        assert page.count("<h1") == 1, address
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(ids) == len(set(ids)), address


def test_cookies_are_closed_to_scripts_and_to_other_sites(client, alice):
    client.post("/accounts/login/", {"login": "alice", "password": "correct horse battery staple"})
    session = client.cookies[settings.SESSION_COOKIE_NAME]
    assert session["httponly"]
    assert session["samesite"] == "Lax"
    assert client.cookies["csrftoken"]["samesite"] == "Lax"


@pytest.fixture
def production(tmp_path):
    environment = {
        **os.environ,
        "DATA_DIR": str(tmp_path / "var"),
        "HTTPS": "1",
        "TRUSTED_PROXIES": "1",
        "SECRET_KEY": "a secret key of this test alone, of a good length: 8f3a61c0b7d94e25",
        "ALLOWED_HOSTS": "statistics.example.org",
        "DJANGO_SETTINGS_MODULE": "dpweb.settings",
    }
    environment.pop("DEBUG", None)

    def run(*arguments, **more):
        given = {name: value for name, value in (environment | more).items() if value is not None}
        return subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=given, capture_output=True, text=True, timeout=120
        )

    return run


def test_the_deployment_check_is_clean_with_production_settings(production):
    done = production("manage.py", "check", "--deploy", "--fail-level", "INFO")
    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout + done.stderr


def test_over_https_cookies_and_redirects_follow(production):
    code = (
        "from django.conf import settings as s\n"
        "print(s.DEBUG, s.SESSION_COOKIE_SECURE, s.CSRF_COOKIE_SECURE, s.SECURE_SSL_REDIRECT, s.SECURE_HSTS_SECONDS)"
    )
    assert production("-c", code).stdout.split() == ["False", "True", "True", "True", "31536000"]


@pytest.mark.parametrize("proxies", [None, "0", "1", "2"])
def test_what_a_proxy_says_is_believed_only_where_one_is_configured(production, proxies):
    """Over HTTPS too: without a proxy anybody could send these headers."""
    code = (
        "from django.conf import settings as s\n"
        "print(s.ALLAUTH_TRUSTED_PROXY_COUNT, s.SECURE_PROXY_SSL_HEADER is not None)"
    )
    # Gunicorn speaks no HTTPS: where the site is reached over it, there is one.
    number = int(proxies or 1)
    assert production("-c", code, TRUSTED_PROXIES=proxies).stdout.split() == [str(number), str(number > 0)]


def test_a_site_that_would_redirect_to_itself_without_end_is_warned_about(production):
    done = production("manage.py", "check", "--fail-level", "WARNING", TRUSTED_PROXIES="0")
    assert "TRUSTED_PROXIES" in done.stderr
    assert done.returncode == 1


def test_a_metrics_token_that_can_be_guessed_is_refused(production):
    assert production("manage.py", "check", METRICS_TOKEN="x" * 20).returncode == 0
    done = production("manage.py", "check", METRICS_TOKEN="x" * 19)
    assert "METRICS_TOKEN must have at least 20 characters" in done.stderr
    assert done.returncode == 1


def test_vendored_files_are_those_that_were_vetted():
    import hashlib
    import tomllib

    vendor = ROOT / "releases/static/releases/vendor"
    listed = tomllib.loads((vendor / "VENDORED.toml").read_text())
    assert {path.name for path in vendor.iterdir() if path.suffix in (".js", ".css")} == set(listed)
    for name, entry in listed.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == entry["sha256"], name


def test_our_own_script_evaluates_nothing():
    script = Path(ROOT / "releases/static/releases/charts.js").read_text()
    assert "eval" not in script
    assert "innerHTML" not in script
    assert "ast: true" in script
