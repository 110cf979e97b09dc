"""The extensions that come with Postgres itself, which a tenant may create or which are removed."""

from bough.postgres.extensions.script_checks import build_preload_warning

# Their scripts run as the platform's superuser and create only objects that are safe for tenants to use.
TRUSTED = frozenset(
    [
        "autoinc",
        "bloom",
        "btree_gin",
        "btree_gist",
        "citext",
        "cube",
        "dblink",
        "dict_int",
        "dict_xsyn",
        "earthdistance",
        "fuzzystrmatch",
        "hstore",
        "insert_username",
        "intagg",
        "intarray",
        "isn",
        "lo",
        "ltree",
        "moddatetime",
        "pg_buffercache",
        "pg_freespacemap",
        "pg_prewarm",
        "pg_stat_statements",
        "pg_trgm",
        "pg_visibility",
        "pgcrypto",
        "pgrowlocks",
        "pgstattuple",
        "plpgsql",
        "postgres_fdw",
        "refint",
        "seg",
        "sslinfo",
        "tablefunc",
        "tcn",
        "tsm_system_rows",
        "tsm_system_time",
        "unaccent",
        "uuid-ossp",
        "xml2",
    ]
)

# Tools create pg_stat_statements everywhere, so it does not fail where it has no effect.
#
# Superusers do not need the grant that the script of postgres_fdw lacks. The creator of the extension may use its
# wrapper. Postgres still requires a password for connections, which only superusers can waive.
SCRIPT_ADDITIONS = {
    "pg_stat_statements--1.4.sql": build_preload_warning("pg_stat_statements"),
    "postgres_fdw--1.0.sql": "grant usage on foreign data wrapper postgres_fdw to @extowner@ with grant option;\n",
}

# These read or write files of the server, or run code outside the database.
REMOVED = frozenset(
    [
        "adminpack",
        "file_fdw",
        "pageinspect",
        "pg_surgery",
        "pg_walinspect",
        "plperl",
        "plperlu",
        "pltcl",
        "pltclu",
        "plpython3u",
        "bool_plperl",
        "bool_plperlu",
        "hstore_plperl",
        "hstore_plperlu",
        "hstore_plpython3u",
        "jsonb_plperl",
        "jsonb_plperlu",
        "jsonb_plpython3u",
        "ltree_plpython3u",
    ]
)

# Only superusers can create these, such as the operator's `pg_amcheck`.
SUPERUSER_ONLY = frozenset(["amcheck"])
