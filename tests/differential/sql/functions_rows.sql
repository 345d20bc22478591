-- Rows and their types in PL/pgSQL over distributed tables: records as a whole, %ROWTYPE, lengths of types, arrays, compiler options.
--! setup
create type fr2_pair as (a int, b text);
create table fr2_orders (customer int, id int, total numeric(8,2), note varchar(12), tags int[], at date, primary key (customer, id));
create table fr2_items (id int primary key, "of" int, v bigint);
create table fr2_kinds (kind int primary key, name text);
create table fr2_local (n int, said text);
--! distribute fr2_orders customer
--! distribute fr2_items id
--! reference fr2_kinds
create function fr2_rowtype(k int) returns text language plpgsql as $$
  declare r fr2_orders%rowtype; i fr2_items; p fr2_pair; s fr2_orders.note%type := 'start'; n s%type;
  begin
    select * into r from fr2_orders where customer = k order by id limit 1;
    if not found then return 'none' || coalesce(r.note, '?') || (r is null); end if;
    r.total := r.total + 0.005; r.note := r.note || '+';
    insert into fr2_orders values (r.customer, r.id + 1000, r.total, r.note, r.tags);
    insert into fr2_orders select (r).customer, (r).id + 2000, (r).total;
    select id, v into i from fr2_items where id = r.id;
    p.b := 'b'; p.a := '7';
    n := i.v; s := p;
    return r || '/' || i || '/' || p.a || p.b || s || coalesce(n, '-');
  end $$;
create function fr2_whole(k int) returns setof text language plpgsql as $$
  declare r record; q record; o fr2_orders; e record;
  begin
    for r in select id, note, total, at from fr2_orders where customer = k order by id limit 2 loop
      return next r::text; return next row_to_json(r)::text;
      q := r; q.note := upper(r.note); return next q::text; return next q = r; return next q is distinct from r;
      insert into fr2_local values (r.id, r); insert into fr2_local select r.id, to_jsonb(r) ->> 'note';
      return next (select count(*) from fr2_orders x where (x.id, x.note) = (r.id, r.note));
    end loop;
    q := row(1, 'two'::text, null::date, 3.50); return next q::text; return next q.f2 || q.f4;
    select x.* into q from (select 5 as five, 'six' as six) x; return next q::text;
    select * into o from fr2_orders where customer = k order by id desc limit 1; return next o::text; return next o is null;
    q := o; return next q.note; o := null; return next coalesce(o::text, 'null'); return next o is null; return next coalesce(o.id, -1);
    o.id := 5; return next o::text; o := row(1, '2', 3.456); return next o::text; return next (o).total;
    select id, note into q from fr2_orders where customer = -1; return next q::text; return next q is null;
    return next coalesce(e::text, 'unassigned');
  end $$;
create function fr2_star(k int) returns text language plpgsql as $$
  declare r record; o fr2_orders;
  begin
    for r in select customer, id + 500 as id, total, note, tags, at from fr2_orders where customer = k order by id loop
      insert into fr2_orders values (r.*);
    end loop;
    select * into o from fr2_orders where customer = k order by id limit 1;
    o.id := 900;
    insert into fr2_orders select o.*;
    insert into fr2_orders select r.customer, 901, (select x.total from (select o.*) x);
    update fr2_orders set note = o.note, at = o.at where customer = o.customer and id = 901;
    return (select string_agg(x::text, ' ') from (select r.*) x);
  end $$;
create function fr2_wrong(which int) returns text language plpgsql as $$
  declare r record; o fr2_orders; i int; v varchar(3); c char(4); n numeric(4,1); b bit(3); nn fr2_items;
  begin
    delete from fr2_items where id = 1;
    case which
      when 1 then return r.x;
      when 2 then select id into r from fr2_items where id = 2; return r.v;
      when 3 then r.x := 1;
      when 4 then v := 'abcd';
      when 5 then v := 'abc   '; c := 'ab'; n := 12.34; return v || c || '|' || n || length(c) || (c = 'ab');
      when 6 then n := 1000;
      when 7 then b := '10';
      when 8 then o := 5;
      when 9 then r := 5;
      when 10 then select * into o from fr2_items where id = 2; return o;
      when 11 then nn := row('x', 1, 2);
      when 12 then o.total := 'x';
      when 13 then o.total := 12345678;
      when 14 then o.note := 'much too long for that';
      when 15 then select * into i from fr2_orders where customer = 1 order by id; return i;
      when 16 then c := 12345;
      when 17 then select 1 as a, 2 as a into r; return r.a;
      when 18 then i := r;
      when 19 then v := 12; n := '3.14159'; c := true; return v || n || c;
      when 20 then insert into fr2_orders values (r.*);
      when 21 then r := null; return coalesce(r::text, 'null') ;
      when 22 then o := null; o := row(1); return o;
      when 23 then select 'a', 'b' into v, o.note; return v || o.note || (o.id is null);
      when 24 then select 1, 2, 3 into i, o.id; return i || o::text;
      when 25 then select 1 into i, o.id; return i || coalesce(o.id, -1);
      else null;
    end case;
    return 'nothing';
  end $$;
create function fr2_given(r fr2_orders, p fr2_pair) returns text language plpgsql as $$
  begin
    if r is null then return 'null' || p; end if;
    update fr2_items set v = v + r.id where id = p.a;
    return r.note || p.a || (select count(*) from fr2_orders where customer = r.customer);
  end $$;
create function fr2_gives(k int) returns fr2_orders language plpgsql as $$
  declare o fr2_orders;
  begin
    if k < 0 then return null; end if;
    if k = 98 then return row(1, 2, 3); end if;
    if k = 97 then return row(1, 2, 3.5::numeric(8,2), 'n'::varchar(12), null::int[], null::date); end if;
    if k = 96 then return 5; end if;
    select * into o from fr2_orders where customer = k order by id limit 1; o.note := o.note || '?';
    return o;
  end $$;
create function fr2_sets(k int) returns setof fr2_items language plpgsql as $$
  declare r record; i fr2_items;
  begin
    return next i;
    for r in select * from fr2_items where "of" = k order by id loop r.v := r.v * 2; return next r; end loop;
    return query select * from fr2_items where id < k order by id;
    i := row(5, 6, 7); return next i; i.v := null; return next i;
    return query execute 'select id, v::int, v from fr2_items where id = $1' using k;
    return next row(1, 2, 3::bigint);
    if k = 4 then for r in select id, v from fr2_items loop return next r; end loop; end if;
    if k = 5 then return query select id, "of", v::int from fr2_items; end if;
  end $$;
create function fr2_table(k int) returns table (one int, two text) language plpgsql as $$
  declare r record;
  begin
    for r in select id, note::text from fr2_orders where customer = k order by id loop return next; one := r.id; two := r.note; end loop;
    return next;
    return query select id, note::text from fr2_orders where customer = k and id < 20 order by id;
  end $$;
create function fr2_out(k int, out n bigint, out s numeric) language plpgsql as $$ begin select count(*), sum(total) into n, s from fr2_orders where customer = k; end $$;
create function fr2_each(k int) returns setof text language plpgsql as $$
  declare i int; a int[]; t text; n numeric(4,1);
  begin
    foreach i in array (select tags from fr2_orders where customer = k order by id limit 1) loop return next i || '.'; continue when i > 1; return next 'one'; end loop;
    return next found;
    foreach t in array array['a', null, 'b,"c'] loop return next coalesce(t, 'null'); end loop;
    foreach a slice 1 in array array[[1, 2], [3, k], [5, null]] loop return next a::text || array_lower(a, 1); end loop;
    foreach a slice 2 in array '[0:1][5:6]={{1,2},{3,4}}'::int[] loop return next a::text; end loop;
    foreach i in array '[0:1][5:6]={{1,2},{3,4}}'::int[] loop return next i; exit when i = 3; end loop;
    foreach n in array array[1.25, 2.35] loop return next n; end loop;
    foreach i in array '{}'::int[] loop return next 'never'; end loop;
    return next found || coalesce(i::text, '-');
    if k = 2 then foreach i in array null::int[] loop null; end loop; end if;
    if k = 3 then foreach a slice 2 in array a loop null; end loop; end if;
    if k = 4 then foreach i slice 1 in array array[1] loop null; end loop; end if;
    if k = 5 then foreach a in array array[1] loop null; end loop; end if;
    if k = 6 then foreach i in array k loop null; end loop; end if;
  end $$;
create function fr2_names(id int, v int) returns text language plpgsql as $$
  #variable_conflict use_column
  declare x int := 5; "of" int;
  begin
    update fr2_items set v = v + x where id = x;
    select v, x into "of", x from fr2_items where id = 3;
    return coalesce("of", -1) || '/' || x || '/' || fr2_names.id;
  end $$;
create function fr2_variables(id int, v int) returns text language plpgsql as $$
  #variable_conflict use_variable
  begin
    update fr2_items set v = fr2_items.v + v where fr2_items.id = fr2_variables.id;
    return (select max(x.v) from fr2_items x where x.id = id) || ' ' || v;
  end $$;
create function fr2_qualified(a int) returns text language plpgsql as $$
  <<top>> declare n int := 1; r record;
  begin
    declare n int := top.n + 1; b alias for $1; r int := 3;
    begin
      for a in 1..2 loop top.n := top.n + a + b; end loop;
      select id, v into top.r from fr2_items where id = fr2_qualified.a;
      return n || '/' || top.n || '/' || a || b || '/' || top.r.v || '/' || r || (select count(*) from fr2_items where id > top.r.id);
    end;
  end $$;
create function fr2_alias(int, text) returns text language plpgsql as $$
  declare first alias for $1; second alias for $2; third alias for first; c constant text collate "C" := 'B'; d text collate "C" := 'a';
  begin
    third := first + 1;
    insert into fr2_items values (first, $1, 1);
    return first || second || $1 || (c < d) || (second < 'a') || (select min(n) from (select note || c as n from fr2_orders where note < d) x);
  end $$;
create function fr2_strict(k int, w text) returns int language plpgsql as $$
  #print_strict_params on
  declare i int;
  begin
    if k > 5 then select id into strict i from fr2_items where "of" = k and w <> 'it''s'; end if;
    select id into strict i from fr2_items where "of" = k; return i;
  end $$;
create function fr2_diagnosed(k int) returns text language plpgsql as $$
  declare m text; d text; h text; s text; c text; t text;
  begin
    insert into fr2_items values (k, 1, 1 / (k - 1)); raise exception 'no' using detail = 'd', hint = 'h', errcode = 'P7777';
  exception when others then
    get stacked diagnostics m = message_text, d := pg_exception_detail, h = pg_exception_hint, s = returned_sqlstate, c = constraint_name, t = table_name;
    assert k < 5, 'k is ' || k;
    assert k < 4;
    return m || '/' || d || '/' || h || '/' || s || '/' || c || '/' || t;
  end $$;
create function fr2_stacked() returns text language plpgsql as $$ declare m text; begin delete from fr2_items; get stacked diagnostics m = message_text; return m; end $$;
create function fr2_never(k int) returns text language plpgsql strict as $$ begin delete from fr2_items where id = k; return 'done'; end $$;
create function fr2_never_any(k int) returns setof int language plpgsql strict as $$ begin delete from fr2_items where id = k; return next k; end $$;
create function fr2_nested(k int) returns text language plpgsql as $$
  declare r record; q record;
  begin
    select o, i.id, o.note as note into r from fr2_orders o join fr2_items i using (id) where o.customer = k order by i.id limit 1;
    q := r.o; update fr2_items set v = 0 where id = r.id;
    return r.id || r.note || (r.o).total || q.at;
  end $$;
--! reset
truncate fr2_orders, fr2_items, fr2_local;
delete from fr2_kinds;
insert into fr2_orders select g % 7, g, g * 1.5, 'n' || g, array[g % 3, g], date '2026-01-01' + g from generate_series(1, 40) g;
insert into fr2_items select g, g % 5, g * 2 from generate_series(1, 20) g;
insert into fr2_kinds values (1, 'one');
--! tests
select fr2_rowtype(3);
select fr2_rowtype(99);
select * from fr2_orders where id > 1000 order by id;
select fr2_whole(2);
select * from fr2_whole(99);
select * from fr2_local order by 1, 2;
select fr2_star(3);
select * from fr2_orders where customer = 3 order by id;
select fr2_wrong(g) from (values (1)) x (g);
select fr2_wrong(1);
select fr2_wrong(2);
select fr2_wrong(3);
select fr2_wrong(4);
select fr2_wrong(5);
select fr2_wrong(6);
select fr2_wrong(7);
select fr2_wrong(8);
-- plain refuses
select fr2_wrong(9);
select fr2_wrong(10);
select fr2_wrong(11);
select fr2_wrong(12);
select fr2_wrong(13);
select fr2_wrong(14);
select fr2_wrong(15);
select fr2_wrong(16);
select fr2_wrong(17);
select fr2_wrong(18);
select fr2_wrong(19);
select fr2_wrong(20);
select fr2_wrong(21);
select fr2_wrong(22);
select fr2_wrong(23);
select fr2_wrong(24);
select fr2_wrong(25);
select fr2_given(row(2, 5, 1, 'x', null, null), row(3, 'p'));
select fr2_given(null, row(3, 'p'));
select fr2_given((select o from fr2_orders o where customer = 4 and id = 4), '(4,"q, r")');
select fr2_given(o, row(o.id, null)::fr2_pair) from fr2_orders o where customer = 1 order by id;
select fr2_given(o, row(o.id, null)) from fr2_orders o where customer = 1 order by id;
-- params: '(2,5,1,x,,)', '(5,)'
select fr2_given($1, $2);
select * from fr2_items where v > 40 order by id;
select fr2_gives(3);
select * from fr2_gives(3);
select * from fr2_gives(-1);
select fr2_gives(-1);
select fr2_gives(99);
select * from fr2_gives(98);
select * from fr2_gives(97);
select fr2_gives(97);
select * from fr2_gives(96);
select * from fr2_sets(3);
select fr2_sets(3);
select * from fr2_sets(4);
select * from fr2_sets(5);
select * from fr2_table(1);
-- simple only
select fr2_table(1);
select * from fr2_table(2);
select * from fr2_out(3);
-- simple only
select fr2_out(3);
select id, fr2_gives(id) from fr2_items where id < 4 order by id;
select * from fr2_each(1);
select * from fr2_each(2);
select * from fr2_each(3);
select * from fr2_each(4);
select * from fr2_each(5);
select * from fr2_each(6);
select * from fr2_each(99);
select fr2_names(1, 2);
select fr2_variables(3, 4);
select * from fr2_items where id in (3, 5) order by id;
select fr2_qualified(4);
select fr2_alias(100, 'B');
select * from fr2_items where id > 99 order by id;
select fr2_strict(77, 'it''s');
select fr2_strict(6, null);
select fr2_strict(1, 'a');
select fr2_diagnosed(1);
select fr2_diagnosed(2);
select fr2_diagnosed(3);
select fr2_diagnosed(4);
select fr2_diagnosed(5);
select fr2_stacked();
select fr2_never(null);
select fr2_never(5);
select * from fr2_never_any(null);
select * from fr2_never_any(7);
select fr2_nested(3);
select count(*) from fr2_items;
begin;
select fr2_rowtype(4);
savepoint s;
select fr2_wrong(4);
rollback to s;
select fr2_wrong(5);
rollback;
--! teardown
drop function if exists fr2_rowtype, fr2_whole, fr2_star, fr2_wrong, fr2_given, fr2_gives, fr2_sets, fr2_table, fr2_out, fr2_each, fr2_names, fr2_variables, fr2_qualified, fr2_alias, fr2_strict, fr2_diagnosed, fr2_stacked, fr2_never, fr2_never_any, fr2_nested;
drop table if exists fr2_orders, fr2_items, fr2_kinds, fr2_local;
drop type if exists fr2_pair;
