"""The Celery application. Tasks are hints: the release row is the truth (see ``releases/tasks.py``)."""

from __future__ import annotations

import logging
import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpweb.settings")

#: It would log how long each task took, and that depends on rows.
logging.getLogger("celery.app.trace").setLevel(logging.WARNING)

app = Celery("dpweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
