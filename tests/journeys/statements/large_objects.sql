-- Large objects, with SQL and with the commands of psql.
select lo_create(70001);
select lo_create(70001);
select lo_from_bytea(70002, '\x0001020304050607');
select lo_get(70002), lo_get(70002, 2, 3);
select lo_put(70002, 4, '\xffff');
select lo_get(70002);
begin;
select lo_open(70001, 131072 | 262144) as fd \gset
select lowrite(:fd, 'hello large world');
select lo_lseek(:fd, 6, 0), lo_tell(:fd);
select loread(:fd, 5);
select lo_lseek64(:fd, 5000000000, 0), lo_tell64(:fd);
select lo_truncate(:fd, 5);
select lo_lseek(:fd, 0, 2);
select lo_close(:fd);
select lo_close(:fd);
rollback;
begin;
select lo_open(70001, 131072) as fd \gset
select lowrite(:fd, 'across a savepoint');
savepoint s;
select lo_truncate(:fd, 6);
rollback to s;
select lo_close(:fd);
commit;
select convert_from(lo_get(70001), 'UTF8');
begin;
select lo_open(70001, 262144) as fd \gset
select lowrite(:fd, 'not for writing');
rollback;
select lo_open(70999, 262144);
\set QUIET on
\! printf 'line one\nline two\000binary\377end\n' > object.bin
\lo_import object.bin 'imported by psql'
\set imported :LASTOID
select octet_length(lo_get(:imported)), encode(lo_get(:imported), 'escape');
\lo_export :imported exported.bin
\! cmp object.bin exported.bin && echo same
\lo_unlink :imported
\! head -c 3000000 /dev/zero | tr '\000' 'z' > big.bin
\lo_import big.bin
\set imported :LASTOID
select octet_length(lo_get(:imported)), md5(lo_get(:imported));
\lo_export :imported big_again.bin
\! cmp big.bin big_again.bin && echo same
\lo_unlink :imported
\set QUIET off
comment on large object 70001 is 'the first';
select loid, obj_description(loid, 'pg_largeobject') from (values (70001), (70002)) v(loid);
grant select on large object 70001 to public;
select count(*) from pg_largeobject_metadata where oid in (70001, 70002);
select lo_unlink(70001), lo_unlink(70002);
select lo_unlink(70001);
select lo_get(70002);
select lo_import('/etc/hostname');
