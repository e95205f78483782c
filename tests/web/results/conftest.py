"""What several files of this room need: a release's archive, and the charts that its notebook draws."""

import zipfile
from io import BytesIO

import pytest

from tests.web.conftest import CSV
from tests.web.pages import link


@pytest.fixture
def full(dataset, make_draft, carry_out, once):
    """A published release with synthetic rows."""
    release = once("full", lambda: carry_out(make_draft(dataset, mechanism="laplace-histogram")))
    release.refresh_from_db()
    return release


@pytest.fixture
def publish(make_dataset, make_declared, make_draft, carry_out, once):
    """A published release of some questions, on a table with other rows and columns as far as they are given."""

    def make(*queries, content=CSV, columns=None, unit=None, budget="2", **choice):
        table = {"content": content, "unit": unit, "epsilon": budget}
        dataset = make_declared(columns, **table) if columns else make_dataset(**table)
        key = repr((queries, content, columns, unit, budget, sorted(choice.items())))
        return once(key, lambda: carry_out(make_draft(dataset, *queries, **choice)))

    return make


@pytest.fixture
def archive(as_, alice):
    """The archive of a release, opened."""

    def open_(release):
        response = as_(alice).get(link("download", release, "release.zip"))
        return zipfile.ZipFile(BytesIO(b"".join(response.streaming_content)))

    return open_


@pytest.fixture
def drawn_by_notebook(archive, tmp_path, monkeypatch):
    """The axes of each chart that the notebook of a release draws, by their titles."""
    import matplotlib.pyplot as plt
    import nbformat

    def draw(release):
        with archive(release) as opened:
            opened.extractall(tmp_path)
        (path,) = tmp_path.glob("*/notebook.ipynb")
        monkeypatch.chdir(path.parent)
        monkeypatch.setattr(plt, "show", lambda: None)
        code = [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
        exec("\n\n".join(code), {})
        axes = [plt.figure(number).axes[0] for number in plt.get_fignums()]
        return {each.get_title(): each for each in axes}

    plt.switch_backend("Agg")
    yield draw
    plt.close("all")
