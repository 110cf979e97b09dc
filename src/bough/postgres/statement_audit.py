"""What a server must do to audit statements: by pgAudit, or by `log_statement` where the build lacks pgAudit.

The server writes its log as JSON, too. In that file a message is one line whatever it contains, and names the C
function that wrote it. Text that libraries print to standard error, such as notices of other servers, is not in it.
"""

from collections.abc import Mapping

from bough.domain.audit_level import AuditLevel
from bough.postgres.extensions.pgaudit import GUARD, LIBRARY, PARAMETER_PREFIX

TEXT_FILE = "server.log"
JSON_FILE = "server.json"

_PGAUDIT_CLASSES = {AuditLevel.BASE: "ddl, role", AuditLevel.EXTENDED: "all, -misc", AuditLevel.FULL: "all"}
_STATEMENTS = {AuditLevel.BASE: "ddl", AuditLevel.EXTENDED: "all", AuditLevel.FULL: "all"}

# Tenants may have the right to set parameters of pgAudit, from an extension that they created before, and settings of
# roles and databases that were valid then. Returns nothing, but ends sessions that may still use them.
LOCK_PGAUDIT = f"""
do $lock$
declare
    each record;
    changes pg_catalog.int4 := 0;
begin
    for each in
        select parname, pg_catalog.pg_get_userbyid(grantee) as role, grantee = 0 as is_public
          from pg_catalog.pg_parameter_acl, pg_catalog.aclexplode(paracl)
         where pg_catalog.starts_with(parname, '{PARAMETER_PREFIX}') and grantee <> 10
    loop
        changes := changes + 1;
        execute pg_catalog.format(
            'revoke all on parameter %s from %s cascade', each.parname,
            case when each.is_public then 'public' else pg_catalog.quote_ident(each.role) end);
    end loop;
    for each in
        select rolname, datname, pg_catalog.split_part(entry, '=', 1) as parameter
          from pg_catalog.pg_db_role_setting
               cross join pg_catalog.unnest(setconfig) as entry
               left join pg_catalog.pg_authid on pg_authid.oid = setrole
               left join pg_catalog.pg_database on pg_database.oid = setdatabase
         where entry operator(pg_catalog.~) '^{PARAMETER_PREFIX.replace(".", "[.]")}[a-z_]+='
    loop
        changes := changes + 1;
        execute pg_catalog.format(
            'alter %s reset %s',
            case when each.rolname is null and each.datname is not null
                 then 'database ' || pg_catalog.quote_ident(each.datname)
                 else 'role ' || coalesce(pg_catalog.quote_ident(each.rolname), 'all')
                      || coalesce(' in database ' || pg_catalog.quote_ident(each.datname), '') end,
            each.parameter);
    end loop;
    if changes > 0 then
        perform pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity
          where pid <> pg_catalog.pg_backend_pid() and datid is not null
            and backend_type not in ('autovacuum worker', 'walsender');
    end if;
end $lock$
"""


def is_guarded(scripts: Mapping[str, str]) -> bool:
    """Return whether the scripts of the extension grant no right to set its parameters while statements are audited."""
    return all("on parameter" not in text.lower() or GUARD in text for text in scripts.values())


def build_settings(settings: Mapping[str, str], level: AuditLevel, folder: str, *, has_pgaudit: bool) -> dict[str, str]:
    """Return the settings of a server with those of the level, which replace the tenant's."""
    others = {name: value for name, value in settings.items() if not name.startswith(PARAMETER_PREFIX)}
    statements = _build_pgaudit(level) if has_pgaudit else _build_log_statement(level)
    connections = {"log_connections": "on", "log_disconnections": "on"} if level is AuditLevel.FULL else {}
    return {**others, **_build_log_files(folder), **statements, **connections}


def _build_log_files(folder: str) -> dict[str, str]:
    """Write the log as JSON beside the ordinary one. The platform limits both files, so the server rotates none."""
    return {
        "logging_collector": "on",
        "log_destination": "stderr,jsonlog",
        "log_directory": folder,
        "log_filename": TEXT_FILE,
        "log_rotation_age": "0",
        "log_rotation_size": "0",
        "log_error_verbosity": "verbose",  # with the name of the C function; also marks an audited server, see GUARD
    }


def _build_pgaudit(level: AuditLevel) -> dict[str, str]:
    parameters = {
        "log": _PGAUDIT_CLASSES[level],
        "log_catalog": "on",
        "log_client": "off",
        "log_level": "log",
        "log_parameter": "on" if level is AuditLevel.FULL else "off",
        "log_relation": "off",
        "log_rows": "off",
        "log_statement": "on",
        "log_statement_once": "off",
        "role": "",
    }
    return {"log_statement": "none", **{f"{PARAMETER_PREFIX}{name}": value for name, value in parameters.items()}}


def _build_log_statement(level: AuditLevel) -> dict[str, str]:
    length = "-1" if level is AuditLevel.FULL else "0"
    return {
        "log_statement": _STATEMENTS[level],
        "log_parameter_max_length": length,
        "log_parameter_max_length_on_error": "0",
    }


__all__ = ["JSON_FILE", "LIBRARY", "LOCK_PGAUDIT", "TEXT_FILE", "build_settings", "is_guarded"]
