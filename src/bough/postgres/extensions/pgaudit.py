"""pgAudit: an audit log of statements."""

from bough.postgres.extensions.extension import Extension

LIBRARY = "pgaudit"
PARAMETER_PREFIX = "pgaudit."
# Only servers of projects with audit_log_level have this setting: there, no tenant may lower what is audited.
GUARD = "pg_catalog.current_setting('log_error_verbosity') operator(pg_catalog.<>) 'verbose'"

# The script of version 1.7 quotes the two schemas of the path as one name.
_PATHS = """
alter function pgaudit_ddl_command_end() set search_path = pg_catalog, pg_temp;
alter function pgaudit_sql_drop() set search_path = pg_catalog, pg_temp;
"""
# Its parameters are for superusers. The owner of the extension may set them, also with ALTER DATABASE and ALTER ROLE.
_GRANTS = f"""
do $guard$
begin
    if {GUARD} then
        grant set on parameter pgaudit.log, pgaudit.log_catalog, pgaudit.log_client, pgaudit.log_level,
            pgaudit.log_parameter, pgaudit.log_relation, pgaudit.log_rows, pgaudit.log_statement,
            pgaudit.log_statement_once, pgaudit.role
            to @extowner@;
    end if;
end $guard$;
"""
_CREATING_SCRIPTS = ("pgaudit--?.?.sql", "pgaudit--??.?.sql")  # not those of updates


PGAUDIT = Extension(
    name="pgaudit",
    summary="writes statements to the audit log",
    package="postgresql-{major}-pgaudit",
    is_in_default_build=True,
    preload_library=LIBRARY,
    script_additions={"pgaudit--*.sql": _PATHS, **dict.fromkeys(_CREATING_SCRIPTS, _GRANTS)},
    review=(
        "Two event trigger functions in C, SECURITY DEFINER with a fixed search_path, query only functions of "
        "pg_catalog. Audit lines go to the log of the compute."
    ),
)
