"""What listens where: the site behind its proxy alone, and everything else on this machine alone."""

import os
import re
import runpy
import subprocess
import uuid

import psycopg
import pytest
import yaml
from django.core.management.commands.runserver import Command as RunServer

from releases.management.processes import free_address
from tests.conftest import POSTGRES_URL
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
    installing = (ROOT / "docs/operations/install.md").read_text()
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("./secrets/"):
                assert source.removeprefix("./") in installing
            else:
                assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
    for secret in COMPOSE["secrets"].values():
        assert secret["file"].removeprefix("./") in installing, secret
    # The image's entry point leaves out what cannot be executed.
    assert (ROOT / "deploy/nginx/16-dpweb.envsh").stat().st_mode & 0o111


def test_the_site_and_its_workers_read_the_passwords_of_databases_from_one_folder():
    for name in ("web", "worker", "uploads"):
        folder = SERVICES[name]["environment"]["SECRETS_DIR"]
        assert f"./secrets/connections:{folder}:ro" in SERVICES[name]["volumes"]


def test_only_the_service_that_migrates_signs_in_as_the_owner_of_the_tables():
    owners = {name for name, service in SERVICES.items() if "database_owner_url" in service.get("secrets", [])}
    assert owners == {"migrate"}
    assert SERVICES["migrate"]["environment"]["DATABASE_SITE_ROLE"] == "dpweb_site"
    for name in ("web", "worker", "uploads"):
        assert SERVICES[name]["environment"]["DATABASE_URL_FILE"] == "/run/secrets/database_url"
    assert SERVICES["postgres"]["environment"]["POSTGRES_USER"] not in ("dpweb_site", "dpweb_owner")
    assert "./deploy/postgres/10-roles.sh:/docker-entrypoint-initdb.d/10-roles.sh:ro" in SERVICES["postgres"]["volumes"]


@pytest.mark.postgres
def test_the_script_of_the_compose_file_makes_the_two_roles(tmp_path):
    """On a real server, with names of this test alone: roles are the whole server's."""
    name = f"dpweb_{uuid.uuid4().hex[:8]}"
    for role in ("owner", "site"):
        (tmp_path / f"postgres_{role}_password").write_text(f"{role}'s")
    host, port = POSTGRES_URL.rsplit("@", 1)[1].split("/")[0].split(":")
    environment = os.environ | {
        "POSTGRES_USER": "postgres",
        "POSTGRES_DB": name,
        "PGHOST": host,
        "PGPORT": port,
        "DPWEB_SECRETS": str(tmp_path),
        "DPWEB_OWNER": f"{name}_owner",
        "DPWEB_SITE_ROLE": f"{name}_site",
    }
    with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            subprocess.run([ROOT / "deploy/postgres/10-roles.sh"], env=environment, check=True)
            made = connection.execute(
                "SELECT rolname, rolsuper, rolcanlogin, (SELECT datdba = r.oid FROM pg_database WHERE datname = %s) "
                "FROM pg_roles r WHERE rolname LIKE %s ORDER BY rolname",
                [name, f"{name}_%"],
            ).fetchall()
            assert made == [(f"{name}_owner", False, True, True), (f"{name}_site", False, True, False)]
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
            for role in ("site", "owner"):
                connection.execute(f"DROP ROLE IF EXISTS {name}_{role}")


@pytest.mark.parametrize(("given", "workers"), [("1", 1), ("3", 3), ("", None), (None, None)])
def test_the_image_starts_a_process_a_core_unless_it_is_told_otherwise(monkeypatch, given, workers):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(5)), raising=False)
    monkeypatch.delenv("WEB_CONCURRENCY", raising=False)
    if given is not None:
        monkeypatch.setenv("WEB_CONCURRENCY", given)
    config = runpy.run_path(str(ROOT / "deploy" / "gunicorn.conf.py"))
    assert config["workers"] == (workers or 5)
    assert (config["worker_class"], config["threads"]) == ("gthread", 8 if workers == 1 else 4)
    assert config["forwarded_allow_ips"] == ""


def test_demo_benchmarks_and_tests_listen_on_this_machine_alone():
    assert free_address(18900).startswith("127.0.0.1:")
    assert RunServer.default_addr == "127.0.0.1"
    everywhere = re.compile(r"\b0\.0\.0\.0\b|\[::\]|--bind[ =\"',]+:")
    found = {
        path.relative_to(ROOT).as_posix()
        for folder in ("benchmarks", "dpweb", "releases", "tests", "deploy")
        for path in (ROOT / folder).rglob("*.py")
        if everywhere.search(path.read_text())
    }
    assert found <= {"deploy/gunicorn.conf.py", "tests/test_deploy.py"}
