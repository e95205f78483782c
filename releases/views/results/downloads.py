"""What a published release gives away: its answers, its files, and its receipt as a page. Each download is recorded."""

from __future__ import annotations

import uuid
from fractions import Fraction
from functools import partial
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import FileResponse, Http404, HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from releases.display.math import typeset
from releases.engine.domain.schema import Schema
from releases.engine.workload.parsing import read_answered
from releases.ledger import audit_log
from releases.models import AuditAction, Release
from releases.permissions import get_published_for, says_if_withdrawn, signed_in
from releases.planning import comparison
from releases.presentation.results.stored_answers import answers_as_json
from releases.publication import archive, files
from releases.publication.archive import ARCHIVE, download_names
from releases.publication.column_checks import check_in_readme
from releases.publication.dictionary import DICTIONARY
from releases.publication.disclosure import DISCLOSURE_TEST
from releases.publication.readme import name_of
from releases.publication.receipt import counted_by, learned_in, limit_in_words, percent, protects_text, rows_text
from releases.publication.report import latest
from releases.schema.bin_edges import made_in_words
from releases.views.results.certificates import certificates_of, certified_files
from releases.views.results.citation import address_of

#: Titles of questions on a receipt's page; the rest is in its file.
_MAX_TITLES = 24


@login_not_required
@says_if_withdrawn
def answers(request: HttpRequest, release_id: uuid.UUID) -> StreamingHttpResponse:
    """All answers of a release as JSON."""
    release = get_published_for(request, release_id)
    assert release.result is not None
    record_download(request, release, "answers.json")
    written = answers_as_json(files.folder_of(release), release.result["receipt"])
    return StreamingHttpResponse(written, content_type="application/json")


@login_not_required
@says_if_withdrawn
def receipt(request: HttpRequest, release_id: uuid.UUID) -> HttpResponse:
    """The receipt as a page."""
    release = get_published_for(request, release_id)
    assert release.result is not None
    shown = release.result["receipt"]
    context = {
        "release": release,
        "receipt": shown,
        "asked": _asked(shown),
        "made": _made(shown),
        "protects": protects_text(shown),
        "cells": comparison.cells_text(shown["universe_size"]),
        "bound": "" if shown["bound"].get("says") else rows_text(shown["bound"]["alpha"], counted_by(shown)),
        "confidence": percent(1 - Fraction(shown["bound"]["beta"])),
        "formula": typeset(shown["bound"]["formula"]) if shown["bound"]["formula"] else "",
        "certificates": certificates_of(request, release),
        "certified_files": certified_files(shown),
        "learned": learned_in(shown),
        "delta_of_rho": _delta_of_rho(shown),
        "is_of_rows_alone": shown["version"] == 1,
        "limit": limit_in_words(shown),
    }
    return render(request, "results/receipt.html", context)


def _delta_of_rho(receipt: dict[str, Any]) -> str:
    """What the cost in rho has beside it; empty where that is nothing."""
    delta = (receipt["cost"].get("concentrated") or {}).get("delta", "0")
    return "" if delta == "0" else str(delta)


def _asked(receipt: dict[str, Any]) -> dict[str, str]:
    """The questions of a receipt: how many of what kind, and the first of their titles."""
    universe = Schema.from_json(receipt["schema"]).universe
    question = read_answered(receipt["workload"], universe)
    titles = [each.title(universe) for each in question.families[:_MAX_TITLES]]
    if more := len(question.families) - len(titles):
        titles.append(f"and {more:,} more, in the file")
    return {
        "summary": comparison.questions_text(question) if question.is_counts else "",
        "titles": "; ".join(titles),
    }


def _made(receipt: dict[str, Any]) -> dict[str, str]:
    """Of each column that is made from others, how."""
    made = ((each.name, made_in_words(each)) for each in Schema.from_json(receipt["schema"]).universe.attributes)
    return {name: how for name, how in made if how}


@login_not_required
@says_if_withdrawn
def download(request: HttpRequest, release_id: uuid.UUID, name: str) -> HttpResponseBase:
    return file_of_release(request, release_id, name)


def file_of_release(request: HttpRequest, release_id: uuid.UUID, name: str) -> HttpResponseBase:
    """A file of the release, named so that it can be told from those of other releases."""
    release = get_published_for(request, release_id)
    if release.result is None:
        raise Http404
    folder, result = files.folder_of(release), release.result
    is_test = name == DISCLOSURE_TEST and (folder / name).is_file()
    if name not in download_names(result) and not is_test:
        raise Http404
    record_download(request, release, name)
    response: HttpResponseBase
    if name == ARCHIVE:
        check = check_in_readme(release, partial(address_of, request))
        pieces = archive.archive_of(folder, result, address=address_of(request, release), check=check)
        response = StreamingHttpResponse(pieces, content_type="application/zip")
    elif name == DICTIONARY:
        written = archive.dictionary_of(folder, result)
        response = HttpResponse(written, content_type="text/csv; charset=utf-8")
    else:
        response = FileResponse(latest(folder, name).open("rb"), filename=name)
    told_apart = name_of(release.title, str(release.pk))
    told_apart += ".zip" if name == ARCHIVE else f"-{_with_its_bound(name, result['receipt'])}"
    response["Content-Disposition"] = f'attachment; filename="{told_apart}"'
    return response


def _with_its_bound(name: str, receipt: dict[str, Any]) -> str:
    """A file's name; of counts as CSV with how close they are, which has no room within."""
    bound = receipt["bound"]
    if name != f"{files.ANSWERS}.csv" or bound.get("says") or not receipt["answers"]:
        return name
    within = rows_text(bound["alpha"], counted_by(receipt)).replace(",", "").replace(" ", "-")
    return f"{files.ANSWERS}-within-{within}-at-{percent(1 - Fraction(bound['beta'])).removesuffix('%')}-percent.csv"


def record_download(request: HttpRequest, release: Release, name: str) -> None:
    """Who took which file of a release; nobody of whom it is not known."""
    reader = signed_in(request) if request.user.is_authenticated else None
    audit_log.record(AuditAction.DOWNLOAD, actor=reader, on=release, detail=name)
