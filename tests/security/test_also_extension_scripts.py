"""The scripts and libraries of extensions that a tenant may create contain nothing that nobody reviewed.

Scripts run as a superuser. A new version with another finding fails here: read it, then add it to the list below or
refuse the extension in the catalog.
"""

import pytest

from bough.config import default_cache
from bough.engine.local.debian.mirrors import Mirrors
from bough.engine.local.installs import debian_build, download
from bough.engine.local.installs.installs import Install
from bough.postgres.extensions import catalog
from support.extension_review import Finding, review
from support.install_cache import temporary_cache

REVIEWED: frozenset[Finding] = frozenset(
    [
        # Statements on the entries of their own types, operators and functions, after the check of the schema.
        ("debversion", "catalog", "pg_operator"),
        ("ip4r", "catalog", "pg_cast"),
        ("ip4r", "catalog", "pg_proc"),
        ("pg_sphere", "catalog", "pg_operator"),
        ("pgrouting", "catalog", "pg_proc"),
        ("postgis", "catalog", "pg_amproc"),
        ("postgis", "catalog", "pg_depend"),
        ("postgis", "catalog", "pg_operator"),
        ("postgis", "catalog", "pg_proc"),
        # Concerns every type with that name, but only in an update from a version that no build offers.
        ("h3", "catalog", "pg_type"),
        # Its launcher connects as the superuser, whose search_path is fixed, and writes as the owner of the extension.
        *(("pg_cron", "imports", name) for name in ("BackgroundWorkerInitializeConnection", "SetUserIdAndSecContext")),
        *(("pg_cron", "imports", name) for name in ("RegisterBackgroundWorker", "RegisterDynamicBackgroundWorker")),
        ("pg_cron", "imports", "PQconnectStartParams"),  # not with cron.use_background_workers
        ("pg_cron", "public may write", "cron.job_run_details"),  # only deletion, of rows of the role
        # An addition to the script gives both functions a fixed search_path, also where 1.7 quotes it as one name.
        ("pgaudit", "security definer", "pgaudit_ddl_command_end"),
        ("pgaudit", "security definer", "pgaudit_sql_drop"),
        ("pgaudit", "event trigger", "pgaudit_ddl_command_end"),
        ("pgaudit", "event trigger", "pgaudit_sql_drop"),
        ("plpgsql_check", "imports", "load_external_function"),  # a constant name: plpgsql
        # Its own library, and a function in C that reads statistics.
        ("postgis", "load", "$libdir/postgis-3"),
        ("postgis", "security definer", "st_estimatedextent"),
        # Its own file of counters.
        *(("pg_stat_kcache", "imports", name) for name in ("AllocateFile", "rename", "unlink")),
        ("pg_wait_sampling", "imports", "RegisterBackgroundWorker"),  # without a database
        ("age", "imports", "fopen"),  # in functions that nobody may execute
        # Trusted by its authors: updates set their own search_path, jobs run as their owners, telemetry is off.
        *(("timescaledb", "catalog", name) for name in ("pg_attribute", "pg_class", "pg_constraint", "pg_init_privs")),
        ("timescaledb", "event trigger", "timescaledb_ddl_command_end"),
        ("timescaledb", "event trigger", "timescaledb_ddl_sql_drop"),
        *(
            ("timescaledb", "imports", name)
            for name in """
            AllocateFile BackgroundWorkerInitializeConnection RegisterBackgroundWorker RegisterDynamicBackgroundWorker
            SetUserIdAndSecContext connect getaddrinfo load_external_function socket
            """.split()
        ),
    ]
)


def find_unreviewed(install: Install) -> list[Finding]:
    extensions = install.root / "usr" / "share" / "postgresql" / str(install.major) / "extension"
    return sorted(set(review(extensions, install.libraries)) - REVIEWED)


def test_the_default_build_contains_only_what_was_reviewed() -> None:
    install = download.fetch_install(17, default_cache())
    assert find_unreviewed(install) == []


@pytest.mark.long
@pytest.mark.parametrize("major", [15, 17, 18])
def test_all_extensions_contain_only_what_was_reviewed(major: int) -> None:
    allowed = [each for each in catalog.EXTENSIONS if each.is_allowed and major in each.majors]
    with temporary_cache() as cache, Mirrors.open("") as mirrors:
        if mirrors is None:
            pytest.skip("no mirror of Debian is known")
        packages = sorted({each.package_for(major) for each in allowed})
        install = debian_build.build(debian_build.plan_newest(major, mirrors, packages), mirrors, cache)
        assert find_unreviewed(install) == []
