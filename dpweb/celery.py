"""The Celery application. Tasks are hints: the release row is the truth (see ``releases/tasks.py``)."""

from __future__ import annotations

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dpweb.settings")

app = Celery("dpweb")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
