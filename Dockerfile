FROM python:3.11-slim

# For `manage.py backup` and `restore`.
RUN apt-get update && apt-get install -y --no-install-recommends postgresql-client && rm -rf /var/lib/apt/lists/*
RUN useradd --create-home --uid 10001 dpweb
WORKDIR /srv/dpweb
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE manage.py ./
COPY deploy/gunicorn.conf.py deploy/
COPY dpweb dpweb
COPY releases releases
COPY templates templates
COPY docs docs
RUN pip install --no-cache-dir --no-deps --no-build-isolation -e . \
    && mkdir -p /var/lib/dpweb /var/lib/dpweb-marks && chown dpweb /var/lib/dpweb /var/lib/dpweb-marks
# Outside the volumes: these files belong to this version of the software.
ENV STATIC_ROOT=/srv/dpweb/static
RUN DATA_DIR=/tmp/build python manage.py collectstatic --noinput && rm -r /tmp/build
ENV DATA_DIR=/var/lib/dpweb MARKS_DIR=/var/lib/dpweb-marks PYTHONUNBUFFERED=1
USER dpweb
EXPOSE 8000
CMD ["gunicorn", "--config", "deploy/gunicorn.conf.py", "dpweb.wsgi"]
