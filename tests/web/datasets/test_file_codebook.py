"""What an SPSS file says of its columns is offered on their page, and declared by nobody but a person."""

from __future__ import annotations

import pytest
from django.urls import reverse

from releases import services
from tests.engine.tables import formats
from tests.web.pages import body, field_value, words

pytestmark = pytest.mark.django_db


@pytest.fixture
def described(alice, upload_file):
    return services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file(formats.statistical("sav")))


def test_it_is_offered_with_what_declaring_it_means_and_declared_by_nobody(described, as_, alice):
    page = as_(alice).get(reverse("columns", args=[described.pk]))
    assert "you confirm that its labels and categories were not made from the rows" in words(page)
    assert "Codes for missing values in the file, which are no categories: age: -9." in words(page)
    assert described.declared is None
    assert field_value(page, "form-0-values") == ""


def test_it_is_filled_in_where_the_person_asks_for_it(described, as_, alice):
    page = as_(alice).get(reverse("columns", args=[described.pk]) + "?codebook=file")
    assert field_value(page, "form-0-values") == "1"
    assert field_value(page, "form-0-missing_codes") == "-9"
    assert field_value(page, "form-0-description") == "Age in years: 1 = one"
    assert "no answer" not in body(page)
    described.refresh_from_db()
    assert described.declared is None


def test_other_files_offer_nothing(alice, upload_file, as_):
    plain = services.datasets.ingest_dataset(owner=alice, title="Survey", source=upload_file())
    address = reverse("columns", args=[plain.pk])
    assert "Fill in what the file says" not in words(as_(alice).get(address))
    assert as_(alice).get(f"{address}?codebook=file").status_code == 404
