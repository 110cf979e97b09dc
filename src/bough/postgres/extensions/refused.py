"""Extensions that a tenant cannot create, with the reason, which CREATE EXTENSION shows."""

from bough.postgres.extensions.extension import Extension

_REACHES_ADDRESSES = "It opens connections to addresses that the caller chooses, from inside of the network."
_UNTRUSTED_LANGUAGE = "Its functions run code outside of the database."
_FILES = "It reads or writes files of the server."
_NEEDS_SUPERUSER = "Its functions are for superusers."
_RUNS_AS_SUPERUSER = "Its functions or background workers run statements of the caller as a superuser."


def _refuse(name: str, summary: str, package: str, reason: str, majors: tuple[int, ...] = (15, 17, 18)) -> Extension:
    return Extension(
        name=name,
        summary=summary,
        package=f"postgresql-{{major}}-{package}",
        is_allowed=False,
        review=reason,
        majors=frozenset(majors),
        links={f"{name}.control": f"{name}-3.control"} if package == "postgis-3" else {},
    )


REFUSED = (
    _refuse("http", "an HTTP client", "http", _REACHES_ADDRESSES, (17, 18)),
    _refuse("mongo_fdw", "tables in MongoDB", "mongo-fdw", _REACHES_ADDRESSES, (18,)),
    _refuse("mysql_fdw", "tables in MySQL", "mysql-fdw", _REACHES_ADDRESSES),
    _refuse("ogr_fdw", "tables in files and services that GDAL reads", "ogr-fdw", _REACHES_ADDRESSES),
    _refuse("pglogical", "logical replication", "pglogical", _REACHES_ADDRESSES),
    _refuse("pgmemcache", "a client of memcached", "pgmemcache", _REACHES_ADDRESSES),
    _refuse("plproxy", "functions that run on other servers", "plproxy", _REACHES_ADDRESSES),
    _refuse("tds_fdw", "tables in SQL Server", "tds-fdw", _REACHES_ADDRESSES),
    _refuse("plr", "functions in R", "plr", _UNTRUSTED_LANGUAGE),
    _refuse("plsh", "functions in the shell", "plsh", _UNTRUSTED_LANGUAGE),
    _refuse("pllua", "functions in Lua", "pllua", _UNTRUSTED_LANGUAGE),
    _refuse("pljs", "functions in JavaScript", "pljs", _UNTRUSTED_LANGUAGE, (18,)),
    _refuse("plpython3u", "functions in Python", "plpython3", _UNTRUSTED_LANGUAGE),
    _refuse("plperl", "functions in Perl", "plperl", _UNTRUSTED_LANGUAGE),
    _refuse("orafce", "functions of Oracle", "orafce", f"{_FILES} Its package utl_file does."),
    _refuse("pgnodemx", "measurements of the machine", "pgnodemx", _FILES, (17, 18)),
    _refuse("pgauditlogtofile", "the audit log in a file", "pgauditlogtofile", _FILES),
    _refuse("unit", "numbers with units", "unit", "Its script loads data from a fixed path of the machine."),
    _refuse("q3c", "indexes on a sphere", "q3c", "Its library opens files. pg_sphere does the same without."),
    _refuse("pg_dirtyread", "reads deleted rows", "dirtyread", _NEEDS_SUPERUSER),
    _refuse(
        "pg_repack",
        "removes bloat from tables while they are used",
        "repack",
        "Triggers on its log table, which belongs to the tenant, run as a superuser, and repack_swap does not compare "
        "the columns of the tables. Use REINDEX CONCURRENTLY, VACUUM FULL or CLUSTER.",
    ),
    _refuse("pg_squeeze", "removes bloat from tables in the background", "squeeze", _RUNS_AS_SUPERUSER, (17, 18)),
    _refuse("pg_background", "runs statements in the background", "pg-background", _RUNS_AS_SUPERUSER, (18,)),
    _refuse("pg_rewrite", "rewrites tables in the background", "pg-rewrite", _RUNS_AS_SUPERUSER, (18,)),
    _refuse("powa", "a workload analyzer", "powa", _RUNS_AS_SUPERUSER),
    _refuse("set_user", "a logged change of the role", "set-user", _RUNS_AS_SUPERUSER),
    _refuse("pldbgapi", "a debugger of functions", "pldebugger", _NEEDS_SUPERUSER),
    _refuse(
        "periods",
        "periods and system versioning of SQL:2016",
        "periods",
        "Its SECURITY DEFINER functions belong to a superuser and have no fixed search_path.",
        (15, 17),
    ),
    _refuse(
        "postgis_topology",
        "topologies (PostGIS)",
        "postgis-3",
        "Its script builds a statement from the search_path, which a tenant sets, and runs it as a superuser.",
    ),
    _refuse("postgis_raster", "rasters (PostGIS)", "postgis-3", f"{_FILES} GDAL opens files and addresses."),
    _refuse("postgis_sfcgal", "3D functions (PostGIS)", "postgis-3", "Its library SFCGAL is not in the build."),
    _refuse("h3_postgis", "H3 with PostGIS", "h3", "It needs postgis_raster, which is not offered.", (17, 18)),
    _refuse("pg_ivm", "materialized views that follow their tables", "pg-ivm", "It is not reviewed.", (18,)),
    _refuse("mobilitydb", "moving objects", "mobilitydb", "It is not reviewed.", (17, 18)),
    _refuse("documentdb", "documents as in MongoDB", "documentdb", _RUNS_AS_SUPERUSER, (18,)),
)
