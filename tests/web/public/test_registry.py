"""A release's entry for the public registry of deployments: what the receipt knows, and blanks for what it cannot."""

from __future__ import annotations

import pytest
import yaml
from django.urls import reverse

from releases import services
from releases.models import Release
from tests.web.pages import body

pytestmark = pytest.mark.django_db

#: The registry's own fields, as its template has them.
FIELDS = {
    "basic": "name data_curators description intended_use data_product_type data_product_region data_product_sector "
    "publication_date",
    "dp_variant": "variant_name data_domain unprotected_quantities",
    "privacy_loss": "privacy_unit privacy_unit_details number_of_privacy_units privacy_parameters "
    "privacy_parameters_details",
    "deployment_model": "model_name model_name_details release_type data_source_type access_type",
    "implementation": "preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification "
    "utility additional_information",
    "administrative": "evidence_sources status registry_authors tier",
}


@pytest.fixture
def entry_of(as_, alice):
    def read(release):
        answered = as_(alice).get(reverse("registry", args=[release.pk]))
        assert answered.status_code == 200
        assert '-deployment.yaml"' in answered["Content-Disposition"]
        return yaml.safe_load(body(answered))

    return read


def test_an_entry_has_the_registry_s_fields_and_no_others(published, entry_of):
    entry = entry_of(published)
    assert set(entry) == {"url_slug", "deployment"}
    assert {part: set(held) for part, held in entry["deployment"].items()} == {
        part: set(names.split()) for part, names in FIELDS.items()
    }
    assert entry["deployment"]["basic"]["publication_date"] == published.result["receipt"]["date"]


def test_a_pure_release_says_its_epsilon_and_whom_it_protects(published, entry_of):
    deployment = entry_of(published)["deployment"]
    receipt = published.result["receipt"]
    assert deployment["dp_variant"]["variant_name"] == "Pure DP"
    assert deployment["privacy_loss"]["privacy_parameters"] == {"epsilon": float(receipt["cost"]["pure"]["epsilon"])}
    assert deployment["privacy_loss"]["privacy_unit_details"].endswith("differ by one that is added or removed.")
    assert deployment["implementation"]["utility"] == receipt["bound"]["sentence"]
    evidence = deployment["administrative"]["evidence_sources"]["receipt"]["misc"]["url"]
    assert reverse("receipt", args=[published.pk]) in evidence


def test_a_release_with_gaussian_noise_says_its_rho(dataset, make_draft, carry_out, entry_of):
    release = carry_out(make_draft(dataset, mechanism="gaussian-queries", epsilon="1", delta="0.000001"))
    deployment = entry_of(release)["deployment"]
    assert deployment["dp_variant"]["variant_name"] == "Zero-concentrated DP"
    rho = float(release.result["receipt"]["cost"]["concentrated"]["rho"])
    assert deployment["privacy_loss"]["privacy_parameters"] == {"rho": rho}
    details = deployment["privacy_loss"]["privacy_parameters_details"]
    assert "Approximate DP: epsilon 0.999999999989, delta 0.000001." in details


def test_a_title_that_is_no_plain_text_stays_one_line_of_yaml(queued, entry_of):
    # As one that was stored before titles had to be of one line.
    title = 'Health: "all" of it # really\n- and: more'
    Release.objects.update(title=title)
    assert services.execution.execute_release(release_id=queued.pk)
    assert entry_of(Release.objects.get())["deployment"]["basic"]["name"].startswith(title)
