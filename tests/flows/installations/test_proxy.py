"""The repository's nginx before gunicorn with one process: what would stop or flood the site does not get through."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlencode

import pytest
import yaml

from tests.conftest import find_nginx
from tests.stack import ROOT, Stack

pytestmark = pytest.mark.nginx

DEPLOY = ROOT / "deploy" / "nginx"
CAP_MB = 8
PEOPLE = """
alice, sofia = people()
alice.set_password("correct horse battery staple")
alice.save()
answer = services.tokens.make_token(user=alice, name="a script", days=1)
"""
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
        deadline = time.monotonic() + 60
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


@pytest.fixture(scope="module")
def installation(tmp_path_factory, collected):
    """The site as the image starts it, with one process, believing the proxy."""
    stack = Stack(tmp_path_factory.mktemp("site"), lease=60)
    stack.environment |= {
        "HTTPS": "1",
        "TRUSTED_PROXIES": "1",
        "UPLOAD_CAP_MB": str(CAP_MB),
        "STATIC_ROOT": str(collected),
        "WEB_CONCURRENCY": "1",
        "LOG_LEVEL": "WARNING",
    }
    stack.migrate()
    stack.token = stack.run(PEOPLE)
    stack.port = free_port()
    config = ["--config", str(ROOT / "deploy" / "gunicorn.conf.py"), "--bind", f"127.0.0.1:{stack.port}"]
    stack.start([sys.executable, "-m", "gunicorn", *config, "dpweb.wsgi"], "site.log")
    deadline = time.monotonic() + 60
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", stack.port)) == 0:
                break
        assert time.monotonic() < deadline, stack.logs()
        time.sleep(0.1)
    yield stack
    stack.stop()


@pytest.fixture(scope="module")
def proxy(tmp_path_factory, certificate, installation):
    running = Proxy(tmp_path_factory.mktemp("proxy"), certificate, site=f"127.0.0.1:{installation.port}")
    yield running
    running.stop()


@pytest.fixture
def echo(tmp_path, certificate):
    """A proxy before a server that answers with the headers it was sent."""

    class Echo(BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(self.headers.items()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  the library looks for this name

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    running = Proxy(tmp_path, certificate, site=f"127.0.0.1:{server.server_address[1]}")
    yield running
    running.stop()
    server.shutdown()
    server.server_close()


@contextmanager
def never_ending(connections):
    """Send one more byte on each now and then, so that no time limit ends it."""
    is_over = threading.Event()

    def trickle():
        while not is_over.wait(1):
            for each in connections:
                with suppress(OSError):
                    each.sendall(b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("number", [8, 16])
def test_unfinished_bodies_do_not_stop_the_site(proxy, number):
    host = f"127.0.0.1:{proxy.https_port}"
    # With these the site reads the body, to look for the form's token.
    headers = {
        "Host": host,
        "Origin": f"https://{host}",
        "Cookie": f"csrftoken={'x' * 32}",
        "Content-Type": "application/x-www-form-urlencoded",
        "Content-Length": "1000000",
    }
    lines = [
        "POST /releases/ HTTP/1.1",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "title=the begin",
    ]
    with ExitStack() as held:
        connections = [held.enter_context(proxy.connect()) for _ in range(number)]
        for each in connections:
            each.sendall("\r\n".join(lines).encode())
        held.enter_context(never_ending(connections))
        for _ in range(3):
            status, _, body = proxy.ask("GET", "/catalogue/")
            assert status == 200
            assert b"</html>" in body


def test_a_header_that_is_sent_slowly_is_cut_off(proxy):
    with proxy.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
        deadline = time.monotonic() + 120
        connection.settimeout(1)
        while time.monotonic() < deadline:
            try:
                connection.sendall(b"X")
                if not connection.recv(4096).startswith(b"HTTP/1.1 2"):
                    return
            except TimeoutError:
                continue
            except OSError:
                return
    pytest.fail("It was never cut off.")


def test_plain_http_is_sent_to_https(proxy):
    connection = http.client.HTTPConnection("127.0.0.1", proxy.http_port, timeout=60)
    with closing(connection):
        connection.request("GET", "/catalogue/?q=age", headers={"Host": "localhost"})
        answer = connection.getresponse()
        assert answer.status == 308
        assert answer.getheader("Location") == "https://localhost/catalogue/?q=age"


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
        ("/accounts/login/", 20),
        ("/accounts//login/", 20),
        ("/accounts/2fa/authenticate/", 20),
        ("/admin/login/", 20),
        ("/datasets/new/", 12),
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


def test_a_person_signs_in_through_the_proxy_and_is_limited_by_it(proxy):
    status, headers, page = proxy.ask("GET", "/accounts/login/")
    assert status == 200
    token = re.search(rb'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1].decode()
    cookies = "; ".join(value.split(";")[0] for name, value in headers if name == "Set-Cookie")
    origin = f"https://127.0.0.1:{proxy.https_port}"
    sent = {
        "Cookie": cookies,
        "Origin": origin,
        "Referer": f"{origin}/accounts/login/",
        "Content-Type": "application/x-www-form-urlencoded",
    }

    def sign_in(password):
        fields = {"csrfmiddlewaretoken": token, "login": "alice", "password": password}
        return proxy.ask("POST", "/accounts/login/", body=urlencode(fields), headers=sent)

    status, headers, _ = sign_in("correct horse battery staple")
    assert status == 302
    session = next(value for name, value in headers if name == "Set-Cookie" and value.startswith("sessionid"))
    assert "Secure" in session
    assert 429 in {sign_in("wrong")[0] for _ in range(60)}


def sent_with_curl(proxy, installation, path, file, tmp_path):
    command = ["curl", "--silent", "--cacert", str(proxy.certificate / "certificate.pem"), "--max-time", "120"]
    form = ["-F", "title=Large", "-F", f"table=@{file}", "-H", f"Authorization: Bearer {installation.token}"]
    written = ["-o", str(tmp_path / "answer"), "-w", "%{http_code}"]
    address = f"https://127.0.0.1:{proxy.https_port}{path}"
    done = subprocess.run([*command, *form, *written, address], capture_output=True, text=True)
    return int(done.stdout), (tmp_path / "answer").read_text()


def test_a_table_as_large_as_the_site_takes_passes_and_a_larger_one_is_refused(proxy, installation, tmp_path):
    table = tmp_path / "table.csv"
    row = b"1,female,abcdefgh\n"
    table.write_bytes(b"age,sex,note\n" + row * ((CAP_MB * 2**20 - 100) // len(row)))
    status, answer = sent_with_curl(proxy, installation, "/api/datasets", table, tmp_path)
    assert status in (200, 201, 202), answer
    assert json.loads(answer)["state"] == "waiting"
    # A little more than the limit is for the site to refuse, much more for the proxy.
    table.write_bytes(table.read_bytes() + row * (2**19 // len(row)))
    status, answer = sent_with_curl(proxy, installation, "/api/datasets", table, tmp_path)
    assert status == 400, answer
    assert f"{CAP_MB} MB" in json.loads(answer)["message"]
    table.write_bytes(table.read_bytes() + row * (2**21 // len(row)))
    status, answer = sent_with_curl(proxy, installation, "/api/datasets", table, tmp_path)
    assert status == 413
    assert json.loads(answer)["message"].startswith("What was sent is larger")
    table.write_bytes(row * (18 * 2**20 // len(row)))
    status, answer = sent_with_curl(proxy, installation, "/releases/", table, tmp_path)
    assert status == 413
    assert "<h1>Too large</h1>" in answer


def test_headers_and_static_files_are_the_sites_and_come_once(proxy):
    _, headers, page = proxy.ask("GET", "/catalogue/", headers={"Accept-Encoding": "gzip"})
    names = [name.lower() for name, _ in headers]
    for name in (
        *("strict-transport-security", "content-security-policy", "x-frame-options", "x-content-type-options"),
        *("referrer-policy", "cross-origin-opener-policy", "cache-control", "content-encoding"),
    ):
        assert names.count(name) == 1, name
    assert dict(headers)["Server"] == "nginx"
    _, _, page = proxy.ask("GET", "/catalogue/")
    style = re.search(rb'href="(/static/[^"]+\.css)"', page)[1].decode()
    status, headers, _ = proxy.ask("GET", style, headers={"Accept-Encoding": "gzip"})
    names = [name.lower() for name, _ in headers]
    assert status == 200
    assert "immutable" in dict(headers)["Cache-Control"]
    assert names.count("cache-control") == names.count("content-encoding") == names.count("etag") <= 1


def test_probes_pass_and_the_log_says_nothing_of_who_answers_a_survey(proxy):
    assert proxy.ask("GET", "/healthz")[0] == 200
    survey = "/surveys/6b0d3a0e-6d1f-4c5e-9d3c-000000000000/answer/"
    for path in (survey, "/" + survey, "/releases/"):
        proxy.ask("GET", path)
    deadline = time.monotonic() + 30
    while "GET /releases/ " not in proxy.logs() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "GET /releases/ " in proxy.logs()
    assert "GET /healthz " in proxy.logs()
    assert "/surveys/" not in (proxy.folder / "access.log").read_text()


def test_while_the_site_is_away_the_proxy_says_so(tmp_path, certificate):
    running = Proxy(tmp_path, certificate, site=f"127.0.0.1:{free_port()}")
    try:
        status, headers, page = running.ask("GET", "/")
        assert status == 502
        assert b"<h1>No answer</h1>" in page
        assert dict(headers)["Refresh"] == "10"
        # What was sent is not sent again.
        assert "Refresh" not in dict(running.ask("POST", "/")[1])
        status, _, body = running.ask("GET", "/api/catalogue")
        assert status == 502
        assert "does not answer" in json.loads(body)["message"]
    finally:
        running.stop()


def test_the_programs_that_this_needs_are_those_that_ci_installs():
    script = (ROOT / ".ci" / "run").read_text()
    for program in ("nginx", "curl", "openssl", "envsubst"):
        assert shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"), program
        assert program in script
