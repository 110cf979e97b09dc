-- CREATE, ALTER and DROP, and the catalog afterwards.
create schema shop;
set search_path = shop, public;
create table customer (id int generated always as identity primary key, name text not null, email text unique, born date, constraint adult check (born < date '2010-01-01'));
create table product (sku text primary key, title text not null default 'unnamed', price numeric(10, 2) check (price >= 0), tags text[] default '{}');
create table purchase (id bigserial primary key, customer_id int references customer on delete cascade, sku text references product on update cascade, amount int default 1, at timestamptz default '2026-01-01 00:00:00+00');
create table if not exists customer (id int);
\d customer
\d product
\d purchase
alter table product add column weight real;
alter table product alter column weight type double precision, alter column weight set default 1.5;
alter table product rename column weight to grams;
alter table product add column total numeric generated always as (price * 2) stored;
comment on table product is 'what is sold';
comment on column product.sku is 'printed on the box';
\d+ product
create index purchase_by_customer on purchase (customer_id, at desc) include (amount) where amount > 0;
create unique index concurrently product_title on product (lower(title));
create index product_tags on product using gin (tags);
reindex index purchase_by_customer;
select indexname, indexdef from pg_indexes where schemaname = 'shop' order by 1;
create sequence ticket start 100 increment 5 maxvalue 110 cycle;
select nextval('ticket'), nextval('ticket'), nextval('ticket'), nextval('ticket');
select currval('ticket'), lastval();
select setval('ticket', 105, false), nextval('ticket');
\d ticket
create type mood as enum ('sad', 'ok', 'happy');
alter type mood add value 'proud' after 'happy';
select enum_range(null::mood);
create type pair as (one int, other text);
create domain posint as int check (value > 0);
create domain email as text constraint has_at check (value ~ '@');
\dT+ mood
\dD
create table diary (day date primary key, mood mood, p pair, n posint, mail email);
insert into diary values ('2026-02-03', 'happy', row(1, 'x'), 5, 'a@b');
select day, mood, (p).other, n, mail from diary;
alter table diary drop column mail cascade;
create table event (at timestamptz not null, what text) partition by range (at);
create table event_2025 partition of event for values from ('2025-01-01+00') to ('2026-01-01+00');
create table event_2026 partition of event for values from ('2026-01-01+00') to ('2027-01-01+00');
create table event_rest partition of event default;
insert into event values ('2025-05-05+00', 'a'), ('2026-05-05+00', 'b'), ('2030-01-01+00', 'c');
select tableoid::regclass, what from event order by at;
alter table event detach partition event_2025;
\d+ event
create table parent (a int);
create table child (b int) inherits (parent);
insert into child values (1, 2);
select * from parent;
select * from only parent;
create unlogged table fast (x int);
create temporary table passing (x int) on commit drop;
create temp table kept as select generate_series(1, 3) as n;
select * from kept;
create table copy_of (like product including all);
\d copy_of
create statistics both_columns on customer_id, sku from purchase;
create table clash (x int, exclude using gist (x with =));
create extension btree_gist;
create table clash (during int4range, exclude using gist (during with &&));
insert into clash values ('[1,5)'), ('[5,9)');
insert into clash values ('[4,6)');
create role statements_reader nologin;
grant usage on schema shop to statements_reader;
grant select on all tables in schema shop to statements_reader;
grant update (title) on product to statements_reader;
\dp product
revoke all on product from statements_reader;
alter default privileges in schema shop grant select on tables to statements_reader;
\ddp
alter default privileges in schema shop revoke select on tables from statements_reader;
drop owned by statements_reader;
alter table customer disable trigger user;
alter table customer owner to current_user;
alter table purchase set (fillfactor = 70, autovacuum_enabled = off);
cluster purchase using purchase_pkey;
vacuum (analyze) purchase;
analyze customer;
truncate customer restart identity cascade;
drop table customer;
drop table customer cascade;
drop table if exists nothing;
drop schema shop;
drop schema shop cascade;
drop role statements_reader;
create schema authorization current_user;
create database never_made template nothing;
