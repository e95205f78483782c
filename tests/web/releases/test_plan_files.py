"""A plan saved as a file and loaded into another draft."""

import json

from django.core.files.uploadedfile import SimpleUploadedFile

from releases import services
from releases.models import Release
from tests.web.conftest import WORKLOAD
from tests.web.pages import body, link, words
from tests.web.releases.conftest import queries


def load(client, release, content):
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    file = SimpleUploadedFile("plan.json", text, content_type="application/json")
    return client.post(link("load_plan", release), {"plan": file}, follow=True)


def saved(client, release):
    response = client.get(link("plan_file", release))
    assert 'filename="plan.json"' in response["Content-Disposition"]
    return json.loads(body(response))


def test_a_saved_plan_loaded_into_another_draft_is_the_same_plan(make_draft, dataset, blank, as_, alice):
    choice = {"epsilon": "0.5", "mechanism": "gaussian-histogram", "delta": "0.0000001", "options": {"rows": "77"}}
    draft, client = make_draft(dataset, **choice), as_(alice)
    file = saved(client, draft)
    assert file["mechanism"] == "gaussian-histogram"
    assert "Loaded. Nothing is spent until you confirm." in words(load(client, blank, file))
    blank.refresh_from_db()
    assert services.releases.plan_of(release=blank).to_json() == services.releases.plan_of(release=draft).to_json()
    assert saved(client, blank) == file


WRONG = [
    (b"\xff\xfe", "is not text in UTF-8"),
    (b"[1]", "must be a JSON object"),
    ({}, "Version of the plan file: nothing is given; must be 1"),
    ({"version": 1}, "must hold a workload, or an epsilon, or both"),
    ({"version": 1, "workload": WORKLOAD, "title": "x"}, "Plan file: 'title' is not a known field"),
    ({"version": 1, "workload": {"version": 1, "queries": [{"marginal": ["wage"]}]}}, "'wage' must name a declared"),
    ({"version": 1, "workload": WORKLOAD, "mechanism": "laplace-queries"}, "epsilon: 'none' must be there"),
    ({"version": 1, "epsilon": 0.5}, 'epsilon: 0.5 must be text, such as "0.5"'),
    ({"version": 1, "epsilon": "1", "mechanism": ["x"]}, 'mechanism: ["x"] must be text'),
    (
        {"version": 1, "epsilon": "1", "mechanism": "laplace-queries", "options": {"rows": -1}},
        "Option rows: -1 must be",
    ),
    ({"version": 1, "epsilon": "1", "mechanism": "laplace-queries", "options": {"x": 1}}, "is not an option of"),
    # Nor does the first half hold where the second is wrong.
    ({"version": 1, "workload": {"version": 1, "queries": [{"prefix": "age"}]}, "epsilon": "nine"}, "epsilon: 'nine'"),
]


def test_a_wrong_file_changes_nothing_and_says_what_is_wrong(dataset, make_draft, as_, alice):
    draft = make_draft(dataset)
    before, asked = Release.objects.filter(pk=draft.pk).values().get(), queries(draft)
    for content, said in WRONG:
        assert said in words(load(as_(alice), draft, content)), content
        assert Release.objects.filter(pk=draft.pk).values().get() == before
        assert queries(draft) == asked


def test_what_was_submitted_can_be_saved_but_not_loaded_into(queued, as_, alice):
    before = Release.objects.filter(pk=queued.pk).values().get()
    load(as_(alice), queued, saved(as_(alice), queued) | {"epsilon": "9"})
    assert Release.objects.filter(pk=queued.pk).values().get() == before
