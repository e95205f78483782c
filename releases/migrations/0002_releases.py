"""Releases with the words they are found by and their reviews, and sessions with their answers."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    replaces = [
        ("releases", "0003_sessions"),
        ("releases", "0010_certificates"),
        ("releases", "0012_finished_is_not_public"),
        ("releases", "0013_sessions_name_their_columns"),
        ("releases", "0017_session_closing"),
        ("releases", "0019_what_was_asked"),
        ("releases", "0020_searchable"),
    ]
    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("releases", "0001_budgets_and_datasets"),
    ]

    operations = [
        migrations.CreateModel(
            name="Release",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("title", models.CharField(max_length=200)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("draft", "draft"),
                            ("awaiting review", "awaiting review"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("open", "open session"),
                            ("closing", "closing"),
                            ("published", "finished"),
                            ("failed", "failed"),
                            ("cancelled", "cancelled"),
                            ("withdrawn", "withdrawn"),
                        ],
                        db_index=True,
                        default="draft",
                        max_length=16,
                    ),
                ),
                ("is_public", models.BooleanField(default=False)),
                ("workload", models.JSONField(blank=True, null=True)),
                ("mechanism", models.CharField(blank=True, max_length=60)),
                ("epsilon", models.CharField(blank=True, max_length=40)),
                ("delta", models.CharField(blank=True, default="0", max_length=40)),
                ("beta", models.CharField(default="0.05", max_length=40)),
                ("options", models.JSONField(blank=True, default=dict)),
                ("plan", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("submitted_at", models.DateTimeField(blank=True, null=True)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("run_token", models.UUIDField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("step", models.CharField(blank=True, max_length=80)),
                ("share_done", models.FloatField(default=0.0)),
                (
                    "result",
                    models.JSONField(blank=True, help_text="what pages show: bound, total, answers' index", null=True),
                ),
                ("folder", models.CharField(blank=True, help_text="of the published files", max_length=120)),
                ("published_at", models.DateTimeField(blank=True, null=True)),
                ("withdrawn_at", models.DateTimeField(blank=True, null=True)),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="releases", to="releases.dataset"
                    ),
                ),
                (
                    "submitted_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="releases",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("is_session", models.BooleanField(default=False)),
                (
                    "certifies",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="certificates",
                        to="releases.release",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["state", "lease_until"], name="lapsed_leases"),
                    models.Index(fields=["-created_at"], name="releases_by_time"),
                    models.Index(
                        fields=["is_public", "state", "-published_at", "certifies", "dataset", "title", "id"],
                        name="catalogue",
                    ),
                    models.Index(fields=["dataset", "-created_at", "id"], name="releases_of_dataset"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state__in", ["published", "withdrawn"]), _negated=True),
                            ("result__isnull", False),
                            _connector="OR",
                        ),
                        name="published_has_a_result",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Searchable",
            fields=[
                (
                    "release",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="searchable",
                        serialize=False,
                        to="releases.release",
                    ),
                ),
                ("text", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="ReleaseRequest",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("epsilon", models.CharField(max_length=40)),
                ("delta", models.CharField(default="0", max_length=40)),
                ("reason", models.TextField(blank=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "awaiting review"),
                            ("approved", "approved"),
                            ("denied", "denied"),
                            ("asked back", "asked back"),
                            ("taken back", "taken back"),
                        ],
                        default="waiting",
                        max_length=12,
                    ),
                ),
                ("requested_at", models.DateTimeField(auto_now_add=True)),
                ("first_at", models.DateTimeField(null=True)),
                ("first_epsilon", models.CharField(blank=True, max_length=40)),
                ("first_delta", models.CharField(blank=True, max_length=40)),
                ("decided_at", models.DateTimeField(null=True)),
                ("granted_epsilon", models.CharField(blank=True, max_length=40)),
                ("granted_delta", models.CharField(blank=True, max_length=40)),
                ("note", models.TextField(blank=True)),
                ("key", models.UUIDField(unique=True)),
                ("approved_plan", models.CharField(blank=True, max_length=64)),
                (
                    "decided_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "first_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "release",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="reviews", to="releases.release"
                    ),
                ),
                (
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("asked_plan", models.JSONField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["state", "requested_at"], name="releases_to_decide")],
                "constraints": [
                    models.UniqueConstraint(
                        condition=models.Q(("state", "waiting")), fields=("release",), name="one_review_at_a_time"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Session",
            fields=[
                (
                    "release",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="session",
                        serialize=False,
                        to="releases.release",
                    ),
                ),
                (
                    "audience",
                    models.CharField(
                        choices=[("group", "the dataset's people"), ("everybody", "everybody who signs in")],
                        default="group",
                        max_length=10,
                    ),
                ),
                ("total", models.BigIntegerField(help_text="public, or released with noise")),
                ("total_half_width", models.FloatField()),
                ("noisy_threshold", models.BigIntegerField(editable=False)),
                ("opened_at", models.DateTimeField(auto_now_add=True)),
                ("closed_at", models.DateTimeField(blank=True, null=True)),
                (
                    "closed_by",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("closing_attempts", models.PositiveSmallIntegerField(default=0)),
                ("used_up_at", models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.CreateModel(
            name="SessionAnswer",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("sequence", models.PositiveIntegerField()),
                ("query", models.JSONField()),
                ("key", models.CharField(max_length=64)),
                ("kind", models.CharField(max_length=40)),
                ("estimate", models.BigIntegerField()),
                ("half_width", models.FloatField()),
                ("sign", models.SmallIntegerField(default=0)),
                ("asked_at", models.DateTimeField(auto_now_add=True)),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="answers", to="releases.session"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("session", "sequence"), name="one_answer_a_number"),
                    models.UniqueConstraint(fields=("session", "key"), name="one_answer_a_question"),
                ],
            },
        ),
    ]
