-- Large results and statements: many rows, wide rows, long values, long statements, many columns.
create table wide as select n, md5(n::text) as m, repeat(chr(65 + n % 26), 200) as filler from generate_series(1, 20000) n;
\o rows.txt
select * from wide order by n;
\o
\! cksum rows.txt
\pset format unaligned
\o rows.txt
select n, m from wide order by m;
select repeat('long value ', 1000000);
select string_agg(filler, '') from wide;
\o
\! cksum rows.txt
select count(*), sum(hashtext(filler)::bigint) from wide;
select length(repeat('x', 100000000));
\o rows.txt
select repeat('0123456789', 3000000) as thirty_megabytes;
\o
\! cksum rows.txt
\pset format aligned
select 'select ' || string_agg(format('%s as c%s', n, n), ', ' order by n) from generate_series(1, 1600) n \gset many_
\o rows.txt
select string_agg(format('%s as c%s', n, n), ', ' order by n) as columns from generate_series(1, 1600) n \gset
select :columns;
\o
\! cksum rows.txt
select repeat('a', 500000) as big \gset
select length(:'big'), md5(:'big');
insert into wide (n, filler) values (0, :'big') returning length(filler);
select string_agg(format('(%s)', n), ',' order by n) as rows from generate_series(1, 20000) n \gset
create table narrow (n int);
insert into narrow values :rows;
select count(*), sum(n) from narrow;
\copy wide to 'wide.copy'
\! cksum wide.copy
truncate wide;
\copy wide from 'wide.copy'
select count(*), sum(length(filler)) from wide;
do $$begin for n in 1 .. 300 loop raise notice '% %', n, repeat('n', 300); end loop; end$$;
select n from generate_series(1, 100000) n offset 99998;
select n, 1000 / (90000 - n) from generate_series(1, 100000) n;
select 'after it' as state;
