"""No draw decides whether what was run can be written, stored and shown: every mechanism, at the ends of its laws."""

import json
import uuid
from pathlib import Path

import pytest

from releases.engine.domain.privacy import NeighbouringRelation
from releases.engine.estimation import synthetic
from releases.engine.mechanisms import randomized_response
from releases.engine.mechanisms.base import mechanisms
from releases.engine.noise.randomness import StreamRandomness
from releases.engine.run import run_release
from releases.engine.verification.cases import case_for
from releases.engine.verification.recording import with_extreme_draws
from releases.engine.verification.tables import counts_of
from releases.models import Release
from releases.publication import files
from tests.web.pages import link, words

#: No noise reaches further, so neither does any sum of a few draws, of which 64 bits hold four.
EXTREMES = [(10**9, (1,), -1), (None, (-1,), 0), (2**60, (1, -1), 0)]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    monkeypatch.setattr(synthetic, "MAX_ROWS", 2_000)
    monkeypatch.setattr(randomized_response, "MAX_REPORTS", 100_000)


@pytest.mark.parametrize("name", mechanisms())
def test_every_draw_can_be_written_stored_and_shown(name, published, as_, alice):
    case = case_for(name)
    plan = case.plan(name, NeighbouringRelation.ADD_REMOVE)
    counts = counts_of(plan.schema.universe, case.pairs[NeighbouringRelation.ADD_REMOVE].one)
    for size, signs, place in EXTREMES:
        with with_extreme_draws(size, signs, place):
            made = run_release(plan, counts, rng=StreamRandomness(b"extreme"))
        folder = Path(files.settings.RELEASES_DIR) / str(published.pk) / str(uuid.uuid4())
        outcome = files.write(folder, release=published, made=made)
        # A certificate's question names files, and the case that is run here has none.
        for asked in outcome["receipt"]["workload"]["queries"]:
            for each in asked.get("largest_error", {}).get("released", {}).values():
                each.clear()
                each["sha256"] = "0" * 64
        # PostgreSQL stores no number that is none, and SQLite does.
        json.dumps(outcome, allow_nan=False)
        Release.objects.change(result=outcome, folder=f"{published.pk}/{folder.name}")
        page = as_(alice).get(link("release_detail", published))
        assert page.status_code == 200
        assert as_(alice).get(link("receipt", published)).status_code == 200
        most = plan.most_synthetic_rows
        if outcome["receipt"]["synthetic_rows"]:
            assert outcome["receipt"]["most_synthetic_rows"] == most >= outcome["receipt"]["synthetic_rows"]
            if "rows" not in case.options:
                assert f"At most {most:,} synthetic rows are made of these columns" in words(page)
