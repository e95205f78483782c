"""Reading releases in Chromium: sorted, filtered, cited, compared."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flows.browser import DESKTOP, PHONE
from tests.flows.conftest import GRANTED

pytestmark = pytest.mark.browser

RELEASES = (
    GRANTED
    + """
    import uuid
    answer = []
    for name, epsilon in (("Careful", "1"), ("Generous", "4")):
        release = services.releases.draft_release(dataset=dataset, by=alice, title=name)
        services.releases.set_questions(release=release, workload={{"version": 1, "queries": [{{"marginals": 2}}]}})
        services.releases.set_choice(release=release, epsilon=epsilon, mechanism_name="laplace-queries")
        services.releases.submit_release(release=release, key=uuid.uuid4(), by=alice, send=False)
        assert services.execution.execute_release(release_id=release.pk)
        services.releases.make_public(release=release)
        answer.append(str(release.pk))
    answer.append(str(dataset.pk))
"""
)


@pytest.mark.parametrize(
    ("title", "size", "javascript"),
    [("Side by side", DESKTOP, True), ("Side by side on a phone", PHONE, True), ("Plainly", DESKTOP, False)],
    ids=["desktop", "phone", "without javascript"],
)
def test_a_reader_sorts_filters_cites_and_compares(visitor, installation, tmp_path, title, size, javascript):
    careful, _, _ = installation.run(RELEASES.format(title=title, folder=str(tmp_path)))
    reader = visitor(size=size, javascript=javascript)
    page = reader.page
    reader.go(f"/releases/{careful}/", "release of two columns")
    if javascript:
        expect(page.locator('[data-chart="heat-data"] svg')).to_be_visible()
        expect(page.locator('[data-chart="heat-data"] svg [role="graphics-symbol"]').first).to_be_visible()
    counts = page.locator("table.numbers tbody tr td.number:nth-child(3)")
    reader.follow("Released count")
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Released count")
    # On a telephone the band stands below the number.
    shown = [int(text.split()[0].replace(",", "")) for text in counts.all_inner_texts()]
    assert shown == sorted(shown, reverse=True)
    page.get_by_label("Show only rows with").fill("female")
    reader.press("Filter")
    reader.reads("5 of 10 answers have “female” in a label.")
    expect(page.locator('th[aria-sort="descending"]')).to_have_text("Released count")
    expect(counts).to_have_count(5)
    page.get_by_text("How to cite", exact=True).click()
    expect(page.locator("#citation")).to_contain_text(f"/releases/{careful}/")
    reader.look("release sorted, filtered and cited")

    reader.follow("Compare with another release")
    reader.heading("Two releases side by side")
    reader.press("Compare")
    reader.reads("With probability 90% or more, both bounds hold at once.")
    expect(page.locator("table.numbers tbody tr")).to_have_count(10)
    reader.look("two releases side by side")
