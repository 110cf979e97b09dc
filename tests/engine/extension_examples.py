"""One example for each extension of the default build: what a tenant creates, and a query whose answer is known."""

from dataclasses import dataclass, field
from typing import Any

PRELOADED = ("pg_stat_statements", "pg_cron", "pg_hint_plan", "pgaudit")


@dataclass(frozen=True, kw_only=True)
class Example:
    extension: str
    setup: str = "select 1"  # statements, on the first branch only
    before: str = "select 1"  # statements in each session before the query
    query: str
    expected: Any = True
    explains: bool = False  # `expected` is a part of the plan of the query
    works_on_replica: bool = True
    logs: str = field(default="", repr=False)  # a part of what the query writes to the log


EXAMPLES = (
    Example(
        extension="vector",
        setup="""
            create table items (id int primary key, embedding vector(3), other vector(3));
            insert into items select n, array[n, 0, 0]::vector, array[0, n, 0]::vector from generate_series(1, 1000) n;
            create index items_hnsw on items using hnsw (embedding vector_l2_ops);
            create index items_ivfflat on items using ivfflat (other vector_l2_ops) with (lists = 10);
        """,
        before="set enable_seqscan = off",
        query="select id from items order by embedding <-> '[70.2, 0, 0]' limit 1",
        expected=70,
    ),
    Example(
        extension="vector",
        before="set enable_seqscan = off",
        query="select id from items order by embedding <-> '[70.2, 0, 0]' limit 1",
        expected="items_hnsw",
        explains=True,
    ),
    Example(
        extension="vector",
        before="set enable_seqscan = off",
        query="select id from items order by other <-> '[0, 70.2, 0]' limit 1",
        expected="items_ivfflat",
        explains=True,
    ),
    Example(
        extension="pg_hint_plan",
        setup="create table hinted (id int primary key); insert into hinted select generate_series(1, 5000)",
        query="/*+ SeqScan(hinted) */ select * from hinted where id = 1",
        expected="Seq Scan",
        explains=True,
    ),
    Example(extension="pg_hint_plan", query="select * from hinted where id = 1", expected="Index", explains=True),
    Example(
        extension="hypopg",
        setup="create table bare as select n as id from generate_series(1, 20000) as n; analyze bare",
        before="select hypopg_create_index('create index on bare (id)')",
        query="select * from bare where id = 1",
        expected="btree_bare_id",
        explains=True,
    ),
    Example(
        extension="pg_partman",
        setup="""
            create table measured (at timestamptz not null default now(), value int) partition by range (at);
            do $$
            begin
                if (select extversion from pg_extension where extname = 'pg_partman') like '4.%' then
                    perform create_parent('public.measured', 'at', 'native', 'daily');
                else
                    perform create_parent('public.measured', 'at', '1 day');
                end if;
            end $$;
            insert into measured (value) values (1);
        """,
        query="select count(*) > 5 and bool_and(value = 1) from pg_inherits, measured",
    ),
    Example(
        extension="plpgsql_check",
        setup="""
            create function wrong() returns int language plpgsql as 'begin return missing_column from hinted; end'
        """,
        query="select plpgsql_check_function('wrong()') like '%missing_column%' limit 1",
    ),
    Example(
        extension="pgaudit",
        before="set pgaudit.log = 'read'",
        query="select count(*) = 5000 from hinted",
        logs="AUDIT: SESSION,1,1,READ,SELECT",
    ),
    Example(
        extension="rum",
        setup="""
            create table texts (id int, words tsvector);
            insert into texts select n, to_tsvector('simple', 'word' || n || ' other') from generate_series(1, 1000) n;
            create index texts_rum on texts using rum (words rum_tsvector_ops);
        """,
        before="set enable_seqscan = off",
        query="select id from texts where words @@ 'word77' order by words <=> 'word77'::tsquery limit 1",
        expected=77,
    ),
    Example(
        extension="rum",
        before="set enable_seqscan = off",
        query="select id from texts where words @@ 'word77' order by words <=> 'word77'::tsquery limit 1",
        expected="texts_rum",
        explains=True,
    ),
    Example(
        extension="ip4r",
        setup="""
            create table networks (range ip4r);
            insert into networks select (n || '.0.0.0/8')::ip4r from generate_series(1, 200) as n;
            create index networks_gist on networks using gist (range);
        """,
        query="select range::text from networks where range >>= '42.1.2.3'::ip4",
        expected="42.0.0.0/8",
    ),
    Example(
        extension="hll",
        setup="""
            create table visits as
                select hll_add_agg(hll_hash_integer(n % 1000)) as users from generate_series(1, 20000) as n
        """,
        query="select abs(hll_cardinality(users) - 1000) < 100 from visits",
    ),
    Example(
        extension="pgtap",
        before="select plan(1)",
        query="select has_table('hinted'::name) like 'ok 1%'",
        works_on_replica=False,  # it counts its tests in a temporary table
    ),
    Example(
        extension="pg_cron",
        setup="select cron.schedule('nightly', '0 3 * * *', 'vacuum hinted')",
        query="select jobname || ' ' || username from cron.job",
        expected="nightly neondb_owner",
    ),
)
