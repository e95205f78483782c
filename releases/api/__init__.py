"""The REST API: the same services as the pages, for programs.

A program signs in with a token (`Authorization: Bearer ...`), made and revoked on its owner's page; a page's own script
with the session's cookie and the CSRF token. Objects one may not see are a 404, as on the pages. What is wrong with a
value is answered with 400 and its field, value and rule; what cannot be done now, with 409 and the reason.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern

from releases import services
from releases.api import catalogue, connections, datasets, releases, sessions, workloads
from releases.api.authentication import SessionAuth, TokenAuth
from releases.engine.errors import EngineError
from releases.engine.tables.facts import UnreadableTable
from releases.ledger import refusals
from releases.middleware.api_errors import Api, TextParser, answer_in_json
from releases.middleware.body_limit import TAKES_A_TABLE
from releases.middleware.second_factor import AUTHENTICATES

api = Api(
    parser=TextParser(),
    title="dpweb",
    version="1",
    description=__doc__ or "",
    auth=[TokenAuth(), SessionAuth()],
    docs_url=None,  # its page would load scripts from elsewhere
    urls_namespace="api",
)
for _part in (catalogue, datasets, connections, releases, workloads, sessions):
    api.add_router("", _part.router)

answer_in_json(api)


def _refused(request: HttpRequest, error: Any) -> HttpResponse:
    return api.create_response(request, {"message": str(error)}, status=409)


for _kind in (
    services.release_inputs.Refusal,
    services.datasets.Kept,
    refusals.LedgerRefusal,
    EngineError,
    UnreadableTable,
):
    api.add_exception_handler(_kind, _refused)


#: For the site's table of contents. Programs are told 401, where pages send people to sign in.
api_urls = api.urls
_patterns = [each for each in api_urls[0] if isinstance(each, URLPattern) and each.callback is not None]
_with_a_table = {str(each.pattern) for each in _patterns if each.name == datasets.upload_dataset.__name__}
for _pattern in _patterns:
    login_not_required(_pattern.callback)
    setattr(_pattern.callback, AUTHENTICATES, True)
    if str(_pattern.pattern) in _with_a_table:
        setattr(_pattern.callback, TAKES_A_TABLE, True)
