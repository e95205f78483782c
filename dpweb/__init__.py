"""Project wiring."""

import gc
import os

# Site, workers and commands all begin here. What they write is for their own account alone.
os.umask(0o077)
# Several threads make a product of matrices many times slower where processors are busy. numpy reads this once.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What is imported stays: a start spent an eighth of its time on looking through it for what can be thrown away.
gc.set_threshold(5_000, 10, 10)

from dpweb.celery import app as celery_app  # noqa: E402  after the umask

__all__ = ["celery_app"]
