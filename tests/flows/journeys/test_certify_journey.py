"""A published release certified in a browser, through a real worker, and what a visitor then reads beside it."""

from __future__ import annotations

import csv
import json

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import PASSWORD

pytestmark = pytest.mark.browser

#: A published release of all its two-way tables, public, with its synthetic rows.
RELEASE = """
    table = Path({folder!r}) / "survey.csv"
    import zlib
    told = zlib.crc32({title!r}.encode())
    # Other people under every title: the first rows spell it.
    rows = [f"{title}-{{i}},{{18 + (i * 7) % 48}},{{'female' if (told >> i & 1 if i < 32 else i % 3) else 'male'}}"
            for i in range(600)]
    table.write_text("\\n".join(["person,age,sex", *rows]) + "\\n")
    columns = [
        {{"name": "age", "type": "integer", "edges": [18, 25, 35, 45, 55, 65]}},
        {{"name": "sex", "type": "categorical", "categories": ["female", "male"]}},
    ]
    release = draft(budgeted("3", columns, table), queries=({{"marginals": 2}}, {{"marginals": 1}}))
    services.releases.name_release(release=release, title={title!r})
    services.releases.submit_release(release=release, key=uuid.uuid4(), by=release.dataset.owner, send=False)
    assert services.execution.execute_release(release_id=release.pk)
    services.releases.make_public(release=release)
    answer = str(release.pk)
"""


@pytest.mark.parametrize(
    "window",
    [
        pytest.param({"size": DESKTOP}, id="desktop"),
        pytest.param({"size": PHONE}, id="phone"),
        pytest.param({"size": DESKTOP, "javascript": False}, id="without JavaScript"),
    ],
)
def test_a_release_is_certified_and_everybody_reads_how_far_off_it_is_at_most(
    visitor, installation, tmp_path, request, window
):
    title = f"Certified on {request.node.callspec.id}"
    number = installation.run(RELEASE.format(title=title, folder=str(tmp_path)))
    alice = visitor(**window)
    alice.sign_in("alice", PASSWORD)
    alice.go(f"/releases/{number}/", "release that nobody certified")
    alice.page.get_by_label("Epsilon to spend on it").fill("0,1")
    alice.press("Certify the quality")
    alice.heading("Certify the quality")
    alice.reads("epsilon: '0,1' must be a decimal number with a point")
    alice.look("plan of a certificate with a mistake")
    alice.page.get_by_label("Epsilon", exact=True).fill("0.1")
    alice.press("Show the plan")
    alice.reads("Noise adds at most 46 rows to the true largest error, with probability 95%.")
    alice.look("plan of a certificate")
    alice.press("Go on to confirm")
    alice.heading("Confirm the certificate")
    alice.reads("Epsilon 0.1 is charged now")
    alice.look("confirmation of a certificate")
    alice.follow("Back to the plan")
    expect(alice.page.get_by_label("Epsilon", exact=True)).to_have_value("0.1")
    alice.press("Go on to confirm")
    alice.press("Spend and measure")
    alice.heading(f"Certified quality of {title}")
    alice.reads(f"It certifies {title}")
    alice.look("certificate on its way")
    alice.wait_for_result()
    alice.look("certificate")
    (row,) = csv.DictReader(alice.download("answers.csv", tmp_path).open())
    receipt = json.loads(alice.download("receipt.json", tmp_path).read_text())
    assert receipt["certifies"] == number
    alice.reads(f"at most {row['upper']} row")
    alice.press("Make public")
    alice.press("Make it public")
    alice.follow(title)
    said = f"at 95% confidence the largest error of the synthetic rows over all 17 counts is at most {row['upper']} row"
    alice.reads(f"Certified: {said}")
    alice.look("certified release")
    alice.page.get_by_text("Certify it again").click()
    alice.press("Certify the quality")
    alice.reads("A certificate exists already.")
    alice.look("plan of a second certificate")
    reader = visitor(**window)
    reader.go(f"/releases/{number}/", "certified release of somebody else")
    reader.reads(f"is at most {row['upper']} row")
    reader.follow("measured with epsilon 0.1")
    reader.heading(f"Certified quality of {title}")
