-- COPY in and out, inline and by \copy, in every format, and with errors.
create table fruit (id int, name text, price numeric(6, 2), tags text[]);
copy fruit from stdin;
1	apple	0.50	{red,green}
2	banana	\N	{}
3	cher\try	12.34	{"with space"}
4	back\\slash	1	\N
\.
select * from fruit order by id;
copy fruit to stdout;
copy fruit to stdout (format csv, header, force_quote *);
copy fruit (name, id) to stdout with delimiter '|' null '-';
copy (select id, upper(name) from fruit where id < 3 order by id) to stdout (format csv);
copy (values (1, null, ''), (2, 'a,b', 'say "x"')) to stdout (format csv, null 'NIL');
copy fruit from stdin (format csv, header match);
id,name,price,tags
10,"quoted, comma",5,"{a,b}"
11,"two
lines",6,{}
12,,,
\.
copy fruit from stdin (format csv, header match);
id,wrong,price,tags
\.
copy fruit (id, name) from stdin (format csv, delimiter ';', quote '''', escape '!', null 'none', force_not_null (name));
20;'semi;colon'
21;none
22;'quo!'te'
\.
select id, name, price is null as no_price from fruit where id >= 10 order by id;
copy fruit from stdin;
30	good	1	{}
31	bad	not a number	{}
32	never	1	{}
\.
select count(*) from fruit where id >= 30;
copy fruit from stdin;
40	too few
\.
copy fruit from stdin;
41	too	1	{}	many
\.
copy fruit from stdin (on_error ignore, log_verbosity verbose);
50	good	1	{}
fifty-one	bad	1	{}
52	good	2	{}
\.
select id from fruit where id >= 50 order by id;
copy fruit from stdin where id > 60;
60	left out	1	{}
61	taken	1	{}
\.
select id from fruit where id >= 60;
copy missing from stdin;
copy fruit (nothing) to stdout;
copy fruit to stdout (format klingon);
copy fruit from stdin (format csv, delimiter 'ab');
begin;
copy fruit from stdin;
70	in a transaction	1	{}
\.
savepoint s;
copy fruit from stdin;
71	x	y	z
\.
rollback to s;
select count(*) from fruit where id >= 70;
rollback;
select count(*) from fruit where id >= 70;
\copy (select id, name from fruit where id < 4 order by id) to 'some.txt'
\! cat some.txt
\copy fruit (id, name) from 'some.txt'
select id, count(*) from fruit where id < 4 group by id order by id;
\copy fruit to 'fruit.csv' csv header
\! wc -l < fruit.csv
create table again (like fruit);
\copy again from 'fruit.csv' with (format csv, header true)
select count(*), (select count(*) from fruit) as wanted from again;
\copy fruit to 'fruit.bin' with (format binary)
truncate again;
\copy again from 'fruit.bin' with (format binary)
select count(*) from again;
select * from fruit except select * from again;
\copy again from 'some.txt' with (format binary)
\copy again from 'does-not-exist.csv' csv
\copy (select n, repeat('x', 90) from generate_series(1, 60000) n) to 'many.csv' csv
\! cksum many.csv
create table many (n int primary key, filler text);
\copy many from 'many.csv' csv
select count(*), sum(n), sum(length(filler)) from many;
\copy many from 'many.csv' csv
\copy many from program 'echo 70001,made by a program' csv
select * from many where n > 60000;
\copy (select 1) to program 'cat; echo from the program'
copy (select n from generate_series(1, 3) n) to stdout \g out.txt
\! cat out.txt
copy many (n) to stdout where n > 5;
copy (insert into again (id) values (999) returning id, 'returned') to stdout;
copy again (id) from stdin (freeze);
1000
\.
copy again (id, name) from stdin (default '\D');
1001	\D
\.
set client_encoding = 'LATIN1';
copy (select 'caf' || chr(233)) to stdout;
copy (select '🌿') to stdout;
reset client_encoding;
copy again (name) from stdin (encoding 'LATIN1');
plain ascii
\.
select 'still here' as state;
