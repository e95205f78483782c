"""Everything at a glance: one button, one release of every column, one of its pairs, and a page of small charts."""

import re

import numpy as np
import pytest

from releases import services
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.attribute import Attribute
from releases.engine.domain.universe import Universe
from releases.models import CHECK, PLAIN, Collection, LedgerEntry, Release
from releases.presentation.results.glance import BinCounts, glance_of, quartile_within
from releases.questions.together import at_a_glance
from tests.web.conftest import rows_of
from tests.web.pages import link, words

AGES = Attribute.from_json({"name": "age", "type": "integer", "edges": [0, 10, 20, 30, 40], "missing_as": "no number"})


pytestmark = pytest.mark.usefixtures("no_worker")


@pytest.fixture
def press(dataset, as_, alice):
    """Press the button for every column, as alice."""
    return lambda epsilon="0.5", of=dataset: as_(alice).post(link("new_collection", of), {"glance-epsilon": epsilon})


@pytest.fixture
def release(press, as_, alice):
    """What the button plans, released by the page that checks it and computed by a worker."""

    def run(beta="", **given):
        confirm = press(**given).url
        if beta:
            Release.objects.update(beta=beta)
        page, collection = as_(alice).get(confirm).context["page"], Collection.objects.get()
        sent = {"action": "release", "key": page.key, "plans": list(page.plans)}
        assert as_(alice).post(confirm, sent).status_code == 302
        for part in collection.parts.all():
            assert services.execution.execute_release(release_id=part.release_id)
        return collection

    return run


@pytest.fixture
def released(release):
    return release()


def test_it_plans_a_release_of_every_column_and_one_of_what_is_missing_and_spends_nothing_before_it_is_confirmed(press):
    response = press()
    collection = Collection.objects.get()
    assert response.url == link("confirm_collection", collection)
    counts, read = (part.release for part in collection.parts.all())
    for release in (counts, read):
        assert release.workload["queries"] == [{"marginal": ["age"]}, {"marginal": ["sex"]}]
        assert release.mechanism
        assert release.beta == "0.025"
    assert (counts.kind, read.kind) == (PLAIN, CHECK)
    assert (collection.epsilon, counts.epsilon, read.epsilon) == ("0.5", "0.375", "0.125")
    assert not LedgerEntry.objects.filter(kind="charge").exists()


def test_the_release_of_how_values_read_says_first_how_many_are_missing(released):
    _, read = (part.release for part in released.parts.all())
    assert read.result["headline"].startswith("Rows without a value of age: about ")


def test_who_may_not_see_the_release_sees_no_chart_until_it_is_public(released, as_, charlie):
    address = link("collection", released)
    assert as_(charlie).get(address).status_code == 404
    services.releases.make_public(release=released.parts.get(place=0).release)
    shown = as_(charlie).get(address).context["glances"]
    # The release that has counted what is missing is not public.
    assert [each.missing for each in shown] == ["Rows without a value are not counted here."] * 2


@pytest.mark.parametrize("proof", [each for each in Proof if each not in (Proof.BEFORE, Proof.AFTER)])
def test_no_interval_is_drawn_from_a_bound_that_is_not_proved(released, as_, alice, proof):
    for part in released.parts.select_related("release"):
        part.release.result["receipt"]["bound"]["proof"] = proof.value
        Release.objects.filter(pk=part.release.pk).change(result=part.release.result)
    assert as_(alice).get(link("collection", released)).context["glances"] == []


#: Two columns say the same, and two others have nothing to do with them; a fifth is the same in every row.
RELATED = [
    {"name": name, "type": "categorical", "categories": values, "outside": values[0]}
    for name, values in (("work", ["office", "field"]), ("shoes", ["light", "heavy"]), ("sex", ["f", "m"]))
]
RELATED += [
    {"name": "age", "type": "integer", "edges": list(range(0, 101, 10)), "missing_as": "no number"},
    {"name": "country", "type": "categorical", "categories": ["here"], "outside": "here"},
]
ROWS = [f"{('office,light', 'field,heavy')[n % 2]},{'fm'[n // 2 % 2]},{n * 7 % 100},here" for n in range(4_000)]


@pytest.fixture
def related(make_declared):
    content = "\n".join(["work,shoes,sex,age,country", *ROWS, ""]).encode()
    return make_declared(RELATED, content=content, epsilon="20")


@pytest.fixture
def compared(related, release):
    """The collection, and the release of its pairs: no interval misses by chance, and shares are within 1%."""
    collection = release(epsilon="10", beta="0.0000000001", of=related)
    return collection, collection.parts.get(release__title="Strongest associations").release


def test_the_pairs_have_two_parts_of_five_and_columns_of_one_value_are_left_out(related, press):
    press(of=related)
    counts, pairs = (part.release for part in Collection.objects.get().parts.all())
    assert (counts.epsilon, pairs.epsilon) == ("0.3", "0.2")
    asked = {"columns": ["work", "shoes", "sex", "age"], "k": 3}
    assert pairs.workload["queries"] == [{"strongest_associations": asked}]
    assert pairs.mechanism == "strongest-associations"
    assert not LedgerEntry.objects.filter(kind="charge").exists()


def test_the_pair_that_goes_together_is_shown_and_written_with_counts_that_hold_the_true_ones(compared, as_, alice):
    collection, release = compared
    page = as_(alice).get(link("collection", collection))
    first, *others = page.context["associations"]
    assert first.title == "work × shoes"
    assert re.fullmatch(
        r"Of the rows with work “(office|field)”, about (9[5-9]|100)% \(\d+ to 100\) have shoes “(light|heavy)”; "
        r"of all other rows, about [0-5]% \(0 to \d+\)\.",
        first.sentence,
    )
    assert all("too uncertain to say how" in each.sentence for each in others)
    true = {("office", "light"): 2_000, ("office", "heavy"): 0, ("field", "light"): 0, ("field", "heavy"): 2_000}
    assert {labels for labels, _ in first.cells} == set(true)
    assert all(lower <= true[labels] <= upper for labels, (_, lower, upper) in first.cells)
    assert first.sentence in words(page)
    (shown, *_) = as_(alice).get(link("release_detail", release)).context["page"].statistic.associations
    assert shown.title == first.title
    written = rows_of(release, "associations.csv")
    cells = [(tuple(each[name] for name in ("first_value", "second_value")), int(each["estimate"])) for each in written]
    assert cells[:4] == [(labels, numbers[0]) for labels, numbers in first.cells]
    assert [each["answer"] for each in rows_of(release)] == [each.title for each in (first, *others)]
    assert [event["kind"] for event in release.result["receipt"]["events"]] == ["repeated", "discrete_gaussian"]


def test_who_may_not_see_the_release_of_pairs_sees_no_pair(compared, as_, charlie):
    collection, release = compared
    services.releases.make_public(release=collection.parts.get(place=0).release)
    address = link("collection", collection)
    assert as_(charlie).get(address).context["associations"] == []
    services.releases.make_public(release=release)
    assert len(as_(charlie).get(address).context["associations"]) == 3


def within(counts, error=0.0):
    known = np.asarray(counts, dtype=float)
    return BinCounts(about=known, lower=np.maximum(known - error, 0), upper=np.maximum(known + error, 0))


@pytest.mark.parametrize("seed", range(20))
def test_wherever_the_counts_lie_in_their_intervals_the_quartiles_lie_in_theirs(seed):
    random = np.random.default_rng(seed)
    edges = np.arange(0, 101, 5)
    values = np.sort(random.beta(*random.uniform(0.5, 5, 2), size=1000) * 100)
    true, _ = np.histogram(values, edges)
    error = random.uniform(0, 40)
    noisy = true + random.uniform(-error, error, true.size)
    for part, whole in ((1, 4), (1, 2), (3, 4)):
        low, high = quartile_within(np.maximum(noisy - error, 0), noisy + error, part=part, whole=whole)
        quantile = values[-(-1000 * part // whole) - 1]
        assert edges[low] <= quantile <= edges[high]


def test_quartiles_are_about_where_the_counts_put_them():
    column = glance_of(AGES, within([40, 40, 40, 40, 40]))
    found = [(each.about, each.within) for each in column.quartiles]
    assert found == [("10", "0 to 10"), ("20", "10 to 20"), ("30", "20 to 30")]


@pytest.mark.parametrize("kind", ["date", "datetime"])
def test_quartiles_of_dates_are_days_where_their_bins_are_in_order_of_time(kind):
    declared = {"type": kind, "first": "2024-01-01", "last": "2024-04-30", "missing_as": "no date"}
    column = Attribute.from_json({"name": "seen", "by": "month", **declared})
    # A row on each day, and more without a date.
    found = glance_of(column, within([31, 29, 31, 30, 500])).quartiles
    assert [each.about for each in found] == ["31 January 2024", "1 March 2024", "31 March 2024"]
    march = "1 March 2024 to 31 March 2024"
    assert [each.within for each in found] == ["1 January 2024 to 31 January 2024", march, march]
    assert [each.about for each in glance_of(column, within([0, 0, 0, 0, 9])).quartiles] == ["", "", ""]
    weekdays = Attribute.from_json({"name": "seen", "by": "weekday", **declared})
    assert glance_of(weekdays, within([1, 2, 3, 4, 5, 6, 7, 8])).quartiles == ()


def test_what_is_missing_is_counted_by_itself_only_where_a_column_leaves_such_rows_out_and_is_told():
    alone = at_a_glance(Universe(attributes=(AGES,)), may_check=True)
    assert [part.title for part in alone] == ["Everything at a glance"]
    dropping = Attribute.from_json({**AGES.to_json(), "name": "b", "missing_as": "drop"})
    both = Universe(attributes=(AGES, dropping))
    asked = at_a_glance(both, may_check=True)
    assert [(part.title, part.weight) for part in asked] == [("Everything at a glance", "3"), ("Missing values", "1")]
    assert len(at_a_glance(both, may_check=False)) == 1

    dropped = Attribute.from_json({"name": "age", "type": "integer", "edges": [0, 10, 20]})
    found = glance_of(dropped, within([40.0, 40.0], 10), states=within([80.0, 0.0, 0.0, 20.0], 10))
    assert found.missing == "Missing: 20.0% (8.3 to 30.0)."
