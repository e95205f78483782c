"""Everything at a glance: one button, one release of every column, and a page of small charts."""

from __future__ import annotations

import numpy as np
import pytest
from django.urls import reverse

from releases import services
from releases.engine.bounds.accuracy import Proof
from releases.engine.domain.universe import Attribute, Universe
from releases.models import CHECK, PLAIN, Collection, LedgerEntry, Release
from releases.presentation.results.glance import Counted, glance_of, quartile_about, quartile_within
from releases.questions.together import at_a_glance
from tests.web.pages import body, field_value, words

AGES = Attribute.from_json({"name": "age", "type": "integer", "edges": [0, 10, 20, 30, 40], "missing_as": "no number"})


@pytest.fixture(autouse=True)
def _no_worker():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("releases.services.releases.enqueue", lambda release_id: None)
        yield


@pytest.fixture
def press(dataset, as_, alice):
    """Press the button for every column, as alice."""
    address = reverse("new_collection", args=[dataset.pk])
    return lambda epsilon="0.5": as_(alice).post(address, {"glance-epsilon": epsilon})


@pytest.fixture
def released(press, as_, alice):
    """What the button plans, released by the page that checks it and computed by a worker."""
    confirm = as_(alice).get(press().url).context["page"]
    collection = Collection.objects.get()
    address = reverse("confirm_collection", args=[collection.pk])
    sent = {"action": "release", "key": confirm.key, "plans": list(confirm.plans)}
    assert as_(alice).post(address, sent).status_code == 302
    for part in collection.parts.all():
        assert services.execution.execute_release(release_id=part.release_id)
    return collection


@pytest.mark.django_db
def test_the_button_is_there_with_half_an_epsilon_and_asks_for_nothing_yet(dataset, as_, alice):
    page = as_(alice).get(reverse("new_collection", args=[dataset.pk]))
    assert "Everything at a glance" in words(page)
    assert field_value(page, "glance-epsilon") == "0.5"
    assert not Release.objects.exists()


@pytest.mark.django_db
def test_it_plans_a_release_of_every_column_and_one_of_what_is_missing_and_spends_nothing_before_it_is_confirmed(press):
    response = press()
    collection = Collection.objects.get()
    assert response.url == reverse("confirm_collection", args=[collection.pk])
    counts, read = (part.release for part in collection.parts.all())
    for release in (counts, read):
        assert release.workload["queries"] == [{"marginal": ["age"]}, {"marginal": ["sex"]}]
        assert release.mechanism
        assert release.beta == "0.025"
    assert (counts.kind, read.kind) == (PLAIN, CHECK)
    assert (collection.epsilon, counts.epsilon, read.epsilon) == ("0.5", "0.375", "0.125")
    assert not LedgerEntry.objects.filter(kind="charge").exists()


@pytest.mark.django_db
@pytest.mark.parametrize("epsilon", ["", "0", "1,5", "much"])
def test_an_epsilon_that_is_none_is_said_beside_its_field_and_plans_nothing(press, epsilon):
    response = press(epsilon)
    assert response.status_code == 400
    assert response.context["glance"].errors["epsilon"]
    assert not response.context["form"].errors
    assert not Collection.objects.exists()


@pytest.mark.django_db
def test_its_page_shows_each_column_with_its_quartiles_from_what_was_released(released, as_, alice):
    page = as_(alice).get(reverse("collection", args=[released.pk]))
    age, sex = page.context["glances"]
    assert (age.name, len(age.histogram), [each.name for each in age.quartiles]) == (
        "age",
        5,
        ["First quartile", "Median", "Third quartile"],
    )
    assert {bar.label for bar in sex.named} == {"female", "male"}
    assert (age.first, age.last) == ("18 to 24", "55 to 65")
    assert body(page).count('<section class="glance">') == 2
    assert LedgerEntry.objects.filter(kind="charge").count() == 2
    assert age.missing.startswith("Missing: ")
    assert sex.missing.startswith("Missing: ")


@pytest.mark.django_db
def test_before_it_is_released_no_column_is_shown(press, as_, alice):
    press()
    page = as_(alice).get(reverse("collection", args=[Collection.objects.get().pk]))
    assert page.context["glances"] == []
    assert "Columns at a glance" not in words(page)


@pytest.mark.django_db
def test_who_may_not_see_the_release_sees_no_chart_until_it_is_public(released, as_, charlie):
    address = reverse("collection", args=[released.pk])
    assert as_(charlie).get(address).status_code == 404
    services.releases.make_public(release=released.parts.get(place=0).release)
    shown = as_(charlie).get(address).context["glances"]
    # The release that has counted what is missing is not public.
    assert [each.missing for each in shown] == ["Rows without a value are not counted here."] * 2


@pytest.mark.django_db
@pytest.mark.parametrize("proof", [each for each in Proof if each not in (Proof.BEFORE, Proof.AFTER)])
def test_no_interval_is_drawn_from_a_bound_that_is_not_proved(released, as_, alice, proof):
    for part in released.parts.select_related("release"):
        part.release.result["receipt"]["bound"]["proof"] = proof.value
        part.release.save(update_fields=["result"])
    assert as_(alice).get(reverse("collection", args=[released.pk])).context["glances"] == []


@pytest.mark.django_db
def test_many_columns_are_shown_a_page_at_a_time(released, as_, alice, monkeypatch):
    monkeypatch.setattr("releases.views.releases.collections._COLUMNS_A_PAGE", 1)
    address = reverse("collection", args=[released.pk])
    first, second = (as_(alice).get(address, {"page": number}) for number in (1, 2))
    assert [each.name for page in (first, second) for each in page.context["glances"]] == ["age", "sex"]
    assert "More columns" in words(first)
    assert "Page 2 of 2" in words(second)


def shown(counts, *, error=0.0, attribute=AGES):
    known = np.asarray(counts, dtype=float)
    counted = Counted(about=known, lower=np.maximum(known - error, 0), upper=np.maximum(known + error, 0))
    return glance_of(attribute, counted)


def test_exact_counts_give_the_quartile_s_own_bin_and_the_missing_share():
    column = shown([40, 40, 40, 40, 40])
    assert [(each.about, each.within) for each in column.quartiles] == [
        ("10", "0 to 10"),
        ("20", "10 to 20"),
        ("30", "20 to 30"),
    ]
    assert column.missing == "Missing: 20.0% (20.0 to 20.0)."
    assert [bar.share for bar in column.histogram] == ["20.0%"] * 4


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


def test_the_quartile_follows_from_values_spread_evenly_in_each_bin():
    edges = np.asarray([0.0, 10.0, 20.0])
    assert quartile_about(np.asarray([10.0, 30.0]), edges, share=0.25) == pytest.approx(10)
    assert quartile_about(np.asarray([10.0, 30.0]), edges, share=0.5) == pytest.approx(10 + 10 / 3)
    assert quartile_about(np.asarray([-5.0, 0.0]), edges, share=0.5) is None


def test_counts_that_are_all_noise_say_that_nothing_is_known():
    column = shown([-3, 2, -1, 0, 1], error=50)
    assert [each.within for each in column.quartiles] == ["0 to 40"] * 3
    assert column.missing.endswith("(0.0 to 100.0).")


def test_a_column_of_very_many_bins_has_bars_of_neighbours_and_names_only_its_largest_categories():
    many = Attribute.from_json({"name": "income", "type": "integer", "edges": list(range(0, 1010, 10))})
    column = shown([1.0] * 100, attribute=many)
    assert len(column.histogram) == 34
    assert column.histogram[0].label == "0 to 9 … 20 to 29"
    assert column.missing == "Rows without a value are not counted here."
    towns = Attribute.from_json(
        {"name": "town", "type": "categorical", "categories": list("abcdefg"), "missing_as": "g"}
    )
    column = shown([1, 2, 3, 4, 5, 6, 7], attribute=towns)
    assert ([bar.label for bar in column.named], column.others) == (list("gfedc"), 2)
    assert column.missing == "Missing values count as “g”: 25.0% (25.0 to 25.0)."


def test_what_is_missing_is_counted_by_itself_only_where_a_column_leaves_such_rows_out():
    assert [(part.title, part.weight) for part in at_a_glance(Universe(attributes=(AGES,)), may_check=True)] == [
        ("Everything at a glance", "3")
    ]
    dropping = Attribute.from_json({**AGES.to_json(), "name": "b", "missing_as": "drop"})
    both = Universe(attributes=(AGES, dropping))
    asked = at_a_glance(both, may_check=True)
    assert [(part.title, part.weight) for part in asked] == [("Everything at a glance", "3"), ("Missing values", "1")]
    assert len(at_a_glance(both, may_check=False)) == 1


def test_a_release_beside_it_that_counted_how_values_read_tells_what_is_missing():
    dropped = Attribute.from_json({"name": "age", "type": "integer", "edges": [0, 10, 20]})
    counted = Counted(about=np.asarray([40.0, 40.0]), lower=np.asarray([30.0, 30.0]), upper=np.asarray([50.0, 50.0]))
    read = np.asarray([80.0, 0.0, 0.0, 20.0])
    states = Counted(about=read, lower=np.maximum(read - 10, 0), upper=read + 10)
    assert glance_of(dropped, counted, states=states).missing == "Missing: 20.0% (8.3 to 30.0)."


def test_the_ends_of_a_share_are_rounded_away_from_it():
    known = np.asarray([1.0, 2.0])
    assert Counted(about=known, lower=known, upper=known).share(0) == "33.3% (33.3 to 33.4)"
    assert Counted(about=known, lower=known, upper=known).share(1) == "66.7% (66.6 to 66.7)"
