"""Which contributed extensions a tenant may create, in installs that are our own copy."""

# Their scripts run as our superuser, and what they make is safe in a tenant's hands.
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

# What their scripts leave out, because superusers may use everything. Whoever creates the extension may use its
# wrapper; a password is asked for all the same, for only superusers can waive it.
SCRIPT_ADDITIONS = {
    "postgres_fdw--1.0.sql": "grant usage on foreign data wrapper postgres_fdw to @extowner@ with grant option;\n",
}

# They read or write the server's files, or run code outside the database.
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


def extend_script(name: str, text: str) -> str:
    """An extension's script with what is added to it, once."""
    added = SCRIPT_ADDITIONS.get(name, "")
    return text if text.endswith(added) else f"{text}\n{added}"


def mark_trusted(text: str) -> str:
    """An extension's control file with `trusted = true`, whatever it said before."""
    kept = [line for line in text.splitlines() if not line.replace(" ", "").startswith("trusted=")]
    return "\n".join([*kept, "trusted = true"]) + "\n"
