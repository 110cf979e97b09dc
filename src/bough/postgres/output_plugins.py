"""Which libraries may decode WAL for a tenant, and how Postgres enforces it.

Before the releases of August 2026 (17.11, 16.15 and so on), a role with REPLICATION could name any library as an
output plugin, and its code ran in the server (CVE-2026-6471). Later releases have `output_plugin_libraries`. In
earlier ones, the two functions that take a plugin are renamed and revoked from public, and functions with the old names
and arguments check the plugin first. This is done on later releases, too, because a branch may go back to an earlier
one, and its clients may connect before anything else.
"""

from bough.domain.output_plugins import OUTPUT_PLUGINS
from bough.postgres import ADMIN_ROLE, RESERVED_PREFIX, TENANTS_ROLE
from bough.postgres.quoting import identifier

# Set after the plugin check is installed in every database of the server. Only a superuser can set this comment.
ROLE_COMMENT = f"logical replication is on, with the output plugins {', '.join(OUTPUT_PLUGINS)}"
_MARK_NOW = f"pg_catalog.shobj_description('{ADMIN_ROLE}'::pg_catalog.regrole, 'pg_authid')"

SELECT_MARK = f"select {_MARK_NOW}"
IS_LOGICAL_REPLICATION_ON = f"select {_MARK_NOW} is not null"
SET_ROLE_COMMENT = f"comment on role {ADMIN_ROLE} is '{ROLE_COMMENT}'"

# Waits for a running CREATE DATABASE, which may be copying a database that has no plugin check yet.
WAIT_FOR_NEW_DATABASES = "begin; lock table pg_catalog.pg_database in share mode; commit"
# Omits databases that can only be dropped.
SELECT_DATABASES = """
    select pg_catalog.namesend(datname) as name, oid, datallowconn as allows_connections from pg_catalog.pg_database
     where datconnlimit <> -2 order by oid
"""
NO_CONNECTIONS_DATABASE = "template0"  # never allows connections, even after a crash

# Returns a row if a role of a tenant has REPLICATION.
SELECT_REPLICATION_ROLE = f"""
    (select 'replication_role', pg_catalog.namesend(rolname), null::text from pg_catalog.pg_authid
      where rolreplication and not rolsuper and not pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}')
      limit 1)
"""
_EACH = """
do $$
declare each pg_catalog.name;
begin
    for each in {which}
    loop
        execute pg_catalog.format('alter role %I {attribute}', each);
    end loop;
end $$
"""
REVOKE_REPLICATION = _EACH.format(
    attribute="noreplication",
    which=f"""select rolname from pg_catalog.pg_authid
     where rolreplication and not rolsuper and not pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}')""",
)
# Where logical replication is on, roles that were created with the API have REPLICATION. Their membership in the group
# was granted by the bootstrap superuser, whose oid is always 10.
GRANT_REPLICATION = _EACH.format(
    attribute="replication",
    which=f"""select member.rolname from pg_catalog.pg_auth_members as membership
      join pg_catalog.pg_authid as member on member.oid = membership.member
      join pg_catalog.pg_authid as tenants on tenants.oid = membership.roleid
     where tenants.rolname = '{TENANTS_ROLE}' and membership.grantor = 10 and member.rolcanlogin
       and not member.rolreplication""",
)

# Runs in each database. It must not break a restore elsewhere: `pg_dump` treats objects in `pg_init_privs` as part of
# Postgres, and it never dumps functions in `pg_catalog`.
# The functions run as the superuser, because no other role may execute the renamed functions. Therefore they check
# the REPLICATION attribute themselves, after SET ROLE that of the current role.
INSTALL_PLUGIN_CHECK = f"""
do $do$
declare
    each record;
begin
    set local allow_system_table_mods = on;
    create or replace function pg_catalog.{RESERVED_PREFIX}output_plugin(plugin pg_catalog.name)
    returns pg_catalog.name language plpgsql set search_path = pg_catalog, pg_temp as $function$
    begin
        if not exists (
            select from pg_catalog.pg_roles where (rolreplication or rolsuper)
               and rolname = coalesce(nullif(pg_catalog.current_setting('role'), 'none'), session_user)
        ) then
            raise insufficient_privilege using message = 'permission denied to use replication slots',
                detail = 'Only roles with the REPLICATION attribute may use replication slots.';
        end if;
        if plugin not in ({", ".join(f"'{name}'" for name in OUTPUT_PLUGINS)}) then
            raise insufficient_privilege using message = pg_catalog.format('output plugin "%s" is not allowed', plugin),
                hint = 'Use one of these: {", ".join(OUTPUT_PLUGINS)}.';
        end if;
        return plugin;
    end $function$;
    for each in
        select pg_proc.oid, proname as name, '{RESERVED_PREFIX}' || pg_catalog.substr(proname::text, 4) as kept_as,
               pg_catalog.pg_get_function_arguments(pg_proc.oid) as arguments,
               pg_catalog.pg_get_function_identity_arguments(pg_proc.oid) as identity,
               (select pg_catalog.string_agg(
                           case when number = plugin then 'pg_catalog.{RESERVED_PREFIX}output_plugin($' || number || ')'
                                else '$' || number end, ', ' order by number)
                  from pg_catalog.generate_series(1, pronargs) as number) as passed
          from pg_catalog.pg_proc
          join (values ('pg_create_logical_replication_slot', 'pg_create_logical_replication_slot', 2),
                       ('pg_copy_logical_replication_slot', 'pg_copy_logical_replication_slot_a', 4)
               ) as known (function, source, plugin) on proname = function and prosrc = source
         where pronamespace = 'pg_catalog'::pg_catalog.regnamespace
    loop
        execute pg_catalog.format(
            'alter function pg_catalog.%I(%s) rename to %I', each.name, each.identity, each.kept_as);
        execute pg_catalog.format(
            'revoke execute on function pg_catalog.%I(%s) from public', each.kept_as, each.identity);
        insert into pg_catalog.pg_init_privs (objoid, classoid, objsubid, privtype, initprivs)
            select oid, 'pg_catalog.pg_proc'::pg_catalog.regclass, 0, 'i', proacl
              from pg_catalog.pg_proc where oid = each.oid;
        execute pg_catalog.format(
            'create function pg_catalog.%I(%s) returns record language sql strict security definer '
            'set search_path = pg_catalog, pg_temp as %L', each.name, each.arguments,
            pg_catalog.format('select * from pg_catalog.%I(%s)', each.kept_as, each.passed));
    end loop;
end $do$
"""


def allow_connections(database: str) -> str:
    return f"alter database {identifier(database)} allow_connections true"


def disallow_connections(database: str) -> str:
    return f"alter database {identifier(database)} allow_connections false"
