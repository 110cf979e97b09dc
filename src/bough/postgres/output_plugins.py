"""Which libraries may decode WAL for a tenant, and how Postgres is told so. Pure.

Until the releases of August 2026 (17.11, 16.15 and their like) whoever had REPLICATION could name any library as an
output plugin, and its code ran in the server (CVE-2026-6471). Later ones have `output_plugin_libraries`, whose default
is the list below. In the others the two functions that take a plugin get another name, which nobody may execute, and
functions of their old names and arguments look at the plugin first.
"""

from bough.postgres import ADMIN_ROLE, RESERVED_PREFIX, TENANTS_ROLE
from bough.postgres.quoting import identifier

ALLOWED = ("pgoutput", "test_decoding")

# Written when it is so in every database of the server. Nobody but a superuser can comment on one.
ROLE_COMMENT = f"logical replication is on, with the output plugins {', '.join(ALLOWED)}"
_MARK_NOW = f"pg_catalog.shobj_description('{ADMIN_ROLE}'::pg_catalog.regrole, 'pg_authid')"

SELECT_STATE = f"""
    select {_MARK_NOW} as mark,
           exists (select from pg_catalog.pg_settings where name = 'output_plugin_libraries') as is_checked_by_postgres
"""
IS_LOGICAL_REPLICATION_ON = f"select {_MARK_NOW} is not null"
SET_ROLE_COMMENT = f"comment on role {ADMIN_ROLE} is '{ROLE_COMMENT}'"

# Whoever creates a database now has finished when this returns, so that no copy of an old one is missed.
WAIT_FOR_NEW_DATABASES = "begin; lock table pg_catalog.pg_database in share mode; commit"
# Those that nothing but a DROP can reach any more are left out.
SELECT_DATABASES = """
    select pg_catalog.namesend(datname) as name, oid, datallowconn as is_open from pg_catalog.pg_database
     where datconnlimit <> -2 order by oid
"""
CLOSED_DATABASE = "template0"  # nobody shall enter it, whatever a crash left

# A row when some role of tenants has the attribute.
SELECT_REPLICATION_ROLE = f"""
    (select 'replicates', pg_catalog.namesend(rolname), null::text from pg_catalog.pg_authid
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
# Roles of the API have it where logical replication is on.
# What the API made is in the group by the word of the first superuser, whose id is always 10.
GRANT_REPLICATION = _EACH.format(
    attribute="replication",
    which=f"""select member.rolname from pg_catalog.pg_auth_members as given
      join pg_catalog.pg_authid as member on member.oid = given.member
      join pg_catalog.pg_authid as tenants on tenants.oid = given.roleid
     where tenants.rolname = '{TENANTS_ROLE}' and given.grantor = 10 and member.rolcanlogin
       and not member.rolreplication""",
)

# Run in each database. It has to be one that a restore elsewhere does not stumble over: what `pg_dump` finds in
# `pg_init_privs` it takes for Postgres's own, and functions in `pg_catalog` are never dumped.
# The functions run as the superuser, because nobody else may execute what they call; so they look at the attribute
# themselves. Whoever has become another role by SET ROLE is that role.
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
        if plugin not in ({", ".join(f"'{name}'" for name in ALLOWED)}) then
            raise insufficient_privilege using message = pg_catalog.format('output plugin "%s" is not allowed', plugin),
                hint = 'Use one of these: {", ".join(ALLOWED)}.';
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
