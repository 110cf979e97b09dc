-- Queries that psql itself sends, and its commands that send statements.
\set n 5
\set word 'it''s'
select :n + 1, :'word', :"word" from (select 1 as "it's") t;
select 1 as one, 'two' as two \gset my_
\echo :my_one :my_two
select 1 as a, 2 as b \gset
select 1 where false \gset
select 1 union select 2 \gset
select format('create table gexec_%s (x int)', n) from generate_series(1, 3) n \gexec
select format('select count(*) from gexec_%s', n) from generate_series(1, 4) n \gexec
\dt gexec_*
select 1 as x, 'long value' as y \gx
\x on
select n, repeat('x', n) as xs from generate_series(1, 3) n;
\x off
select 'to a file' as where_it_goes \g out.txt
\! cat out.txt
select n from generate_series(1, 3) n \g | sort -r
\if :{?n}
select 'n is set' as branch;
\else
select 'n is not set' as branch;
\endif
\if false
select 1 / 0;
\elif true
select 'elif' as branch;
\endif
select 1 as "first", 2 as "second" \gdesc
select 1 / 0 \gdesc
\pset null '(null)'
\pset format csv
select null as a, 'x,y' as b, 'quo"te' as c;
\pset format html
select 1 as a, '<b>' as b;
\pset format latex
select 1 as a, '5%' as b;
\pset format wrapped
\pset columns 40
select repeat('word ', 20) as wrapped, 1 as n;
\pset format unaligned
\pset fieldsep '|'
\pset recordsep '\n--\n'
select 1, 2 union all select 3, 4;
\pset format aligned
\pset tuples_only on
select 'only tuples';
\pset tuples_only off
\pset border 2
\pset title 'A title'
select 1 as boxed;
\pset title
\pset border 1
\pset footer off
select 1 as no_footer;
\pset footer on
select n / 3 as row, n % 3 as col, n as v from generate_series(0, 8) n \crosstabview row col v
\echo :ROW_COUNT :ERROR :SQLSTATE
update pg_temp.nothing set x = 1;
\echo :ROW_COUNT :ERROR :SQLSTATE :LAST_ERROR_SQLSTATE
select 1 \; select 2 \; select 3;
\set SHOW_ALL_RESULTS off
select 1 \; select 2;
\set SHOW_ALL_RESULTS on
\set SINGLELINE on
select 'single line'
\set SINGLELINE off
\set ECHO_HIDDEN on
\dn
\set ECHO_HIDDEN off
\d gexec_1
\d no_such_table
\di
\dv
\ds
\df no_such_function
\dT no_such_type
\dx
\encoding
\encoding SQL_ASCII
\encoding UTF8
\set AUTOCOMMIT
\set QUIET on
create table quiet_one (x int);
\set QUIET off
create table loud_one (x int);
\qecho to the query output
\warn to the other one
select 1 as "ends without a semicolon"
\g
select 'in the buffer' as kept
\p
\r
select 'twice' as again;
\g
\t
select 1;
\t
\timing off
select pg_is_in_recovery(), current_setting('server_version_num')::int >= 140000 as is_recent, current_setting('is_superuser');
\echo :DBNAME
select version() ~ '^PostgreSQL' as is_postgres;
\q
select 'never';
