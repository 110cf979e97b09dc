"""Statements that delete all rows of a database and keep its structure.

Tables of an extension keep their rows, which come with the extension or describe the structure of the database, unless
the catalog names them. Extensions that are not in the catalog lose those that `pg_dump` treats as rows of the tenant.

They run as the platform's superuser in a copy that no client has opened, so no code of a tenant may run with them:
triggers that would fire are disabled in the same transaction, and Postgres builds the empty indexes as the owners of
the tables. The owners cannot do it themselves, because tables that refer to one another must be truncated in one
command and may have different owners. All tables are named one by one, so that foreign tables, whose rows are on
another server, are never truncated.
"""

from collections.abc import Iterable

from bough.postgres.extensions import catalog
from bough.postgres.quoting import identifier, literal

# All databases that may contain rows of a tenant.
SELECT_DATABASES = """
    select pg_catalog.namesend(datname) from pg_catalog.pg_database
     where datallowconn and datconnlimit <> -2 and datname not in ('template0', 'template1')
"""
_NOT_OF_AN_EXTENSION = """
    not exists (select from pg_catalog.pg_depend
                 where classid = 'pg_catalog.pg_class'::pg_catalog.regclass and objid = c.oid and deptype = 'e')
"""
_KNOWN_EXTENSIONS = ", ".join(literal(each.name) for each in catalog.EXTENSIONS)
_TENANT_TABLES = ", ".join(
    f"({literal(each.name)}, {literal(table)})" for each in catalog.EXTENSIONS for table in each.tenant_tables
)
_WITH_ROWS_OF_TENANTS = f"""
    exists (select from pg_catalog.pg_depend d join pg_catalog.pg_extension e on e.oid = d.refobjid
             where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = c.oid and d.deptype = 'e'
               and d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass
               and ((e.extname, c.relname) in ({_TENANT_TABLES})
                    or e.extname not in ({_KNOWN_EXTENSIONS})
                       and exists (select from unnest(e.extconfig, e.extcondition) as marked (oid, condition)
                                    where marked.oid = c.oid and marked.condition = '')))
"""
_OF_TENANTS = f"""
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where n.nspname not in ('pg_catalog', 'information_schema') and n.nspname !~ '^pg_(toast|temp)'
       and ({_NOT_OF_AN_EXTENSION} or {_WITH_ROWS_OF_TENANTS})
"""
# Prepared transactions hold locks and uncommitted rows.
SELECT_PREPARED_TRANSACTIONS = (
    "select gid from pg_catalog.pg_prepared_xacts where database = pg_catalog.current_database()"
)
SELECT_TABLES = f"select n.nspname::text, c.relname::text {_OF_TENANTS} and c.relkind = 'r' order by c.oid"
# They have no rows of their own, but foreign keys to tables that do. Those with a foreign table among their partitions
# are omitted: Postgres supports neither foreign keys from them nor unique indexes over them.
SELECT_PARTITIONED_TABLES = f"""
    select n.nspname::text, c.relname::text {_OF_TENANTS} and c.relkind = 'p'
       and not exists (
           with recursive below (oid) as (
               select inhrelid from pg_catalog.pg_inherits where inhparent = c.oid
               union
               select inhrelid from pg_catalog.pg_inherits join below on inhparent = below.oid)
           select from below join pg_catalog.pg_class as partition on partition.oid = below.oid
            where partition.relkind not in ('r', 'p'))
     order by c.oid
"""
SELECT_MATERIALIZED_VIEWS = (
    f"select n.nspname::text, c.relname::text {_OF_TENANTS} and c.relkind = 'm' and c.relispopulated order by c.oid"
)
_NUMBERS_ROWS_OF_TENANTS = f"""
    exists (select from pg_catalog.pg_depend number join pg_catalog.pg_attrdef value on value.oid = number.objid
              join pg_catalog.pg_class c on c.oid = value.adrelid
             where number.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
               and number.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and number.refobjid = s.seqrelid
               and {_WITH_ROWS_OF_TENANTS})
"""
SELECT_SEQUENCES = f"""
    select n.nspname::text, c.relname::text, s.seqstart from pg_catalog.pg_sequence s
      join pg_catalog.pg_class c on c.oid = s.seqrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
     where {_NOT_OF_AN_EXTENSION} or {_NUMBERS_ROWS_OF_TENANTS} order by c.oid
"""
# Triggers that fire even with session_replication_role = replica.
SELECT_TRIGGERS = (
    "select oid, tgenabled::text from pg_catalog.pg_trigger where tgenabled in ('A', 'R') and tgtype & 32 <> 0"
)
UNLINK_LARGE_OBJECTS = "select pg_catalog.count(pg_catalog.lo_unlink(oid)) from pg_catalog.pg_largeobject_metadata"
# Statistics contain values of columns.
DELETE_STATISTICS = ("delete from pg_catalog.pg_statistic", "delete from pg_catalog.pg_statistic_ext_data")
REWRITTEN_CATALOGS = ("pg_statistic", "pg_statistic_ext_data", "pg_largeobject", "pg_largeobject_metadata")


def rollback_prepared(prepared: str) -> str:
    return f"rollback prepared {literal(prepared)}"


def truncate(
    tables: Iterable[tuple[str, str]], partitioned: Iterable[tuple[str, str]], triggers: Iterable[tuple[int, str]]
) -> list[str]:
    """Run in one transaction, in a session that has not used the tables and therefore not cached their triggers."""
    named = ", ".join(
        [*(f"only {_qualified_name(*table)}" for table in tables), *(_qualified_name(*table) for table in partitioned)]
    )
    kept = list(triggers)
    off = [f"update pg_catalog.pg_trigger set tgenabled = 'D' where oid = {oid}" for oid, _ in kept]
    on = [f"update pg_catalog.pg_trigger set tgenabled = {literal(state)} where oid = {oid}" for oid, state in kept]
    silent = "set local session_replication_role = replica"
    return [silent, *off, f"truncate table {named}", *on] if named else []


def unpopulate_views(views: Iterable[tuple[str, str]]) -> list[str]:
    return [f"refresh materialized view {_qualified_name(*view)} with no data" for view in views]


def restart_sequences(sequences: Iterable[tuple[str, str, int]]) -> list[str]:
    return [
        f"select pg_catalog.setval({literal(_qualified_name(schema, name))}::pg_catalog.regclass, {start}, false)"
        for schema, name, start in sequences
    ]


def rewrite_catalog(catalog: str) -> str:
    """Remove deleted rows of the catalog from disk."""
    return f"vacuum full pg_catalog.{catalog}"


def _qualified_name(schema: str, name: str) -> str:
    return f"{identifier(schema)}.{identifier(name)}"
