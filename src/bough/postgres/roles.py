"""Statements that create and change tenant roles. They are planned from the current state, so they are repeatable."""

from collections.abc import Mapping

from bough.postgres import ADMIN_ROLE, RESERVED_PREFIX, TENANTS_ROLE
from bough.postgres.quoting import identifier, literal
from bough.postgres.scram import MAX_VERIFIER_LENGTH

# A verifier that is longer than any usable one stays unusable when it is truncated.
_VERIFIER = f"pg_catalog.left(rolpassword, {MAX_VERIFIER_LENGTH})"

# Reads the roles with these names. The verifier of a role without password is null. Roles that cannot log in are
# included, because their names are in use.
SELECT_EXISTING = f"""
    select 'role', pg_catalog.namesend(rolname), {_VERIFIER} from pg_catalog.pg_authid where rolname::text = any($1)
"""

# All roles except those of the platform and of Postgres, with their total number: first those in $1, then the oldest,
# up to the limit. Names are bytes, because they may have the encoding of another database. Timestamps outside the range
# that Python can represent are clamped.
SELECT_ALL = f"""
    select 'role' as kind, pg_catalog.namesend(rolname) as name, rolcanlogin as can_login,
           {_VERIFIER} as verifier,
           case when rolvaliduntil < '1970-01-01 00:00:00+00'::pg_catalog.timestamptz
                then '1970-01-01 00:00:00+00'::pg_catalog.timestamptz
                when rolvaliduntil < '9999-01-01 00:00:00+00'::pg_catalog.timestamptz then rolvaliduntil end
           as valid_until,
           null::pg_catalog.bytea as owner, pg_catalog.count(*) over () as total
      from pg_catalog.pg_authid
     where not pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}')
       and not pg_catalog.starts_with(rolname::text, 'pg_')
     order by rolname::text = any($1) desc, oid limit $2
"""
EXISTS = "select exists (select from pg_catalog.pg_authid where rolname = $1)"
CAN_LOGIN = "select rolcanlogin from pg_catalog.pg_authid where rolname = $1"
SELECT_NAMES = "select pg_catalog.namesend(rolname) from pg_catalog.pg_authid where rolname::text = any($1)"
_ITSELF = "(select oid from pg_catalog.pg_authid where rolname = $1)"

# The databases in which the role owns objects or has privileges, and the owner of each.
SELECT_DATABASES_WITH_OBJECTS = f"""
    select distinct pg_catalog.namesend(datname) as name, pg_catalog.namesend(rolname) as owner,
           pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}') as is_ours,
           datallowconn and datconnlimit <> -2 as allows_connections
      from pg_catalog.pg_shdepend
      join pg_catalog.pg_database on pg_database.oid = dbid
      join pg_catalog.pg_authid on pg_authid.oid = datdba
     where refclassid = 'pg_catalog.pg_authid'::pg_catalog.regclass and refobjid = {_ITSELF}
"""
# Memberships that this role granted and the platform did not. Postgres revokes them when it drops the role.
SELECT_GRANTED_MEMBERSHIPS = f"""
    select pg_catalog.namesend(granted.rolname) as role, pg_catalog.namesend(member.rolname) as member,
           admin_option, inherit_option, set_option
      from pg_catalog.pg_auth_members as membership
      join pg_catalog.pg_authid as granted on granted.oid = membership.roleid
      join pg_catalog.pg_authid as member on member.oid = membership.member
     where membership.grantor = {_ITSELF} and membership.grantor not in (membership.roleid, membership.member)
       and not exists (
           select from pg_catalog.pg_auth_members as ours
            where ours.roleid = membership.roleid and ours.member = membership.member and ours.grantor = 10)
"""
HAS_SESSIONS = "select exists (select from pg_catalog.pg_stat_activity where usename = $1)"
TERMINATE_SESSIONS = "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where usename = $1"

# Runs in the server, because a name may have an encoding that the client cannot write.
CLEAR_PASSWORDS = f"""
do $$
declare each pg_catalog.name;
begin
    for each in
        select rolname from pg_catalog.pg_authid
         where rolpassword is not null and not pg_catalog.starts_with(rolname::text, '{RESERVED_PREFIX}')
    loop
        execute pg_catalog.format('alter role %I password null', each);
    end loop;
end $$
"""


# Background workers of extensions connect as the superuser. The owner of a database can set a search_path for all
# sessions in it, with operators that such a worker would then call.
SET_ADMIN_PATH = f"alter role {ADMIN_ROLE} set search_path = pg_catalog, pg_temp"
END_ADMIN_WORKERS = f"""
    select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity
     where usename = '{ADMIN_ROLE}' and datid is not null
       and backend_type not in ('autovacuum worker', 'client backend', 'parallel worker', 'walsender')
"""


def group_statements(major: int) -> list[str]:
    """Create the group that holds the privileges of tenants beyond their own objects."""
    granted = ["pg_monitor", "pg_read_all_data", "pg_write_all_data", "pg_signal_backend"]
    if major >= 16:
        granted.append("pg_create_subscription")
    if major >= 17:
        granted.append("pg_maintain")
    return [f"create role {TENANTS_ROLE} nologin", f"grant {', '.join(granted)} to {TENANTS_ROLE}"]


def attributes(major: int) -> str:
    """Attributes are not inherited, so each role has them itself.

    Before version 16, a role with CREATEROLE can grant itself any group, including access to server files and programs,
    so roles do not get it there. REPLICATION is set by logical replication: see `output_plugins`.
    """
    createrole = "createrole" if major >= 16 else "nocreaterole"
    return f"login createdb {createrole} bypassrls"


def create(name: str, verifier: str | None, major: int) -> list[str]:
    password = f" password {literal(verifier)}" if verifier else ""
    return [
        f"create role {identifier(name)} {attributes(major)}{password}",
        f"grant {TENANTS_ROLE} to {identifier(name)} with admin option",
    ]


def create_or_alter(name: str, verifier: str | None, *, can_login: bool, exists: bool, major: int) -> list[str]:
    """A role that cannot log in is a group, which tenants can grant to other roles and switch to."""
    if exists:
        return [f"{set_login(name, can_login=can_login)} password {_password(verifier)}"]
    if can_login:
        return create(name, verifier, major)
    # Tenants do not inherit its privileges; a role that needs them becomes a member. Version 16 added this option.
    terms = "admin true, inherit false, set true" if major >= 16 else "admin option"
    return [
        f"create role {identifier(name)} nologin password {_password(verifier)}",
        f"grant {identifier(name)} to {TENANTS_ROLE} with {terms}",
    ]


def set_password(name: str, verifier: str | None) -> str:
    return f"alter role {identifier(name)} password {_password(verifier)}"


def set_login(name: str, *, can_login: bool) -> str:
    return f"alter role {identifier(name)} {'login' if can_login else 'nologin'}"


def grant_membership(role: str, member: str, *, admin: bool, inherit: bool, set_role: bool) -> str:
    terms = f"admin {_bool(admin)}, inherit {_bool(inherit)}, set {_bool(set_role)}"
    return f"grant {identifier(role)} to {identifier(member)} with {terms}"


def reassign_and_drop_owned(name: str, new_owner: str | None) -> list[str]:
    """Build statements for one database that remove the role from everything. Without a new owner, drop its objects."""
    reassign = [] if new_owner is None else [f"reassign owned by {identifier(name)} to {identifier(new_owner)}"]
    return [*reassign, f"drop owned by {identifier(name)}"]


def drop(name: str) -> str:
    return f"drop role {identifier(name)}"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _password(verifier: str | None) -> str:
    return "null" if verifier is None else literal(verifier)


def plan_roles(
    target: Mapping[str, str], present: Mapping[str, str | None], *, spare: str | None, major: int
) -> list[str]:
    """Plan the statements that create and change roles to match `target` (name → verifier).

    `spare` is the template's own role in an unused volume. The first missing role reuses it. Templates of an earlier
    version gave it REPLICATION.
    """
    statements: list[str] = []
    if spare is not None and spare in present:
        statements.append(f"alter role {identifier(spare)} noreplication")
    if spare in target or spare not in present:
        spare = None
    for name, verifier in target.items():
        if name in present:
            if present[name] != verifier:
                statements.append(_store_verifier(name, verifier))
        elif spare is not None:
            statements.append(f"alter role {identifier(spare)} rename to {identifier(name)}")
            statements.append(_store_verifier(name, verifier))
            spare = None
        else:
            statements.extend(create(name, verifier, major))
    return statements


def _store_verifier(name: str, verifier: str) -> str:
    """ALTER ROLE would compute the verifier of an empty password, to refuse it, which takes as long as a login."""
    return f"update pg_catalog.pg_authid set rolpassword = {literal(verifier)} where rolname = {literal(name)}"
