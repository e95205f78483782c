"""A table that takes long to read holds up other tables, and no release."""

from __future__ import annotations

from tests.stack import Stack

COLUMNS = "[dict(name='c', type='integer', edges=list(range(5)))]"


def test_a_release_overtakes_wide_tables_that_were_sent_before_it(tmp_path):
    """With a worker for each queue, as the compose file and the demo start them."""
    table, wide = tmp_path / "t.csv", tmp_path / "wide.csv"
    table.write_text("c\n" + "1\n2\n3\n" * 100)
    # As many columns as can be read: half a minute of reading, and as much again to be made recognisable.
    names = range(10_000)
    row = ",".join(str(each % 7) for each in names)
    wide.write_text(",".join(f"c{each}" for each in names) + f"\n{row}" * 300 + "\n")
    stack = Stack(tmp_path)
    stack.migrate()
    try:
        stack.run(f"budgeted('2', {COLUMNS}, {str(table)!r})")
        for queue in ("releases", "uploads"):
            stack.start_worker(f"{queue}.log", queue=queue)
        stack.run(
            f"""
            alice, _ = people()
            for number in range(3):
                services.uploads.receive_upload(owner=alice, title=f"Wide {{number}}", source=Path({str(wide)!r}))
            """
        )
        stack.wait_for("from releases.models import Upload\nanswer = Upload.objects.filter(state='reading').exists()")
        stack.run(
            """
            release = draft(Dataset.objects.get(title="Survey"))
            services.releases.submit_release(release=release, key=uuid.uuid4(), by=release.dataset.owner)
            """
        )
        stack.wait_for("answer = Release.objects.filter(state='published').exists()")
        states = stack.run(
            "from releases.models import Upload\n"
            "answer = list(Upload.objects.order_by('created_at').values_list('state', flat=True))"
        )
    finally:
        stack.stop()
    assert states[-1] == "waiting", states
