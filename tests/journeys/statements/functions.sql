-- Functions in SQL and PL/pgSQL, triggers, procedures, operators and aggregates.
create function plus(a int, b int default 1) returns int language sql immutable return a + b;
select plus(1), plus(1, 2), plus(b => 5, a => 3);
create function plus(a text, b text) returns text language sql as $$select a || b$$;
select plus('x', 'y'), plus(1.5::int, 2);
create or replace function plus(a int, b int default 1) returns bigint language sql as 'select 1::bigint';
create function evens(upto int) returns setof int language sql as $$select n from generate_series(0, upto, 2) n$$;
select * from evens(6);
select evens(4), 'beside';
create function pairs() returns table (n int, word text) language plpgsql as $$begin n := 1; word := 'one'; return next; n := 2; word := 'two'; return next; return query select 3, 'three'; end$$;
select * from pairs() with ordinality;
create function out_of(inout a int, out b text) language plpgsql as $$begin b := 'got ' || a; a := a * 2; end$$;
select * from out_of(21);
create function total(variadic numbers int[]) returns int language sql as $$select sum(n)::int from unnest(numbers) n$$;
select total(1, 2, 3), total(variadic array[4, 5]);
create function either(x anyelement, y anyelement) returns anyelement language sql as $$select coalesce(x, y)$$;
select either(null, 5), either('a'::text, 'b');
create function fib(n int) returns int language plpgsql as $$begin if n < 2 then return n; end if; return fib(n - 1) + fib(n - 2); end$$;
select n, fib(n) from generate_series(0, 10) n;
create function careful(x int) returns text language plpgsql as $$
declare
  r record;
  out text := '';
begin
  for r in select generate_series(1, x) as i loop
    continue when r.i = 2;
    exit when r.i > 4;
    out := out || r.i;
  end loop;
  while length(out) < 6 loop
    out := out || '.';
  end loop;
  case x when 1 then out := out || ' one'; when 2, 3 then out := out || ' few'; else out := out || ' many'; end case;
  begin
    perform 1 / (x - 3);
  exception
    when division_by_zero then
      get stacked diagnostics out = message_text;
    when others then
      raise;
  end;
  return out;
end$$;
select careful(1), careful(3), careful(9);
create table audited (id int, v text);
create table audit (op text, was text, became text);
create function note() returns trigger language plpgsql as $$begin insert into audit values (tg_op, old.v, new.v); if tg_op = 'DELETE' then return old; end if; return new; end$$;
create trigger each_row before insert or update or delete on audited for each row execute function note();
create function refuse() returns trigger language plpgsql as $$begin raise exception 'no % here', new.v using hint = 'choose another'; end$$;
create trigger refuse before insert on audited for each row when (new.v = 'bad') execute function refuse();
insert into audited values (1, 'a'), (2, 'b');
update audited set v = upper(v);
delete from audited where id = 1;
insert into audited values (3, 'bad');
select * from audit;
create function many() returns trigger language plpgsql as $$begin raise notice '% rows by %', (select count(*) from fresh), tg_name; return null; end$$;
create trigger after_all after insert on audited referencing new table as fresh for each statement execute function many();
insert into audited select n, 'n' from generate_series(10, 14) n;
create procedure swap(inout a int, inout b int) language plpgsql as $$declare c int := a; begin a := b; b := c; end$$;
call swap(1, 2);
create aggregate product(int) (sfunc = int4mul, stype = int, initcond = 1);
select product(n) from generate_series(1, 6) n;
create operator <+> (leftarg = int, rightarg = int, function = plus);
create function minus(a int, b int) returns int language sql immutable as 'select a - b';
create operator <-> (leftarg = int, rightarg = int, function = minus);
select 5 <-> 3;
create cast (int as point) with inout;
do language plpgsql $$declare a int[] := array[3, 1, 2]; x int; begin foreach x in array a loop raise notice 'element %', x; end loop; raise notice '% of %', array_upper(a, 1), a; end$$;
do $$declare r audited%rowtype; begin select * into r from audited where id = 2; raise notice '% found %', r, found; delete from audited where id > 10; raise notice 'none: %', not found; end$$;
do $$declare n int; begin execute format('select count(*) from %I where id > $1', 'audited') into n using 1; raise notice '% rows', n; end$$;
do $$declare n bigint; begin update audited set v = v; get diagnostics n = row_count; raise notice '% changed', n; end$$;
create function outer_one() returns void language plpgsql as $$begin perform inner_one(); end$$;
create function inner_one() returns void language plpgsql as $$begin raise exception 'deep inside'; end$$;
select outer_one();
create function secret() returns text language sql security definer set search_path = pg_catalog as 'select current_setting(''search_path'')';
select secret();
create function strict_one(int) returns int language sql strict as 'select 1';
select strict_one(null), strict_one(0);
create event trigger never on ddl_command_start execute function note();
\df plus
\sf careful
\df+ strict_one
drop function plus;
drop function plus(int, int);
drop function plus(int, int) cascade;
