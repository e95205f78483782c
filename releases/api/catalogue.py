"""What is public: read without a token, by everybody."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from ninja import Query, Router

from releases.display.paging import PaginatorByKey
from releases.publication.archive import download_names
from releases.publication.receipt import spent
from releases.views.public.catalogue import CatalogueEntry, found_in_catalogue, listed
from releases.views.results.citation import address_of

#: Public releases in one page of the catalogue.
MAX_CATALOGUED = 50

router = Router()


@router.get("/catalogue", auth=None)
def show_catalogue(request: HttpRequest, q: str = "", page: Annotated[int, Query(ge=1)] = 1) -> Any:
    """The releases that everybody may read and download, the newest first; no token is needed.

    Searched by all words of `q`, in any order, in titles, datasets and columns. A page beyond the last is empty.
    """
    paginator = PaginatorByKey(found_in_catalogue(q).with_files().with_cost(), MAX_CATALOGUED)
    shown = listed(paginator.page(page)) if page <= paginator.num_pages else []
    return {
        "count": paginator.count,
        "page": page,
        "pages": paginator.num_pages,
        "releases": [_catalogued(request, each) for each in shown],
    }


def _catalogued(request: HttpRequest, each: CatalogueEntry) -> dict[str, Any]:
    release: Any = each.release
    address = address_of(request, release)
    bound = {part: getattr(release, f"bound_{part}") for part in ("alpha", "beta", "says", "proof")}
    return {
        "id": str(release.pk),
        "title": release.title,
        "dataset": release.dataset.title,
        "mechanism": release.mechanism,
        "is_session": release.kind.is_interactive,
        # What was charged, in the form that is said first: a pure release spends none of the delta that it was allowed.
        "epsilon": "",
        "delta": "",
        **spent({"cost": release.cost}),
        "bound": bound if bound["alpha"] is not None else None,
        # A day: what was charged at a known time would tell by an hour or a minute how long the run took.
        "published_at": release.published_at.date().isoformat(),
        "address": address,
        "files": {name: f"{address}files/{name}" for name in download_names({"files": release.published_files})},
        "certificates": [
            {"id": str(one.release.pk), "says": one.says, "confidence": one.confidence} for one in each.certificates
        ],
    }
