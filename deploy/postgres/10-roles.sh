#!/bin/sh
# PostgreSQL's image runs this once, when its volume is new: the role that owns the tables and the site's own (see
# docs/operations/postgres-roles.md). The passwords are those of the two database URLs.
set -eu

secrets="${DPWEB_SECRETS:-/run/secrets}"
psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" \
    --set owner="${DPWEB_OWNER:-dpweb_owner}" --set owner_password="$(cat "$secrets/postgres_owner_password")" \
    --set site="${DPWEB_SITE_ROLE:-dpweb_site}" --set site_password="$(cat "$secrets/postgres_site_password")" <<'SQL'
CREATE ROLE :"owner" LOGIN PASSWORD :'owner_password' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
CREATE ROLE :"site" LOGIN PASSWORD :'site_password' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
ALTER DATABASE :"DBNAME" OWNER TO :"owner";
REVOKE ALL ON DATABASE :"DBNAME" FROM PUBLIC;
GRANT CONNECT ON DATABASE :"DBNAME" TO :"site";
SQL
