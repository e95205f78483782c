"""What listens where: the site behind its proxy alone, and everything else on this machine alone."""

from __future__ import annotations

import re
import runpy

import pytest
import yaml
from django.core.management.commands.runserver import Command as RunServer

from releases.management.processes import free_address
from tests.stack import ROOT

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES = COMPOSE["services"]


def test_nobody_reaches_the_site_but_through_the_proxy():
    assert {name for name, service in SERVICES.items() if "ports" in service} == {"proxy"}
    assert SERVICES["proxy"]["ports"] == ["80:80", "443:443"]
    given = SERVICES["web"]["environment"]
    assert (given["HTTPS"], given["TRUSTED_PROXIES"]) == (1, 1)
    assert given["UPLOAD_CAP_MB"] == SERVICES["proxy"]["environment"]["UPLOAD_CAP_MB"]


def test_what_the_containers_take_from_the_repository_and_from_secrets_is_there():
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
    installing = (ROOT / "docs/operations/install.md").read_text()
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].removeprefix("./") in installing, secret
    # The image's entry point leaves out what cannot be executed.
    assert (ROOT / "deploy/nginx/16-dpweb.envsh").stat().st_mode & 0o111


@pytest.mark.parametrize(("given", "workers"), [("3", 3), ("", None), (None, None)])
def test_the_image_starts_a_process_a_core_unless_it_is_told_otherwise(monkeypatch, given, workers):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(5)), raising=False)
    monkeypatch.delenv("WEB_CONCURRENCY", raising=False)
    if given is not None:
        monkeypatch.setenv("WEB_CONCURRENCY", given)
    config = runpy.run_path(str(ROOT / "deploy" / "gunicorn.conf.py"))
    assert config["workers"] == (workers or 5)
    assert (config["worker_class"], config["threads"]) == ("gthread", 8)
    assert config["forwarded_allow_ips"] == ""


def test_demo_benchmarks_and_tests_listen_on_this_machine_alone():
    assert free_address(18900).startswith("127.0.0.1:")
    assert RunServer.default_addr == "127.0.0.1"
    everywhere = re.compile(r"\b0\.0\.0\.0\b|\[::\]|--bind[ =\"',]+:")
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("dpweb", "releases", "tests", "deploy")
        for path in (ROOT / folder).rglob("*.py")
        if everywhere.search(path.read_text())
    }
    assert found <= {"deploy/gunicorn.conf.py", "tests/test_deploy.py"}
