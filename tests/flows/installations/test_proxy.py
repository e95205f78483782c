"""The repository's nginx before a server with one thread: what would stop or flood the site does not get through."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import threading
import time
from contextlib import ExitStack, closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
import yaml

from tests.conftest import find_nginx
from tests.stack import ROOT

pytestmark = pytest.mark.nginx

DEPLOY = ROOT / "deploy" / "nginx"
CAP_MB = 8
#: What the image's own nginx.conf holds around conf.d, at places of the test.
AROUND = """
{user}
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    {temporary}
    types {{ }}
    default_type application/octet-stream;
    include {folder}/conf.d/*.conf;
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "certificate.pem")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


class Proxy:
    """nginx with the template of the repository, filled in as the official image does it."""

    def __init__(self, folder: Path, certificate: Path, *, site: str) -> None:
        self.folder, self.certificate = folder, certificate
        self.http_port, self.https_port = free_port(), free_port()
        (folder / "conf.d").mkdir()
        compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
        service = compose["services"]["proxy"]["environment"]
        given = {
            "DPWEB_SITE": site,
            "DPWEB_HTTP_PORT": f"127.0.0.1:{self.http_port}",
            "DPWEB_HTTPS_PORT": f"127.0.0.1:{self.https_port}",
            "DPWEB_CERTIFICATE": str(certificate / "certificate.pem"),
            "DPWEB_KEY": str(certificate / "key.pem"),
            "DPWEB_ERRORS": str(DEPLOY / "errors"),
            "DPWEB_RESOLVER": "127.0.0.1",
        }
        assert {name for name in service if name.startswith("DPWEB_")} == set(given)
        # As /docker-entrypoint.sh and 20-envsubst-on-templates.sh do it.
        script = f"""
            . {DEPLOY / "16-dpweb.envsh"}
            defined=$(printf '${{%s}} ' $(env | cut -d= -f1 | grep -E '{service["NGINX_ENVSUBST_FILTER"]}'))
            envsubst "$defined" < {DEPLOY / "default.conf.template"} > {folder}/conf.d/default.conf
        """
        environment = {"PATH": os.environ["PATH"], "UPLOAD_CAP_MB": str(CAP_MB), **given}
        done = subprocess.run(["sh", "-ec", script], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        around = AROUND.format(
            folder=folder,
            user="user root;" if os.geteuid() == 0 else "",
            temporary=" ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds),
        )
        (folder / "nginx.conf").write_text(around)
        command = [find_nginx(), "-c", str(folder / "nginx.conf"), "-p", str(folder), "-e", str(folder / "error.log")]
        with (folder / "access.log").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.tls = ssl.create_default_context(cafile=str(certificate / "certificate.pem"))
        deadline = time.monotonic() + 240
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.https_port)) == 0:
                    return
            assert self.process.poll() is None, self.logs()
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def logs(self) -> str:
        return "\n".join((self.folder / name).read_text() for name in ("error.log", "access.log"))

    def connect(self, address="127.0.0.1") -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self.https_port), timeout=60, source_address=(address, 0))
        return self.tls.wrap_socket(plain, server_hostname="localhost")

    def ask(self, method, path, *, body=None, headers=None, address="127.0.0.1"):
        """One request over a connection of its own: status, headers as a list, body."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.https_port, context=self.tls, timeout=60, source_address=(address, 0)
        )
        with closing(connection):
            connection.request(method, path, body=body, headers=headers or {})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def echo(tmp_path, certificate):
    """A proxy before a server that answers one request after the other, with the headers it was sent."""

    class Echo(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers["Content-Length"] or 0))
            body = json.dumps(self.headers.items()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  the library looks for this name

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    running = Proxy(tmp_path, certificate, site=f"127.0.0.1:{server.server_address[1]}")
    yield running
    running.stop()
    server.shutdown()
    server.server_close()


def test_unfinished_bodies_do_not_stop_the_site(echo):
    begun = "POST /releases/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\ntitle=the begin"
    with ExitStack() as held:
        for _ in range(16):
            held.enter_context(echo.connect()).sendall(begun.encode())
        time.sleep(1)
        for _ in range(3):
            assert echo.ask("GET", "/catalogue/")[0] == 200


def test_what_a_visitor_claims_of_itself_reaches_nobody(echo):
    claimed = {
        "X-Forwarded-For": "203.0.113.9",
        "X-Forwarded-Proto": "http",
        "X-Forwarded-Host": "evil.example",
        "X-Forwarded-Port": "1",
        "X-Real-IP": "203.0.113.9",
        "Forwarded": "for=203.0.113.9;proto=http",
        "X_Forwarded_For": "203.0.113.9",
    }
    status, _, body = echo.ask("GET", "/", headers=claimed)
    assert status == 200
    arrived = [(name.lower(), value) for name, value in json.loads(body)]
    assert [value for name, value in arrived if name == "x-forwarded-for"] == ["127.0.0.1"]
    assert [value for name, value in arrived if name == "x-forwarded-proto"] == ["https"]
    assert [value for name, value in arrived if name == "host"] == [f"127.0.0.1:{echo.https_port}"]
    assert "203.0.113.9" not in body.decode()
    assert "evil.example" not in body.decode()


@pytest.mark.parametrize(
    ("path", "burst"),
    [
        ("/accounts//login/", 20),
        ("/api/datasets", 12),
        ("/surveys/6b0d3a0e-6d1f-4c5e-9d3c-000000000000/answer/", 120),
    ],
)
def test_what_is_sent_again_and_again_is_refused_for_a_while(echo, path, burst):
    """As many as the burst and one; those that the rate lets in meanwhile depend on the time it takes."""
    for number in range(20 * burst):
        status, headers, body = echo.ask("POST", path, body=b"x=1")
        if status == 429:
            break
        assert status == 200, number
    assert number > burst
    assert ("Retry-After", "60") in headers
    if path.startswith("/api/"):
        assert json.loads(body)["message"].startswith("Too many requests")
    else:
        assert b"<h1>Too many requests</h1>" in body
    assert echo.ask("GET", path)[0] == 200
    assert echo.ask("POST", "/releases/", body=b"x=1")[0] == 200
    assert echo.ask("POST", path, body=b"x=1", address="127.0.0.2")[0] == 200


def test_a_table_as_large_as_the_site_takes_passes_and_a_larger_one_is_refused(echo):
    assert echo.ask("POST", "/api/datasets", body=bytes(CAP_MB * 2**20))[0] == 200
    status, _, answer = echo.ask("POST", "/api/datasets", body=bytes((CAP_MB + 3) * 2**20))
    assert status == 413
    assert json.loads(answer)["message"].startswith("What was sent is larger")
    status, _, page = echo.ask("POST", "/releases/", body=bytes(18 * 2**20))
    assert status == 413
    assert b"<h1>Too large</h1>" in page


def test_the_log_says_nothing_of_who_answers_a_survey(echo):
    survey = "/surveys/6b0d3a0e-6d1f-4c5e-9d3c-000000000000/answer/"
    for path in (survey, "/" + survey, "/releases/"):
        assert echo.ask("GET", path)[0] == 200
    deadline = time.monotonic() + 240
    while "GET /releases/ " not in echo.logs() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "GET /releases/ " in echo.logs()
    assert "/surveys/" not in (echo.folder / "access.log").read_text()
