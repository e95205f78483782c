"""What a page says while a person types: the same as it would say to the button, and nothing is stored."""

import html
import re

import pytest

from tests.web.pages import body, link, words
from tests.web.steps import stored

HTMX = {"HX-Request": "true"}


@pytest.fixture
def check(as_, alice):
    """What comes back while alice types into a form of a page, in words; then what the button brings."""

    def send(url, typed, *, method):
        client, before = as_(alice), stored()
        answer = getattr(client, method)(url, typed | ({"check": "1"} if method == "post" else {}), headers=HTMX)
        assert answer.status_code == 200
        assert stored() == before
        return answer, getattr(client, method)(url, typed)

    return send


#: What is right on each page.
CHOSEN = {"epsilon": "1", "delta": "0", "beta": "0.05"}
RIGHT = {
    "budget": {"epsilon": "3", "delta": "0.000001", "policy": "zcdp", "reason": ""},
    "questions": {"action": "count", "in.sex": "male"},
    "compare": {**CHOSEN, "cell-sampling.rows": ""},
    "new_session": {**CHOSEN, "questions": "50", "population": "200"},
    "learn_range": {"column": "age", "lowest": "0", "highest": "120", "inside": "98", "epsilon": "0.1"},
}


#: On each page a wrong value, and where and what is said of it.
WRONG = [
    ("budget", {"delta": "0.1"}, "id_delta", "must be at most"),
    ("questions", {"in.sex": "", "from.age": "19"}, "", "19"),
    ("questions", {"workload": "{"}, "id_workload", ""),
    ("compare", {"epsilon": "0,5"}, "id_epsilon", "epsilon: '0,5' must be a decimal number"),
    ("compare", {"population": "many"}, "id_population", "must be a whole number"),
    ("new_session", {"questions": "0"}, "id_questions", "Questions: must be at least 1."),
    ("learn_range", {"highest": "-1"}, "id_highest", "highest"),
]


def said_at(answer, field):
    """What is said beside one field."""
    found = re.search(rf'<div id="{field}_wrong"[^>]*hx-swap-oob="innerHTML"[^>]*>(.*?)</div>', body(answer), re.DOTALL)
    return html.unescape(re.sub(r"<[^>]+>", "", found[1])).strip()


@pytest.mark.parametrize(("page", "typed", "field", "message"), WRONG)
def test_a_wrong_value_is_named_beside_its_field_as_the_button_would(
    make_dataset, make_draft, check, page, typed, field, message
):
    dataset = make_dataset(epsilon="" if page == "budget" else "2")
    subject = make_draft(dataset, mechanism="") if page in ("questions", "compare") else dataset
    # A page that plans as one types shows the plan again, and that goes where a value is wrong.
    plans = page in ("new_session", "learn_range")
    answer, sent = check(link(page, subject), RIGHT[page] | typed, method="get" if plans else "post")
    assert sent.status_code == 400
    assert ("The plan" if plans else "<html") not in body(answer)
    said = said_at(answer, field) if field else words(answer)
    assert said
    assert message in words(answer)
    assert said in words(sent)
