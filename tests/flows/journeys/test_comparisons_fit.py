"""Whatever is asked, its comparison fits one and a half screens of a laptop, with the fields of delta open."""

import pytest
from playwright.sync_api import expect

from releases.engine.workload.queries import Workload
from releases.questions.base import offered_statistics
from tests.flows.browser import RELEASE_PATIENCE
from tests.flows.conftest import PASSWORD
from tests.web.releases.test_kinds_of_question import EXAMPLES
from tests.web.releases.test_statistic_questions import COLUMNS, CONTENT

pytestmark = pytest.mark.browser

LAPTOP = {"width": 1280, "height": 800}
#: Every kind of question that is compared, as its example asks it, and some more.
ASKED = {kind: EXAMPLES[kind] for kind in (Workload.kind, *offered_statistics())}
ASKED |= {"one table": [{"marginal": ["age", "sex"]}], "one count": [{"count": {"sex": ["male"]}}]}
ASKED |= {"means by group": [{"mean": {"columns": ["age"], "by": ["sex"]}}]}
DRAFTED = """
    alice, sofia = (User.objects.get(username=name) for name in ("alice", "sofia"))
    source = Path({folder!r}) / "people.csv"
    source.write_bytes({content!r})
    dataset = services.datasets.ingest_dataset(owner=alice, title="Comparisons", source=source)
    services.datasets.declare_universe(dataset=dataset, columns={columns!r})
    services.datasets.declare_protection(dataset=dataset, unit=PrivacyUnit(),
        neighbours=NeighbouringRelation.ADD_REMOVE)
    asked = services.budgets.request_budget(
        dataset=dataset, epsilon="30", delta="0.000001", policy=Policy.ZCDP, reason="The yearbook.", by=alice)
    services.budgets.approve_request(request=asked, by=sofia)
    answer = {{}}
    for name, queries in {asked!r}.items():
        release = services.releases.draft_release(dataset=dataset, by=alice, title=name)
        services.releases.set_questions(release=release, workload={{"version": 1, "queries": queries}})
        services.releases.set_choice(release=release, epsilon="1", delta="0.000000001", beta="0.05")
        answer[name] = str(release.pk)
"""


def test_every_comparison_fits_one_and_a_half_screens(visitor, installation, tmp_path):
    given = {"folder": str(tmp_path), "content": CONTENT, "columns": COLUMNS, "asked": ASKED}
    drafts = installation.run(DRAFTED.format(**given))
    window = visitor(size=LAPTOP)
    window.sign_in("alice", PASSWORD)
    page, heights = window.page, {}
    for name, release in drafts.items():
        page.goto(f"/releases/{release}/compare/")
        expect(page.get_by_role("button", name="Compare again").first).to_be_visible()
        # Its chart is fetched, where there is one.
        expect(page.locator("#curves[hx-get]")).to_have_count(0, timeout=RELEASE_PATIENCE)
        delta = page.get_by_label("Delta", exact=True)
        if not delta.is_visible():
            page.get_by_text("Delta, confidence and number of").click()
        expect(delta).to_be_visible()
        heights[name] = page.evaluate("document.documentElement.scrollHeight")
    too_long = {name: height for name, height in heights.items() if height > 1.5 * LAPTOP["height"]}
    assert not too_long, heights
