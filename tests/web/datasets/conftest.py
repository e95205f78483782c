"""What the tests of datasets set up in the same way."""

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from releases import services
from tests.web.conftest import CSV, give


@pytest.fixture
def ingest(request, upload_file):
    """A table of alice's, unless it is somebody else's, of which nothing is declared."""

    def made(content=CSV, title="Survey", *, owner=None, group=None):
        owner = owner or request.getfixturevalue("alice")
        give(owner, "curator")
        return services.datasets.ingest_dataset(owner=owner, title=title, source=upload_file(content), group=group)

    return made


@pytest.fixture
def send(as_, alice):
    """Upload bytes by the page, as alice or somebody else."""

    def upload(content=CSV, name="survey.csv", *, title="Survey 1996", by=alice, **said):
        return as_(by).post(reverse("upload"), {"title": title, "table": SimpleUploadedFile(name, content), **said})

    return upload


@pytest.fixture
def fresh(ingest, group):
    """Shared with alice's group, nothing declared."""
    return ingest(group=group)


def filled(*rows, **more):
    """What the form of the columns sends, with some fields of each column."""
    data = {"form-TOTAL_FORMS": len(rows), "form-INITIAL_FORMS": len(rows)}
    return data | {f"form-{at}-{name}": value for at, row in enumerate(rows) for name, value in row.items()} | more


@pytest.fixture
def session(dataset, alice, carry_out):
    """An open session of a dataset with a budget, in which nothing was asked yet."""
    options = {"population": 200, "questions": 50}
    asked = {"epsilon": "1", "options": options, "way": "pmw-online"}
    live = services.sessions.draft_session(dataset=dataset, by=alice, title="Ask away", **asked)
    return carry_out(live).session
