-- Cursors of PL/pgSQL over distributed tables: bound and not, with arguments, in loops, given to the caller.
--! setup
create table fc_orders (customer int, id int, total numeric(8,2), note text, primary key (customer, id));
create table fc_items (id int primary key, of int, v int);
create table fc_names (id int primary key, name varchar(20));
--! distribute fc_orders customer
--! distribute fc_items id
--! reference fc_names
create function fc_bound(low int) returns text language plpgsql as $$
  declare
    c cursor for select customer, id, note from fc_orders where id > low order by id;
    a int; b int; n text; all_of text := '';
  begin
    open c;
    loop
      fetch c into a, b, n;
      exit when not found;
      all_of := all_of || a || '/' || b || n || ' ';
    end loop;
    close c;
    return all_of;
  end $$;
create function fc_arguments(x int, y int) returns setof text language plpgsql as $$
  declare
    c cursor (low int, high numeric) is select id, total from fc_orders where id >= low and total < high order by id desc;
    d no scroll cursor (k int) for select id from fc_items where of = k order by id;
    i int; t fc_orders.total%type;
  begin
    open c (x, y * 3);
    fetch c into i, t; return next i || ':' || t;
    fetch next from c into i, t; return next coalesce(i::text, 'none');
    close c;
    open c (high := 100, low => y - x);
    fetch from c into i; return next i;
    move c; get diagnostics i = row_count; return next i;
    close c;
    for r in d (x) loop return next r.id; end loop;
    for r in d (k := -1) loop return next r.id; end loop;
    return next found;
    for r in c (1, 5.5) loop return next r; end loop;
  end $$;
create function fc_directions(n int) returns setof text language plpgsql as $$
  declare c scroll cursor for select id from fc_items order by id; i int;
  begin
    open c;
    fetch next in c into i; return next 'next ' || i;
    fetch last from c into i; return next 'last ' || i;
    fetch prior from c into i; return next 'prior ' || i;
    fetch first from c into i; return next 'first ' || i;
    fetch absolute n from c into i; return next 'absolute ' || i;
    fetch relative n - 1 from c into i; return next 'relative ' || i;
    fetch relative 0 from c into i; return next 'same ' || i;
    fetch absolute -2 from c into i; return next 'from the end ' || i;
    fetch forward from c into i; return next 'forward ' || i;
    fetch backward from c into i; return next 'backward ' || i;
    move forward 100 from c; get diagnostics i = row_count; return next 'moved ' || i || found;
    move backward all in c; get diagnostics i = row_count; return next 'back ' || i || found;
    move 3 from c; fetch c into i; return next 'fourth ' || i;
    move relative -2 from c; fetch relative 0 from c into i; return next 'second ' || i;
    move all from c; fetch c into i; return next coalesce(i::text, 'none') || found;
    move first from c; move prior from c; return next found;
    close c;
  end $$;
create function fc_no_scroll() returns int language plpgsql as $$
  declare c no scroll cursor for select id from fc_items order by id; i int;
  begin open c; fetch c into i; fetch c into i; fetch prior from c into i; return i; end $$;
create function fc_unbound(k int) returns setof text language plpgsql as $$
  declare c refcursor; d refcursor := 'my own'; r fc_orders%rowtype; q record;
  begin
    open c for select * from fc_orders where customer = k order by id;
    fetch c into r; return next r.note || r.total;
    fetch c into q; return next q.note || q.total;
    close c;
    open c for execute 'select id, v from fc_items where of = $1 order by id' using k;
    fetch c into q; return next q.id || '-' || q.v;
    open d no scroll for select name from fc_names order by id;
    move d; fetch d into q; return next q.name || d;
    close d; close c;
    open d for execute format('select count(*) as n from %I', 'fc_orders');
    fetch d into q; return next q.n;
  end $$;
create function fc_given(c refcursor, k int) returns refcursor language plpgsql as $$
  begin open c for select id, total from fc_orders where customer = k order by id; return c; end $$;
create function fc_taken(c refcursor) returns text language plpgsql as $$
  declare i int; t numeric; s int := (select min(id) from fc_items);
  begin fetch c into i, t; return i + s || ' ' || t || found; end $$;
create function fc_two(inout a refcursor, inout b refcursor) language plpgsql as $$
  begin open a for select id from fc_items order by id; open b for select name from fc_names order by name; end $$;
create function fc_both(k int) returns text language plpgsql as $$
  declare c refcursor; a text; b text; begin c := fc_given('fc between', k); a := fc_taken(c); b := fc_taken('fc between'); return a || b; end $$;
create function fc_changes(k int) returns int language plpgsql as $$
  declare c cursor for select * from fc_orders where customer = k order by id for update; n int := 0;
  begin
    for r in c loop
      update fc_orders set note = note || '!' where current of c;
      n := n + r.id;
    end loop;
    return n;
  end $$;
create function fc_sees_not(k int) returns text language plpgsql as $$
  declare c cursor for select id from fc_items where of = k order by id; s text := '';
  begin
    open c;
    insert into fc_items values (10000, k, 1);
    delete from fc_items where id = (select min(id) from fc_items where of = k);
    loop
      declare i int; begin fetch c into i; exit when not found; s := s || i || ' '; end;
    end loop;
    return s;
  end $$;
create function fc_wrong(which int) returns text language plpgsql as $$
  declare c refcursor; d refcursor := 'fc nobody'; b cursor (n int) for select id from fc_items where id = n; i int;
  begin
    update fc_items set v = 0 where id = 1;
    case which
      when 1 then fetch c into i;
      when 2 then close c;
      when 3 then fetch d into i;
      when 4 then close d;
      when 5 then open d for select id from fc_items; open d for select id from fc_orders;
      when 6 then open b (1); open b (2);
      when 7 then open b (1 / (which - 7));
      when 8 then open b (1); for r in b (2) loop null; end loop;
      when 9 then open d for execute 'select 1 from nothing_there';
      when 10 then open b (1); move absolute null from b;
      when 11 then open b ('x');
      when 12 then open d for execute null;
      when 13 then begin open b (1); perform 1 / 0; exception when division_by_zero then open b (1); fetch b into i; return i; end;
      when 14 then open b (1); begin fetch b into i; perform 1 / 0; exception when others then fetch b into i; return coalesce(i, -1); end;
      else null;
    end case;
    return 'nothing';
  end $$;
create function fc_leaves() returns text language plpgsql as $$
  declare c cursor for select id from fc_items order by id; s text := ''; q record;
  begin
    <<outer>> for r in c loop
      for q in select customer from fc_orders where id = r.id loop
        continue outer when q.customer = 2;
        exit outer when r.id > 7;
        s := s || r.id || ',';
      end loop;
    end loop;
    for r in c loop if r.id = 3 then return s || 'returned ' || c; end if; end loop;
    return s;
  end $$;
--! reset
truncate fc_orders, fc_items;
delete from fc_names;
insert into fc_orders select g % 7, g, g * 1.5, 'n' || g from generate_series(1, 40) g;
insert into fc_items select g, g % 5, g * 2 from generate_series(1, 20) g;
insert into fc_names select g, 'name ' || g from generate_series(1, 5) g;
--! tests
select fc_bound(36);
select fc_bound(100);
select fc_bound(null);
select * from fc_arguments(3, 10);
select * from fc_arguments(100, 1);
select * from fc_arguments(4, null);
select * from fc_directions(5);
select * from fc_directions(1);
select * from fc_directions(null);
select fc_no_scroll();
select * from fc_unbound(3);
select * from fc_unbound(99);
begin;
select fc_given('fc mine', 3);
fetch 2 from "fc mine";
select fc_taken('fc mine');
fetch all in "fc mine";
move backward all in "fc mine";
close "fc mine";
select fc_given('fc mine', 4);
select fc_given('fc mine', 5);
rollback;
begin;
select * from fc_two('fc one', 'fc two');
fetch 3 from "fc one";
fetch 3 from "fc two";
savepoint s;
select fc_given('fc three', 2);
fetch "fc three";
rollback to s;
fetch "fc one";
fetch "fc three";
rollback;
select fc_given('fc gone', 3);
begin;
fetch "fc gone";
rollback;
begin;
declare fc_clients cursor for select id, total from fc_orders where id > 30 order by id;
select fc_taken('fc_clients');
select fc_taken('fc_clients');
commit;
select fc_both(3);
select fc_both(99);
select fc_sees_not(3);
select * from fc_items where of = 3 order by id;
select fc_wrong(1);
select fc_wrong(2);
select fc_wrong(3);
select fc_wrong(4);
select fc_wrong(5);
-- message varies
select fc_wrong(6);
select fc_wrong(7);
-- message varies
select fc_wrong(8);
select fc_wrong(9);
select fc_wrong(10);
select fc_wrong(11);
select fc_wrong(12);
select fc_wrong(13);
select fc_wrong(14);
select v from fc_items where id = 1;
select fc_leaves();
do $$ declare c cursor for select count(*) as n from fc_orders; begin for r in c loop raise notice '% orders', r.n; end loop; end $$;
do $$ declare c refcursor; r record; begin open c for values (1, 'a'), (2, 'b'); fetch c into r; fetch c into r; raise notice '%', r; insert into fc_items values (r.column1 + 500, 0, 0); end $$;
select fc_changes(3);
select * from fc_orders where customer = 3 order by id;
--! teardown
drop function if exists fc_bound, fc_arguments, fc_directions, fc_no_scroll, fc_unbound, fc_given, fc_taken, fc_two, fc_both, fc_changes, fc_sees_not, fc_wrong, fc_leaves;
drop table if exists fc_orders, fc_items, fc_names;
