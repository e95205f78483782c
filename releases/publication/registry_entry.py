"""A release as an entry of the public registry of deployments of differential privacy, made from its receipt alone.

The registry (registry.opendp.org) takes one YAML file a deployment. What the receipt knows is filled in; what only the
people who release can say is left empty, with a word on what belongs there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.text import slugify

from releases.engine.domain.privacy import NeighbouringRelation, PrivacyUnit
from releases.engine.domain.schema import Schema
from releases.publication.receipt import counted_by, learned_in


@dataclass(frozen=True, kw_only=True)
class Blank:
    """Something that the software cannot know.

    Attributes:
        belongs: what is to be written there.
        value: what stands there until then.
    """

    belongs: str
    value: str = ""


def registry_entry(receipt: Mapping[str, Any], *, address: str, is_session: bool) -> str:
    """The entry as YAML.

    Args:
        receipt: of a published release.
        address: of its page.
        is_session: whether it answered questions one at a time.
    """
    year = receipt["date"][:4]
    entry = {
        "url_slug": slugify(f"{receipt['title']}-{receipt['dataset']}-{year}"),
        "deployment": {
            "basic": _basic(receipt),
            "dp_variant": _variant(receipt),
            "privacy_loss": _privacy_loss(receipt),
            "deployment_model": _model(is_session),
            "implementation": _implementation(receipt),
            "administrative": _administrative(receipt, address),
        },
    }
    return "\n".join(_lines(entry, "")) + "\n"


def _basic(receipt: Mapping[str, Any]) -> dict[str, Any]:
    kind = "Synthetic data" if receipt["synthetic_rows"] else "Summary statistics"
    return {
        "name": f"{receipt['title']}, {receipt['dataset']}",
        "data_curators": [
            {
                "data_curator_name": Blank(belongs="the organisation"),
                "data_curator_type": Blank(belongs="Government, Industry, Nonprofit or Academia"),
            }
        ],
        "description": f"{receipt['answers']:,} answers"
        + (f" and {receipt['synthetic_rows']:,} synthetic rows." if receipt["synthetic_rows"] else "."),
        "intended_use": Blank(belongs="what it is for"),
        "data_product_type": kind,
        "data_product_region": Blank(belongs="where the people are"),
        "data_product_sector": Blank(belongs="of the organisation, as Government or Healthcare"),
        "publication_date": receipt["date"],
    }


def _variant(receipt: Mapping[str, Any]) -> dict[str, Any]:
    names = [column["name"] for column in receipt["schema"]["columns"]]
    many = counted_by(receipt).many.capitalize()
    domain = f"{many} as they are declared in the columns {', '.join(names)}: {receipt['universe_size']:,} cells."
    return {
        "variant_name": _name_and_parameters(receipt)[0],
        "data_domain": domain,
        "unprotected_quantities": f"{_number_not_protected(receipt)} {_declared_or_learned(receipt)}",
    }


def _number_not_protected(receipt: Mapping[str, Any]) -> str:
    """Of what the table holds a public number: of people, how many rows they have is private."""
    if receipt["neighbours"] != NeighbouringRelation.REPLACE.value:
        return "None."
    is_of_rows = PrivacyUnit.from_json(receipt["unit"]).kind == "row"
    return "The number of rows." if is_of_rows else "The number of people."


def _declared_or_learned(receipt: Mapping[str, Any]) -> str:
    learned = [f"{each['what']} of {each['column']}" for each in learned_in(receipt)]
    if not learned:
        return "Columns, categories and ranges are declared, not read off the data."
    return (
        "Columns, categories and ranges are declared, or were learned from the data by releases of their own, charged "
        f"to the same budget: {', '.join(dict.fromkeys(learned))}."
    )


def _name_and_parameters(receipt: Mapping[str, Any]) -> tuple[str, dict[str, float]]:
    """The strictest form that the release has."""
    cost = receipt["cost"]
    if "pure" in cost:
        return "Pure DP", {"epsilon": float(cost["pure"]["epsilon"])}
    if float(cost.get("concentrated", {}).get("delta", "1")) == 0:
        return "Zero-concentrated DP", {"rho": float(cost["concentrated"]["rho"])}
    approximate = cost["approximate"]
    return "Approximate DP", {"epsilon": float(approximate["epsilon"]), "delta": float(approximate["delta"])}


def _privacy_loss(receipt: Mapping[str, Any]) -> dict[str, Any]:
    schema = Schema.from_json(receipt["schema"])
    added = "added or removed" if receipt["neighbours"] == NeighbouringRelation.ADD_REMOVE.value else "replaced"
    forms = sorted(receipt["cost"].items(), key=_strictest)
    details = [f"{form.capitalize()} DP: {_stated(stated)}." for form, stated in forms]
    return {
        "privacy_unit": "Row-level" if schema.unit.id_column is None else "Person-level",
        "privacy_unit_details": f"Protects {schema.unit_in_words}; adjacent datasets differ by one that is {added}.",
        "number_of_privacy_units": 1,
        "privacy_parameters": _name_and_parameters(receipt)[1],
        "privacy_parameters_details": " ".join(details),
    }


def _strictest(form: tuple[str, Mapping[str, str]]) -> int:
    return ("pure", "approximate", "concentrated").index(form[0])


def _stated(amounts: Mapping[str, str]) -> str:
    # In an order of ours: a database may keep objects in another than they were written in.
    return ", ".join(f"{name} {amounts[name]}" for name in ("epsilon", "rho", "delta") if name in amounts)


def _model(is_session: bool) -> dict[str, Any]:
    return {
        "model_name": "Central",
        "model_name_details": "The organisation holds the data and adds the noise.",
        "release_type": "One release",
        "data_source_type": "Static",
        "access_type": "Interactive" if is_session else "Non-interactive",
    }


def _implementation(receipt: Mapping[str, Any]) -> dict[str, Any]:
    software = receipt["software"]
    return {
        "preprocessing_and_hyperparameter_tuning": "None that looked at the data: the plan was made of public inputs.",
        "mechanisms": f"{receipt['mechanism']['title']} ({receipt['mechanism']['source']}): "
        f"{'; '.join(receipt['events_in_words'])}. Exact discrete samplers, with the operating system's randomness.",
        "composition": "The steps above add up to the stated loss. Other releases of these data are charged to the "
        "same budget.",
        "post_processing": "Synthetic rows are made from the noisy release alone." if receipt["synthetic_rows"] else "",
        "justification": Blank(belongs="why this privacy loss and this mechanism"),
        "utility": receipt["bound"]["sentence"],
        "additional_information": f"{software['name']} {software['version']}",
    }


def _administrative(receipt: Mapping[str, Any], address: str) -> dict[str, Any]:
    return {
        "evidence_sources": {
            "receipt": {
                "evidence_source_type": "Formal publication by the deploying organization",
                "misc": {"title": f"Receipt of {receipt['title']}", "url": address, "year": int(receipt["date"][:4])},
            }
        },
        "status": "Draft",
        "registry_authors": [Blank(belongs="who enters it")],
        "tier": 3,
    }


def _lines(value: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Block mappings; a JSON string is a YAML string."""
    for key, each in value.items():
        if isinstance(each, dict):
            yield f"{indent}{key}:"
            yield from _lines(each, indent + "  ")
        elif isinstance(each, list):
            yield f"{indent}{key}:"
            for one in each:
                inner = list(_lines(one, indent + "    ")) if isinstance(one, dict) else [f"{indent}    {_scalar(one)}"]
                yield f"{indent}  - {inner[0].lstrip()}"
                yield from inner[1:]
        else:
            yield f"{indent}{key}: {_scalar(each)}"


def _scalar(value: Any) -> str:
    if isinstance(value, Blank):
        return f"{json.dumps(value.value)} # {value.belongs}"
    return json.dumps(value, ensure_ascii=False)
