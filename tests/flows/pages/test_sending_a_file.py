"""What the page of a file says while it is sent."""

import re
from pathlib import Path

import pytest

from dpweb.settings import BASE_DIR

pytestmark = pytest.mark.browser

SCRIPT = Path(BASE_DIR) / "releases/static/releases/upload.js"
FORM = """
<form data-upload data-cap="1000"><input type="file" id="id_file">
  <div data-sending hidden><label></label><progress></progress><p><button data-stop></button></p></div>
  <p data-broken hidden></p><p class="actions"><button></button></p>
</form>
"""
#: A clock that is set, and a request that sends nothing.
STUBS = """() => {
  window.clock = 0;
  performance.now = () => window.clock * 1000;
  window.XMLHttpRequest = class {
    constructor() { this.upload = { addEventListener: (name, heard) => { window.sent = heard; } }; }
    addEventListener() {} open() {} setRequestHeader() {} send() {}
  };
}"""
SAID = """([seconds, share]) => {
  window.clock = seconds;
  window.sent({ lengthComputable: true, loaded: share * 1000, total: 1000 });
  return document.querySelector("label").textContent;
}"""
#: Seconds since it began, and the share that was sent: slower and slower, then fast, then slow again.
SENT = ((10, 0.1), (20, 0.2), (40, 0.3), (60, 0.32), (90, 0.33), (100, 0.7), (110, 0.8), (160, 0.81), (165, 0.95))


def test_the_time_that_is_left_never_grows_however_slow_the_line_becomes(chromium):
    page = chromium.new_page()
    page.set_content(FORM)
    page.evaluate(STUBS)
    page.add_script_tag(path=SCRIPT)
    page.evaluate("document.querySelector('form').requestSubmit()")
    said = [page.evaluate(SAID, [seconds, share]) for seconds, share in SENT]
    page.close()
    left = [int(found[1]) for each in said if (found := re.search(r"about (\d+) s left", each))]
    assert left == sorted(left, reverse=True)
    # What would be a longer time is not said.
    assert 3 <= len(left) < len(SENT)
    assert all(f"{100 * share:.0f}% sent" in each for (_, share), each in zip(SENT, said, strict=True))
