"""One installation and one Chromium for all journeys of a module."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests.flows.browser import FLAGS, Visitor
from tests.stack import Stack

PASSWORD = "correct horse battery staple"

ACCOUNTS = f"""
    from django.contrib.auth.models import Group
    group, _ = Group.objects.get_or_create(name="Survey team")
    for name, roles in (("alice", ["curator"]), ("charlie", []), ("sofia", ["reviewer", "administrator"])):
        person, _ = User.objects.get_or_create(username=name, defaults={{"email": name + "@example.org"}})
        person.set_password({PASSWORD!r})
        person.save()
        for role in roles:
            HeldRole.objects.get_or_create(person=person, role=role)
"""

#: To be formatted with a title and a folder: a dataset of alice's that waits for a budget, of a population of its own.
ASKED = """
    alice, sofia = (User.objects.get(username=name) for name in ("alice", "sofia"))
    source = Path({folder!r}) / "people.csv"
    import zlib
    told = zlib.crc32({title!r}.encode())
    # Other people under every title: the first rows spell it.
    source.write_text("person,age,sex\\n" + "".join(
        f"{title}-{{i}},{{18 + (i * 7) % 48}},{{'female' if (told >> i & 1 if i < 32 else i % 3) else 'male'}}\\n"
        for i in range(300)))
    dataset = services.datasets.ingest_dataset(owner=alice, title={title!r}, source=source)
    services.datasets.declare_universe(dataset=dataset, columns=[
        {{"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]}},
        {{"name": "sex", "type": "categorical", "categories": ["female", "male"]}},
    ])
    services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(),
        neighbours=NeighbouringRelation.ADD_REMOVE)
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="30", delta="0.000001", policy=Policy.ZCDP, reason="The yearbook.", by=alice)
"""

#: The same with its budget.
GRANTED = (
    ASKED
    + """
    services.budgets.approve_request(request=asked, by=sofia)
"""
)


@pytest.fixture(scope="session")
def collected(tmp_path_factory):
    """Static files as a site sends them: compressed, under names that follow from their contents."""
    stack = Stack(tmp_path_factory.mktemp("collected"))
    done = stack.manage("collectstatic", "--noinput")
    stack.stop()
    assert done.returncode == 0, done.stderr
    return stack.folder / "var" / "static"


@pytest.fixture(scope="session")
def populated(tmp_path_factory):
    """The files of an installation that has its tables and its people, and has done nothing yet."""
    stack = Stack(tmp_path_factory.mktemp("populated"))
    stack.migrate()
    stack.run(ACCOUNTS)
    stack.stop()
    return stack.folder / "var"


@pytest.fixture(scope="module")
def installation(tmp_path_factory, collected, populated):
    """A Celery worker, the embedded database and broker, and people."""
    stack = Stack(tmp_path_factory.mktemp("site"), lease=60)
    shutil.copytree(populated, stack.folder / "var")
    if (marks := populated.with_name("var-marks")).exists():
        shutil.copytree(marks, stack.folder / "var-marks")
    stack.environment |= {"UPLOAD_CAP_MB": "2", "LOG_LEVEL": "WARNING", "STATIC_ROOT": str(collected)}
    # Its people ask for more budgets than one person does in a month.
    stack.environment["BUDGET_REQUESTS_PER_PERSON"] = "1000"
    stack.start_worker()
    try:
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="module")
def site(installation):
    """The address of a real site: gunicorn over the installation."""
    import urllib.request
    from time import monotonic, sleep

    from releases.management.processes import free_address

    # Every process of a test run has ports of its own: between the look and the start another could take a free one.
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    address = free_address(18000 + 200 * process)
    command = [sys.executable, "-m", "gunicorn", "dpweb.wsgi", "--bind", address, "--no-control-socket"]
    installation.start([*command, "--worker-class", "gthread", "--threads", "8", "--timeout", "120"], "site.log")
    deadline = monotonic() + 240
    while True:
        try:
            urllib.request.urlopen(f"http://{address}/catalogue/", timeout=5).close()
            break
        except OSError:
            assert monotonic() < deadline, installation.logs()
            sleep(0.2)
    return address


@pytest.fixture(scope="module")
def chromium():
    """Ends with the module: while it lives, its event loop keeps Django's database from other tests."""
    from playwright.sync_api import sync_playwright

    from releases.management.processes import find_chromium

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visitor(chromium, site):
    """Open a window; every window must have been without fault when the test ends."""
    opened: list[Visitor] = []

    def open_window(**options) -> Visitor:
        opened.append(Visitor(chromium, site, **options))
        return opened[-1]

    yield open_window
    for each in opened:
        each.leave()
