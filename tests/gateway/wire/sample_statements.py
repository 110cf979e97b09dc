"""Statements as drivers, frameworks and people send them, grouped by their effects on the session."""

from bough.gateway.wire.rejections import (
    CURSOR_WITH_HOLD,
    LISTEN,
    SESSION_LOCKS,
    SQL_PREPARE,
    TEMPORARY_OBJECT,
    StatementRejection,
)

HARMLESS = [
    "", ";", " ; ;", "-- ping", "/* ping */", ";-- nothing", "select 1", "SELECT 1;",
    "BEGIN", "begin isolation level serializable read only", "START TRANSACTION", "COMMIT", "rollback to savepoint a",
    "SHOW TRANSACTION ISOLATION LEVEL", "show standard_conforming_strings", "SELECT current_setting('TimeZone')",
    # `set` and other words without a meaning for the session
    "UPDATE users SET name = $1, settings = $2 WHERE id = $3",
    "SELECT * FROM users ORDER BY id LIMIT 10 OFFSET 20",
    "INSERT INTO t (a) VALUES ($1) ON CONFLICT (a) DO UPDATE SET a = excluded.a; UPDATE t SET b = 1",
    "SELECT 1; select reset, listen, load, prepare, discard from words; update words set load = 2",
    "\n    SELECT payload, template\n      FROM uploads\n",
    "-- name: GetAuthor :one\nSELECT * FROM authors WHERE id = $1",
    "/* action='show', route='/templates' */ SELECT 1 /* set x; listen */",
    "/***** reset *****/ SELECT 1 -- ; set x = 1",
    "SET CONSTRAINTS ALL DEFERRED", "set constraints a, b immediate; select 1",
    "ALTER TABLE t ALTER COLUMN c SET NOT NULL", "ALTER ROLE app SET search_path = app; ALTER ROLE app RESET ALL",
    "ALTER DATABASE d SET timezone = 'UTC'",
    # notifications and locks that end with the transaction
    "UNLISTEN *", "unlisten jobs; notify jobs, 'listen'", "SELECT pg_notify('jobs', $1)",
    "SELECT pg_advisory_xact_lock(1)", "select pg_try_advisory_xact_lock_shared($1, $2)",
    "SELECT pg_advisory_unlock(5)", "SELECT pg_advisory_unlock_all()",
    # similar names
    "SELECT my.pg_advisory_lock(1)", "SELECT pg_advisory_lock FROM t", 'SELECT "PG_ADVISORY_LOCK"(1)',
    "SELECT my.set_config('a', 'b', false)", "SELECT set_config FROM t", "select dblink_connect from t",
    "GRANT EXECUTE ON FUNCTION pg_advisory_lock(bigint) TO app",
    "COMMENT ON FUNCTION set_config(text, text, bool) IS ''",
    "CREATE VIEW locks AS SELECT pg_try_advisory_lock(1)", "DROP FUNCTION dblink_connect(text)",
    # bodies
    "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql SET a.b = '' AS $$ BEGIN PERFORM pg_advisory_lock(1); END $$",
    "CREATE OR REPLACE FUNCTION f() RETURNS bigint BEGIN ATOMIC SELECT pg_advisory_lock(1); SELECT 1; END",
    "DO $$ BEGIN PERFORM set_config('a.b', 'c', false); CREATE TEMP TABLE t (); END $$",
    # cursors
    'DECLARE "_django_curs_1" NO SCROLL CURSOR FOR SELECT 1', "declare c cursor without hold for select 1",
    "declare hold cursor for with hold as (select 1) select * from hold", "FETCH FORWARD 2000 FROM c; CLOSE c",
    # nothing temporary
    "CREATE TABLE temp (a int)", "create table temporary_files ()", "SELECT temp FROM readings", "TABLE temp",
    "SELECT * INTO temp FROM readings", "select 1 into temp", "select 1 into temp.t", "INSERT INTO temp VALUES (1)",
    "insert into temporary select 1", "INSERT INTO pg_temp.t VALUES (1)", "DROP TABLE IF EXISTS pg_temp.t",
    "with x as (insert into temp values (1) returning a) select * from x", "create table t as select * from pg_temp.u",
    "merge into temp using t on true when matched then delete",
    "PREPARE TRANSACTION 'x'", "EXECUTE s (1)", "DISCARD TEMP", "discard plans; DISCARD SEQUENCES",
    # settings that end with the transaction
    "SELECT set_config('app.user', $1, true)", "select pg_catalog.set_config('a.b', 'c', 't'::boolean)",
    "select set_config('search_path', $1, true), set_config('role', $2, TRUE), set_config('request.jwt', $3, 'true')",
    "select set_config('a.b', set_config('a.c', f(1, 2), true), 1::bool)",
    "COPY t (a, b) FROM STDIN", "LOCK TABLE t", "SELECT pg_reload_conf()", "explain select 1",
]  # fmt: skip

SETTINGS = [
    "SET client_encoding TO 'UTF8'", "SET extra_float_digits = 3", "SET application_name = 'PostgreSQL JDBC Driver'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET client_min_messages TO 'warning'",
    "SET SESSION timezone TO 'UTC'", "SET statement_timeout = 0; SET lock_timeout = 0; SELECT 1", "set search_path=a,b",
    "SET TIME ZONE 'Europe/Zurich'", "SET NAMES 'LATIN1'", "SET ROLE pg_monitor", "SET SESSION ROLE pg_monitor",
    "SET SESSION AUTHORIZATION DEFAULT", "SET XML OPTION DOCUMENT", "set custom.name = 'x'",
    "set local.name = 'x'", "SET transaction.name TO 'x'", "set constraints.name = 'x'", 'set "local".x = 1',
    "RESET ALL", "reset search_path", "RESET ROLE", "RESET SESSION AUTHORIZATION", "RESET TIME ZONE",
    "SELECT set_config('TimeZone', 'UTC', false)", "SELECT pg_catalog.set_config('search_path', '', false);",
    'select "set_config"($1, $2, $3)', "select set_config('a.b', 'c', not true)", "select set_config('a.b', 'c', 'f')",
    "select set_config('a.b', 'c', true), set_config('a.c', 'd', false)", "select set_config('a.b', 'c', true = false)",
    "select set_config('a.b', set_config('a.c', 'd', false), true)",
    "with x as (select set_config('a', 'b', $1)) table x",
    "create table t as select set_config('a.b', 'c', false)", "select set_config('a.b', 'c', (true))",
    "UPDATE pg_settings SET setting = set_config('a.b', 'c', false)",
    "SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;",
    "begin; set statement_timeout = '1min'; commit", "; ;SET custom.x = 1", "\n\t set custom.x = 1",
    "/* a */ -- b\n /* c */ SET custom.x = 1", "/* /* nested */ */ set custom.x = 1", "/*/ /*/ */ */ set custom.x = 1",
    "-- 1\n-- 2\n-- 3\n-- 4\n-- 5\n-- 6\n-- 7\n-- 8\n-- 9\n-- 10\nset custom.x = 1",
    "select ';'; /* a */ set custom.x = 1", "select 'a'\n;-- b\nset custom.x = 1",
]  # fmt: skip

TRANSACTION_LOCAL = [
    (1, "SET LOCAL statement_timeout = 1000"),
    (1, "set local role pg_monitor"),
    (1, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
    (1, "BEGIN; SET TRANSACTION READ ONLY; SELECT 1"),
    (2, "begin; set local a.b = 1; set local a.c = '; set a.d = 2'; set constraints all deferred; commit"),
    (1, "begin; set local time zone 'UTC'; select set_config('a.b', 'c', true)"),
]

REJECTED: list[tuple[StatementRejection, str]] = [
    (LISTEN, "LISTEN jobs"),
    (LISTEN, 'listen "jobs:insert"'),
    (LISTEN, "select 1; LISTEN a"),
    (LISTEN, "-- all of it\nLISTEN a"),
    (SESSION_LOCKS["pg_advisory_lock"], "SELECT pg_advisory_lock(72707369)"),
    (SESSION_LOCKS["pg_advisory_lock"], "SELECT pg_advisory_lock($1)"),
    (SESSION_LOCKS["pg_advisory_lock"], "select 1 where exists (select pg_catalog.Pg_Advisory_Lock (1, 2))"),
    (SESSION_LOCKS["pg_advisory_lock"], "WITH l AS MATERIALIZED (SELECT pg_advisory_lock(1)) SELECT 1 FROM l"),
    (SESSION_LOCKS["pg_advisory_lock"], "create table t as select pg_advisory_lock(1)"),
    (SESSION_LOCKS["pg_advisory_lock_shared"], 'select "pg_catalog"."pg_advisory_lock_shared"(1)'),
    (SESSION_LOCKS["pg_try_advisory_lock"], "SELECT pg_try_advisory_lock(2888837481120290655)"),
    (SESSION_LOCKS["pg_try_advisory_lock"], "select count(*) from jobs where pg_try_advisory_lock(id) limit 1"),
    (SESSION_LOCKS["pg_try_advisory_lock_shared"], "SELECT pg_try_advisory_lock_shared(1, 2)"),
]

SESSION_BOUND: list[tuple[StatementRejection, str]] = [
    (TEMPORARY_OBJECT, "CREATE TEMP TABLE t (a int)"),
    (TEMPORARY_OBJECT, "create temporary table if not exists t as select 1"),
    (TEMPORARY_OBJECT, "CREATE LOCAL TEMPORARY TABLE t (a int) ON COMMIT PRESERVE ROWS"),
    (TEMPORARY_OBJECT, "create global temp table t (a int) on commit delete rows"),
    (TEMPORARY_OBJECT, "CREATE OR REPLACE TEMP VIEW v AS SELECT 1"),
    (TEMPORARY_OBJECT, "create temp recursive view v (n) as select 1"),
    (TEMPORARY_OBJECT, "create\n  temporary\n  sequence s"),
    (TEMPORARY_OBJECT, "create" + " " * 60 + "temp table t ()"),
    (TEMPORARY_OBJECT, "CREATE TABLE pg_temp.t (a int)"),
    (TEMPORARY_OBJECT, "create function pg_temp.f() returns int language sql as 'select 1'"),
    (TEMPORARY_OBJECT, 'create view "pg_temp" . v as select 1'),
    (TEMPORARY_OBJECT, "SELECT * INTO TEMP t FROM generate_series(1, 3)"),
    (TEMPORARY_OBJECT, 'select 1 into temporary"t"'),
    (TEMPORARY_OBJECT, "with x as (select 1) select * into local temp table t from x"),
    (TEMPORARY_OBJECT, "select 1 as a into pg_temp.t"),
    (TEMPORARY_OBJECT, "(select 1 into temp t)"),
    (SQL_PREPARE, "PREPARE s AS SELECT 1"),
    (SQL_PREPARE, "prepare s (int, text) as insert into t values ($1, $2)"),
    (SQL_PREPARE, "prepare transaction as select 1"),
    (CURSOR_WITH_HOLD, 'DECLARE "_django_curs_1" NO SCROLL CURSOR WITH HOLD FOR SELECT 1'),
    (CURSOR_WITH_HOLD, "declare c binary cursor with hold for select 1 for update"),
]
