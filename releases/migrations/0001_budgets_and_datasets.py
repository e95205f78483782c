"""Budgets with their requests and alerts, and the datasets that they protect. The tables of migrations 0001 to 0021."""

import uuid

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    replaces = [("releases", "0011_retired_datasets"), ("releases", "0015_upload"), ("releases", "0016_kept_columns")]
    dependencies = [
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Budget",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=200, verbose_name="population")),
                ("unit", models.JSONField()),
                (
                    "neighbours",
                    models.CharField(choices=[("add_remove", "add remove"), ("replace", "replace")], max_length=20),
                ),
                (
                    "policy",
                    models.CharField(choices=[("pure", "pure"), ("approx", "approx"), ("zcdp", "zcdp")], max_length=10),
                ),
                (
                    "epsilon",
                    models.CharField(
                        blank=True, help_text="granted, as a decimal; empty before a grant", max_length=40
                    ),
                ),
                ("delta", models.CharField(blank=True, max_length=40)),
                ("cap_epsilon", models.BigIntegerField(default=0)),
                ("cap_delta", models.BigIntegerField(default=0)),
                ("cap_rho", models.BigIntegerField(default=0)),
                ("cap_rho_delta", models.BigIntegerField(default=0)),
                ("spent_epsilon", models.BigIntegerField(default=0)),
                ("spent_delta", models.BigIntegerField(default=0)),
                ("spent_rho", models.BigIntegerField(default=0)),
                ("spent_rho_delta", models.BigIntegerField(default=0)),
                ("sequence", models.PositiveIntegerField(default=0)),
                ("head", models.CharField(blank=True, default="", max_length=64)),
                ("is_frozen", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="budgets", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("frozen_reason", models.TextField(blank=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("spent_delta__gte", 0),
                            ("spent_epsilon__gte", 0),
                            ("spent_rho__gte", 0),
                            ("spent_rho_delta__gte", 0),
                        ),
                        name="spent_is_not_negative",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(
                                ("spent_delta__lte", models.F("cap_delta")),
                                ("spent_epsilon__lte", models.F("cap_epsilon")),
                            ),
                            models.Q(
                                ("policy", "zcdp"),
                                ("spent_rho__lte", models.F("cap_rho")),
                                ("spent_rho_delta__lte", models.F("cap_rho_delta")),
                            ),
                            _connector="OR",
                        ),
                        name="spent_is_within_the_caps",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BudgetRequest",
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
                ("decided_at", models.DateTimeField(null=True)),
                ("granted_epsilon", models.CharField(blank=True, max_length=40)),
                ("granted_delta", models.CharField(blank=True, max_length=40)),
                ("note", models.TextField(blank=True)),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="requests", to="releases.budget"
                    ),
                ),
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
                    "requested_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
                ("first_at", models.DateTimeField(null=True)),
                (
                    "first_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("first_delta", models.CharField(blank=True, max_length=40)),
                ("first_epsilon", models.CharField(blank=True, max_length=40)),
            ],
            options={
                "indexes": [models.Index(fields=["state", "requested_at"], name="budgets_to_decide")],
            },
        ),
        migrations.CreateModel(
            name="BudgetAlert",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("percent", models.PositiveSmallIntegerField()),
                ("epsilon", models.CharField(help_text="the budget's epsilon at that time", max_length=40)),
                ("raised_at", models.DateTimeField(auto_now_add=True)),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="alerts", to="releases.budget"
                    ),
                ),
            ],
            options={
                "indexes": [models.Index(fields=["-raised_at"], name="alerts_by_time")],
                "constraints": [
                    models.UniqueConstraint(fields=("budget", "percent", "epsilon"), name="one_alert_a_threshold")
                ],
            },
        ),
        migrations.CreateModel(
            name="Dataset",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("title", models.CharField(max_length=200)),
                ("description", models.TextField(blank=True)),
                ("digest", models.CharField(db_index=True, max_length=64)),
                ("columns", models.JSONField(help_text="names in the table's header")),
                (
                    "location",
                    models.CharField(
                        help_text="Parquet file below the tables folder, or a database URL", max_length=500
                    ),
                ),
                ("declared", models.JSONField(blank=True, null=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "budget",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="datasets",
                        to="releases.budget",
                    ),
                ),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="datasets",
                        to="auth.group",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="datasets",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("rows_deleted_at", models.DateTimeField(blank=True, null=True)),
                ("column_notes", models.JSONField(blank=True, default=dict)),
            ],
            options={
                "indexes": [models.Index(fields=["-created_at"], name="datasets_by_time")],
            },
        ),
        migrations.CreateModel(
            name="Upload",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("title", models.CharField(max_length=200)),
                ("location", models.CharField(blank=True, max_length=100)),
                ("size", models.BigIntegerField(help_text="of the received file, in bytes")),
                ("is_parquet", models.BooleanField(default=False)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("reading", "reading"),
                            ("stored", "stored"),
                            ("refused", "refused"),
                            ("failed", "failed"),
                        ],
                        default="waiting",
                        max_length=10,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("run_token", models.UUIDField(blank=True, null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("lease_until", models.DateTimeField(blank=True, null=True)),
                ("step", models.CharField(blank=True, max_length=80)),
                ("share_done", models.FloatField(default=0.0)),
                ("refusal", models.TextField(blank=True, help_text="in words that quote the header alone")),
                (
                    "dataset",
                    models.OneToOneField(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="upload",
                        to="releases.dataset",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="uploads", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["owner", "-created_at"], name="uploads_by_owner"),
                    models.Index(fields=["state", "lease_until"], name="lapsed_uploads"),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("state", "stored"), _negated=True), ("dataset__isnull", False), _connector="OR"
                        ),
                        name="stored_has_a_dataset",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="Codebook",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
                ("columns", models.JSONField()),
                ("saved_at", models.DateTimeField(auto_now_add=True)),
                (
                    "group",
                    models.ForeignKey(
                        blank=True,
                        null=True,
                        on_delete=django.db.models.deletion.SET_NULL,
                        related_name="codebooks",
                        to="auth.group",
                    ),
                ),
                (
                    "owner",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="codebooks",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("owner", "name"), name="one_codebook_a_name")],
            },
        ),
        migrations.CreateModel(
            name="KeptColumns",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("typed", models.JSONField(null=True)),
                ("codebook", models.TextField(blank=True)),
                ("declared", models.JSONField(null=True)),
                ("kept_at", models.DateTimeField()),
                (
                    "dataset",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="kept_columns", to="releases.dataset"
                    ),
                ),
                (
                    "person",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "constraints": [models.UniqueConstraint(fields=("dataset", "person"), name="kept_once_by_each_person")],
            },
        ),
    ]
