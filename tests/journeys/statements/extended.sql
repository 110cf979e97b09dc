-- The extended protocol: parameters, named statements, pipelines. Needs psql 18.
create table bound (id int primary key, v text);
insert into bound values ($1, $2) \bind 1 'one' \g
insert into bound values ($1, $2) \bind 2 'it''s' \g
select * from bound where id = $1 \bind 1 \g
select * from bound where id = $1 \bind 99 \g
select $1::int + $2::int as sum \bind 40 2 \g
select $1::text is null as nothing, $2 as word \bind '' 'x' \g
select * from bound where id = $1 \bind not-a-number \g
insert into bound values ($1, $2) \bind 1 'again' \g
select $1 \bind \g
select $1, $2 \bind a \g
select 1 / $1::int \bind 0 \g
selec $1 \bind 1 \g
select * from bound order by id \parse all_rows
\bind_named all_rows \g
select v from bound where id = $1 \parse by_id
\bind_named by_id 1 \g
\bind_named by_id 2 \g
\bind_named by_id 3 \g
\bind_named never 1 \g
alter table bound add column extra int;
\bind_named all_rows \g
\close_prepared by_id
\bind_named by_id 1 \g
\close_prepared never
select count(*) from pg_prepared_statements;
begin \bind \g
insert into bound values ($1) \bind 5 \g
rollback \bind \g
select count(*) from bound \bind \g
\startpipeline
select $1 \bind 1 \sendpipeline
select $1 \bind 2 \sendpipeline
insert into bound values ($1, $2) \bind 10 'in a pipeline' \sendpipeline
select * from bound order by id \bind \sendpipeline
\endpipeline
\startpipeline
select 'before' as state \bind \sendpipeline
select 1 / $1::int \bind 0 \sendpipeline
select 'skipped' as state \bind \sendpipeline
\syncpipeline
select 'after the sync' as state \bind \sendpipeline
\endpipeline
\startpipeline
begin \bind \sendpipeline
insert into bound values ($1, $2) \bind 20 'a' \sendpipeline
\syncpipeline
insert into bound values ($1, $2) \bind 20 'b' \sendpipeline
\syncpipeline
rollback \bind \sendpipeline
\endpipeline
select count(*) from bound where id = 20;
\startpipeline
select 1 as one \bind \sendpipeline
\flushrequest
\getresults
select repeat('x', 1000000) as big \parse big
\bind_named big \sendpipeline
\o rows.txt
\endpipeline
\o
\! cksum rows.txt
\startpipeline
select n from generate_series(1, $1::int) n \bind 3 \sendpipeline
select n from generate_series(1, $1::int) n \bind 0 \sendpipeline
\flush
\syncpipeline
\getresults 1
\getresults
\endpipeline
select n, repeat('y', 100) as filler from generate_series(1, $1::int) n \bind 5 \g
copy bound to stdout \bind \g
select 'still here' as state;
