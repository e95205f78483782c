"""Settings. Everything that differs between machines is an environment variable; any of them may be given as a
file instead, by the same name with ``_FILE`` added (for secrets)."""

from __future__ import annotations

import os
import secrets
from importlib.util import find_spec
from pathlib import Path

from environ import FileAwareEnv

env = FileAwareEnv()
BASE_DIR = Path(__file__).resolve().parent.parent

#: Everything the site writes when nothing else is configured: database, broker, uploads, secrets.
DATA_DIR = Path(env.str("DATA_DIR", default=str(BASE_DIR / "var")))
DATA_DIR.mkdir(parents=True, exist_ok=True)


def _own_secret(name: str) -> str:
    """A secret made once for this installation and kept beside its data, readable by its owner alone."""
    path = DATA_DIR / name
    try:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
    except FileExistsError:
        pass
    return path.read_text()


DEBUG = env.bool("DEBUG", default=False)
#: Set when the site is reached over HTTPS: cookies, redirects and HSTS follow.
HTTPS = env.bool("HTTPS", default=False)
#: How many proxies in front of the site are believed when they say whether a visitor came over HTTPS and from which
#: address. Where there are none, anybody could send these headers. Gunicorn speaks no HTTPS: then there is one.
TRUSTED_PROXIES = env.int("TRUSTED_PROXIES", default=1 if HTTPS else 0)
SECRET_KEY = env.str("SECRET_KEY", default="") or _own_secret("secret_key")
#: Keys the digest by which a table uploaded before is recognised. A plain hash of private rows would let anybody who
#: guesses a table check the guess. Changing it makes the site forget which tables it has seen.
DIGEST_KEY = env.str("DIGEST_KEY", default="") or _own_secret("digest_key")
ALLOWED_HOSTS = env.list("ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env.list("CSRF_TRUSTED_ORIGINS", default=[])

INSTALLED_APPS = [
    "releases",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    # Measures the site and the engine. It lies beside the package and is not installed with it.
    *(["benchmarks"] if (BASE_DIR / "benchmarks").is_dir() and find_spec("benchmarks") else []),
]

MIDDLEWARE = [
    # Answers /healthz, /readyz and /metrics, before host names, redirects and cookies.
    "releases.middleware.probes.ProbesMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # After static files, which are compressed already, and around everything that makes a page.
    "releases.middleware.compression.CompressionMiddleware",
    "releases.middleware.cache_control.CachingMiddleware",
    "csp.middleware.CSPMiddleware",
    # Around all that may refuse before an operation is found.
    "releases.middleware.api_errors.ApiErrorsMiddleware",
    "releases.middleware.null_bytes.NullCharactersMiddleware",
    # Before anybody is known by a sign-in or a token.
    "releases.middleware.restored.RestoredBackupMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "releases.middleware.body_limit.BodyLimitMiddleware",
    # Before the CSRF token is looked for, which reads the form with its files. It has no part in which nobody is known.
    "releases.middleware.second_factor.SecondFactorMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "releases.middleware.session_expiry.SignedOutMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "releases.middleware.planning_slots.PlanningSlotsMiddleware",
]

ROOT_URLCONF = "dpweb.urls"
WSGI_APPLICATION = "dpweb.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "csp.context_processors.nonce",
                "releases.permissions.roles",
            ],
        },
    }
]

DATABASES = {"default": env.db_url("DATABASE_URL", default=f"sqlite:///{DATA_DIR / 'db.sqlite3'}")}
DATABASES["default"]["CONN_MAX_AGE"] = 60
DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        # A transaction that begins as a reader and turns writer fails when another wrote in between; IMMEDIATE takes
        # the write lock at once, so charges queue up instead.
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        # FULL: a charge that was acknowledged survives a power cut.
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    }
else:
    # A server that does not answer must not hold up a page, or the question whether the site is ready.
    DATABASES["default"].setdefault("OPTIONS", {}).setdefault("connect_timeout", 10)
#: On PostgreSQL, the role of the site where another owns the tables: `migrate` and `restore` give it its rights.
DATABASE_SITE_ROLE = env.str("DATABASE_SITE_ROLE", default="")
#: Counts attempts to sign in. Where several processes serve the site they must share it, or each allows its own; and
#: each does while the shared one is away.
CACHES = {
    "default": {"BACKEND": "releases.storage.caches.SharedOrLocalCache"},
    "shared": env.cache_url("CACHE_URL", default="locmemcache://shared"),
    "local": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "local"},
}
if CACHES["shared"]["BACKEND"] == "django.core.cache.backends.redis.RedisCache":
    CACHES["shared"]["BACKEND"] = "releases.storage.caches.PromptRedisCache"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- people ---------------------------------------------------------------------------------------------------------
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    # Not a rule: Django tells validators of every new password, whoever sets it and where.
    {"NAME": "releases.accounts.adapters.TokensEndWithThePassword"},
]
ACCOUNT_ADAPTER = "releases.accounts.adapters.ClosedAccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username", "email"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "email*", "password1*", "password2*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_SESSION_REMEMBER = False
ACCOUNT_EMAIL_SUBJECT_PREFIX = "[dpweb] "
ACCOUNT_FORMS = {
    "add_email": "releases.forms.accounts.AddEmailForm",
    "change_password": "releases.forms.accounts.ChangePasswordForm",
    "reauthenticate": "releases.forms.accounts.ReauthenticateForm",
    "reset_password": "releases.forms.accounts.ResetPasswordForm",
    "reset_password_from_key": "releases.forms.accounts.ResetPasswordKeyForm",
    "set_password": "releases.forms.accounts.SetPasswordForm",
}
#: Wrong passwords are limited with the address that they come from (`releases/accounts/adapters.py`); what goes right
#: is not guessing, and a whole building may have one address.
ACCOUNT_RATE_LIMITS = {"login": "300/m/ip"}
#: Attempts are counted by address. Behind a proxy every visitor would have the proxy's, and be locked out together, so
#: there the one that it reports counts.
ALLAUTH_TRUSTED_PROXY_COUNT = TRUSTED_PROXIES
MFA_ADAPTER = "releases.accounts.adapters.SecondFactorAdapter"
MFA_FORMS = {
    "authenticate": "releases.forms.accounts.AuthenticateForm",
    "reauthenticate": "releases.forms.accounts.ReauthenticateByCodeForm",
    "activate_totp": "releases.forms.accounts.ActivateTOTPForm",
    "add_webauthn": "releases.forms.accounts.AddPasskeyForm",
    "edit_webauthn": "releases.forms.accounts.EditPasskeyForm",
}
#: An unconfirmed address stands in the way of a second factor where strangers sign up with addresses of others. Here
#: accounts, with their addresses, are made by staff, and whoever has the password has just given it again.
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not HTTPS
#: Roles whose holders can do nothing here until they have a second factor; empty for none.
REQUIRE_SECOND_FACTOR = env.list("REQUIRE_SECOND_FACTOR", default=["reviewer", "administrator"])
#: Roles that an account begins with; administrators give others.
NEW_ACCOUNT_ROLES = env.list("NEW_ACCOUNT_ROLES", default=["analyst"])
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "home"
ACCOUNT_LOGOUT_REDIRECT_URL = "account_login"
EMAIL_CONFIG = env.email_url("EMAIL_URL", default="consolemail://")
vars().update(EMAIL_CONFIG)
#: A mail server that does not answer must not hold up a page.
EMAIL_TIMEOUT = env.int("EMAIL_TIMEOUT", default=10)
DEFAULT_FROM_EMAIL = env.str("DEFAULT_FROM_EMAIL", default="dpweb@localhost")
#: What links in e-mails begin with, such as https://statistics.example.org; without it they name the path alone.
SITE_ADDRESS = env.str("SITE_ADDRESS", default="").rstrip("/")

# --- transport ------------------------------------------------------------------------------------------------------
SECURE_SSL_REDIRECT = HTTPS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = HTTPS
SECURE_HSTS_PRELOAD = HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_AGE = 12 * 3600
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

# --- files ----------------------------------------------------------------------------------------------------------
STATIC_URL = "static/"
#: Where `collectstatic` leaves static files, compressed. Run it again after every update.
STATIC_ROOT = Path(env.str("STATIC_ROOT", default=str(DATA_DIR / "static")))
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    # The only files that others may read, such as a server in front.
    "staticfiles": {
        "BACKEND": "releases.middleware.compression.CollectedStaticFilesStorage",
        "OPTIONS": {"directory_permissions_mode": 0o755, "file_permissions_mode": 0o644},
    },
}
WHITENOISE_USE_FINDERS = True
#: Shown as pages of the site.
DOCUMENTATION_DIR = BASE_DIR / "docs"
STATICFILES_DIRS = [("documentation", DOCUMENTATION_DIR / "pictures")]
#: Tables and release files. Never under a URL: every download goes through a view that asks who may.
TABLES_DIR = DATA_DIR / "tables"
RELEASES_DIR = DATA_DIR / "releases"
#: What is remembered of the ledger and of releases outside the database. Keep it on another disc than the database and
#: out of its backups, so that restoring an old database is noticed. Beside DATA_DIR by default, for a backup takes that
#: as a whole; where an older version has begun it inside and nothing stands beside, it is read there.
_BESIDE, _INSIDE = DATA_DIR.resolve().with_name(f"{DATA_DIR.resolve().name}-marks"), DATA_DIR / "marks"
MARKS_DIR = Path(env.str("MARKS_DIR", default=str(_INSIDE if _INSIDE.is_dir() and not _BESIDE.is_dir() else _BESIDE)))
#: Memory that one connection to a table may take; what is more goes to the process's own folder in `DATA_DIR/tmp`. Half
#: of the machine's, where nothing else is said.
DUCKDB_MEMORY_LIMIT = env.str(
    "DUCKDB_MEMORY_LIMIT", default=f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') // 2**21}MiB"
)
#: Memory of each process that reads a table, its own and its connection's. Three quarters of the machine's, where
#: nothing else is said.
READER_MEMORY_BYTES = (
    env.int("READER_MEMORY_MB", default=3 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**22) * 2**20
)
#: Databases whose tables may become datasets, by their names: of each CONNECTION_NAME, a URL without a password.
#: Administrators register others on the site. CONNECTION_NAME_PASSWORD is read when it is needed, from the environment
#: or the file that CONNECTION_NAME_PASSWORD_FILE names, or as a file of this folder (docs/how-to/databases.md).
CONNECTIONS = {name: env.str(f"CONNECTION_{name.upper()}") for name in env.list("CONNECTIONS", default=[])}
SECRETS_DIR = env.str("SECRETS_DIR", default="")
#: Those of them whose servers cannot be asked whether who signs in can only read, where whoever runs this site has seen
#: to it.
CONNECTIONS_READ_ONLY = env.list("CONNECTIONS_READ_ONLY", default=[])
#: Below these, administrators may register folders of Parquet files on the site.
CONNECTABLE_FOLDERS = env.list("CONNECTABLE_FOLDERS", default=[])
#: Hosts of storage and of Spark servers that are reached without encryption, beside this machine.
CONNECTABLE_HTTP_HOSTS = env.list("CONNECTABLE_HTTP_HOSTS", default=[])
UPLOAD_CAP_BYTES = env.int("UPLOAD_CAP_MB", default=1024) * 2**20
#: What a table may come to once it is read: a Parquet file of some kilobytes can hold billions of the same value.
MAX_UPLOAD_ROWS = env.int("MAX_UPLOAD_ROWS", default=200_000_000)
MAX_UPLOAD_UNFOLDED_BYTES = env.int("MAX_UPLOAD_UNFOLDED_BYTES", default=64 * 2**30)
#: What one person's tables may come to, together with those on their way in.
MAX_UPLOADS_PER_PERSON = env.int("MAX_UPLOADS_PER_PERSON", default=100)
MAX_UPLOAD_BYTES_PER_PERSON = env.int("MAX_UPLOAD_MB_PER_PERSON", default=20 * 1024) * 2**20
FILE_UPLOAD_HANDLERS = [
    "releases.middleware.upload_limit.CappedUploadHandler",
    "releases.middleware.upload_limit.IncomingFileUploadHandler",
]
#: Of every body but a table's: a plan, a form, a pasted codebook.
DATA_UPLOAD_MAX_MEMORY_SIZE = 10**6
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000

# --- budgets --------------------------------------------------------------------------------------------------------
#: What the command line gives a table it has not seen, when nobody says --budget.
DEFAULT_BUDGET_EPSILON = env.str("DEFAULT_BUDGET_EPSILON", default="10")
DEFAULT_BUDGET_DELTA = env.str("DEFAULT_BUDGET_DELTA", default="0.000001")
#: Until the organisation's page says otherwise: the epsilon above which a release needs a review (empty for none),
#: whether two reviewers must agree, and who hears when much of a budget is spent.
REVIEW_ABOVE_EPSILON = env.str("REVIEW_ABOVE_EPSILON", default="")
TWO_PERSON_RULE = env.bool("TWO_PERSON_RULE", default=False)
#: Nobody approves what they asked for. To be switched off where one person does everything.
SEPARATION_OF_DUTIES = env.bool("SEPARATION_OF_DUTIES", default=True)
#: Budgets that one person may ask for in 30 days: each decision tells them a little of what reviewers know.
BUDGET_REQUESTS_PER_PERSON = env.int("BUDGET_REQUESTS_PER_PERSON", default=20)
ALERT_ADDRESSES = env.list("ALERT_ADDRESSES", default=[])

# --- planning -------------------------------------------------------------------------------------------------------
#: What one person may have worked out at once, over all processes of the site, and how many requests may wait for it,
#: and for how long. More are told to come again.
PLANNING_SLOTS = env.int("PLANNING_SLOTS", default=2)
PLANNING_PLACES = env.int("PLANNING_PLACES", default=2)
PLANNING_WAIT_SECONDS = env.int("PLANNING_WAIT_SECONDS", default=10)
PLANNING_RETRY_SECONDS = 5

# --- worker ---------------------------------------------------------------------------------------------------------
#: The longest a release may run. The broker's and the lease's times below follow from it.
RELEASE_TIME_LIMIT = env.int("RELEASE_TIME_LIMIT", default=4 * 3600)
#: The longest a file that was sent may take to be read, and a stored table to be made recognisable.
READ_TIME_LIMIT = env.int("READ_TIME_LIMIT", default=1800)
#: The longest a page may wait for a table: the start of a file that is sent, the answer to a question of a session.
ANSWER_TIME_LIMIT = env.int("ANSWER_TIME_LIMIT", default=60)
#: A worker that has not said for this long that it is alive has lost its release to the next.
LEASE_SECONDS = env.int("LEASE_SECONDS", default=60)
HEARTBEAT_SECONDS = LEASE_SECONDS / 6
RECONCILE_SECONDS = LEASE_SECONDS / 4
#: Work that fails is tried so often, so that a file or a disc that is away has the time to come back: after 15 s,
#: 1 min, 4 min and twice 15 min, each up to a quarter longer.
MAX_ATTEMPTS = env.int("MAX_ATTEMPTS", default=6)
RETRY_SECONDS = env.int("RETRY_SECONDS", default=15)
MAX_RETRY_SECONDS = env.int("MAX_RETRY_SECONDS", default=900)

CELERY_BROKER_URL = env.str("CELERY_BROKER_URL", default=f"sqla+sqlite:///{DATA_DIR / 'broker.sqlite3'}")
CELERY_TASK_DEFAULT_QUEUE = env.str("CELERY_TASK_DEFAULT_QUEUE", default="releases")
#: Tables wait for a worker of their own, so that a large one holds up no release. A worker that is told no queue takes
#: from both.
UPLOADS_QUEUE = "uploads" if CELERY_TASK_DEFAULT_QUEUE == "releases" else f"{CELERY_TASK_DEFAULT_QUEUE}-uploads"
CELERY_TASK_QUEUES = {
    name: {"exchange": name, "exchange_type": "direct", "routing_key": name}
    for name in (CELERY_TASK_DEFAULT_QUEUE, UPLOADS_QUEUE)
}
#: What somebody's upload gives to do is done there; only what was charged waits in the queue of releases.
CELERY_TASK_ROUTES = {
    "releases.read_upload": {"queue": UPLOADS_QUEUE},
    "releases.take_fingerprint": {"queue": UPLOADS_QUEUE},
    "releases.take_fingerprints": {"queue": UPLOADS_QUEUE},
    "releases.test_disclosure": {"queue": UPLOADS_QUEUE},
    "releases.report_attack": {"queue": UPLOADS_QUEUE},
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = False
CELERY_TASK_TIME_LIMIT = RELEASE_TIME_LIMIT
CELERY_TASK_SOFT_TIME_LIMIT = int(0.95 * RELEASE_TIME_LIMIT)
CELERY_BROKER_TRANSPORT_OPTIONS = (
    {
        "visibility_timeout": int(1.1 * RELEASE_TIME_LIMIT),
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
    }
    if CELERY_BROKER_URL.startswith("redis")
    else {}
)

# --- watching -------------------------------------------------------------------------------------------------------
#: Whoever shows it as `Authorization: Bearer ...` may read /metrics; without one there is no such page.
METRICS_TOKEN = env.str("METRICS_TOKEN", default="").strip()

# --- words ----------------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en-gb"
TIME_ZONE = env.str("TIME_ZONE", default="UTC")
USE_TZ = True
USE_I18N = False
USE_THOUSAND_SEPARATOR = True

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "{asctime} {levelname} {name} {message}", "style": "{"}},
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "plain"}},
    "root": {"handlers": ["console"], "level": env.str("LOG_LEVEL", default="INFO")},
    "loggers": {
        # Statement logs would carry exact counts.
        "django.db.backends": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},
    },
}
