-- An error of every class that a tenant can cause, with all fields.
\set VERBOSITY verbose
-- 0A: not supported
create temporary table oops (x int) inherits (pg_class);
select count(*) over w from pg_class window w as (order by relname groups between unbounded preceding and 1 following) for update;
-- 21: cardinality
select (select n from generate_series(1, 2) n);
-- 22: data
select 1 / 0;
select sqrt(-1);
select ln(0);
select substring('abc' from 1 for -1);
select 'abc'::varchar(2)::char(1), repeat('x', -1), lpad('x', 2000000000);
select to_timestamp('2026-13-45', 'YYYY-MM-DD');
select '\x0g'::bytea;
select convert_from('\xff', 'UTF8');
select array[1, 2] || '{3,{4}}'::int[];
select array_fill(1, null);
select 10::numeric(3, 2);
select '(1,2'::point;
select regexp_replace('a', '(', 'b');
select '{"a": }'::json;
select jsonb_path_query('[1]', 'strict $[5]');
select generate_series(1, 5, 0);
select chr(0);
select json_value('"x"', '$' returning int error on error);
-- 23: constraints
create table good (id int primary key, u int unique, n int not null, c int check (c > 0), f int references good);
insert into good values (1, 1, 1, 1, 1);
insert into good values (1, 2, 1, 1, 1);
insert into good values (2, 1, 1, 1, 1);
insert into good values (3, 3, null, 1, 1);
insert into good values (4, 4, 1, -1, 1);
insert into good values (5, 5, 1, 1, 99);
update good set id = 2 where id = 1;
create table other (f int references good (u) deferrable initially deferred);
begin;
insert into other values (77);
commit;
-- 24 and 34: cursors
fetch next from nowhere;
begin;
declare c no scroll cursor for values (1), (2);
fetch 2 from c;
fetch prior from c;
rollback;
-- 25: transactions
commit;
begin;
begin;
savepoint s;
select 1 / 0;
select 'refused';
rollback to s;
select 'fine again';
set transaction isolation level serializable;
rollback;
begin read only;
insert into good values (9, 9, 9, 9, null);
rollback;
begin;
vacuum;
rollback;
create function in_block() returns void language plpgsql as $$begin commit; end$$;
select in_block();
-- 26: statements; 2B: dependents; 2F, 38, 39: functions
execute never_prepared;
deallocate never_prepared;
create function nothing_back() returns int language plpgsql as $$begin end$$;
select nothing_back();
-- 28, 42501: privileges
set role postgres;
select pg_read_file('/etc/passwd');
copy good to '/tmp/bough-statements';
copy good to program 'true';
create role superuser_by_statement superuser;
alter system set work_mem = '1GB';
load 'auto_explain';
set log_statement = 'none';
drop table pg_class;
-- 3B: savepoints; 3D and 3F: databases, schemas
begin;
rollback to nowhere;
rollback;
create schema information_schema;
create table absent.t (x int);
drop database never_was;
-- 42: syntax and names
selec 1;
select * from;
select 'open;
';
select * from missing;
select missing from good;
select missing();
select max(1, 2, 3);
select 1 + 'a'::text;
select good.id from good g;
select id, count(*) from good;
select * from good a join good b on id = id;
create table good (x int);
alter table good add column id int;
create table dup (x int, x int);
insert into good (id) values (1, 2);
insert into good values (1, 2, 3, 4, 5, 6);
create view v as select 1 as x, 2 as x;
select $1;
select unnest(array[1], array[2]);
with recursive r as (select * from r) select * from r;
select count(count(*)) from good;
select * from good where count(*) > 1;
create index on good (missing);
create function f() returns int language sql as 'select ''x''';
create function f() returns int language klingon as '';
alter table good drop constraint never;
drop function f(int);
select cast(row(1) as int);
create table "";
select "aVeryLongIdentifierThatIsLongerThanSixtyThreeBytesAndIsThereforeCutByTheServer" from good;
prepare p as select $1 || $2;
-- 44: views
create view small as select * from good where id < 10 with check option;
insert into small values (50, 50, 1, 1, null);
-- 53, 54: limits
set statement_timeout = '1h';
select repeat('x', 1100000000);
create function deep(int) returns int language plpgsql as $$begin return deep($1 + 1); end$$;
set max_stack_depth = '100kB';
\set VERBOSITY sqlstate
select deep(1);
\set VERBOSITY verbose
reset max_stack_depth;
-- 55: object states
alter sequence good_pkey restart;
lock table good;
select currval('pg_catalog.never');
create sequence fresh;
select currval('fresh');
select lo_get(4242);
-- 57: operator intervention
set statement_timeout = '20ms';
select pg_sleep(20);
reset statement_timeout;
set lock_timeout = '-5';
-- P0: raised in PL/pgSQL
do $$begin raise exception 'by hand' using errcode = 'P7777', detail = 'the detail', hint = 'the hint', column = 'c', constraint = 'k', datatype = 'd', table = 't', schema = 's'; end$$;
do $$begin raise sqlstate '22012'; end$$;
do $$declare x int; begin select id into strict x from good where false; end$$;
do $$declare x int; begin select n into strict x from generate_series(1, 3) n; end$$;
do $$begin assert 1 = 2, 'not equal'; end$$;
do $$begin perform 1 / 0; exception when division_by_zero then raise notice 'caught % (%)', sqlerrm, sqlstate; end$$;
do $$begin raise exception using message = 'multi
line', errcode = 'unique_violation'; end$$;
\errverbose
-- errors of psql itself
\nonsense
\set VERBOSITY terse
select 1 / 0;
\set SHOW_CONTEXT never
\set VERBOSITY default
do $$begin perform 1 / 0; end$$;
\set SHOW_CONTEXT always
do $$begin perform 1 / 0; end$$;
\echo :LAST_ERROR_SQLSTATE :SQLSTATE :ERROR :LAST_ERROR_MESSAGE
