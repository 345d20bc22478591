-- Functions over distributed tables whose bodies are stored parsed, or that make, change and drop tables.
--! setup
create table fm_orders (customer int, id int, total numeric(8,2), note text, primary key (customer, id));
create table fm_items (id int primary key, of int, v int);
--! distribute fm_orders customer
--! distribute fm_items id
create view fm_view as select customer, count(*) as n from fm_orders group by customer;
create function fm_returned() returns bigint return (select count(*) from fm_view);
create function fm_most(k int) returns numeric language sql stable return (select max(total) from fm_orders where customer <> k);
create function fm_atomic(k int, v int) returns int language sql begin atomic insert into fm_items (id, of, v) values (k, fm_atomic.v, v); update fm_items i set v = i.v + 1 from fm_orders o where o.id = i.id and i.of = k; select count(*)::int from fm_items i where i.of = fm_atomic.v; end;
create function fm_atomic_rows(k int) returns setof fm_items language sql begin atomic update fm_items set v = fm_items.v * 2 where of = k returning *; end;
create function fm_atomic_table(k int) returns table (a int, b text) language sql begin atomic delete from fm_orders where total < 3; select o.id, o.note from fm_orders o join fm_items i using (id) where i.of = k order by 1; end;
create procedure fm_procedure(k int) language sql begin atomic delete from fm_items where of = k; insert into fm_items select id + 1000, k, 0 from fm_orders where customer = k; end;
create function fm_row(r fm_items) returns int language sql as 'update fm_items set v = r.v + 100 where id = r.id returning v';
create function fm_row_reads(r fm_items) returns bigint language sql stable as 'select count(*) + (r).v from fm_orders o where o.id > $1.id';
create function fm_row_named(r fm_items) returns int language sql begin atomic update fm_items i set v = (r).v + 7 where i.id = r.id returning i.v; end;
create function fm_fields(r fm_items) returns setof fm_items language sql as 'delete from fm_items where of = r.of returning *; select r.*';
create function fm_makes(k int) returns text language plpgsql as $$
  declare n int; x int; q record; customer int := k;
  begin
    create temp table fm_made (a int primary key, b text) on commit drop;
    create index on fm_made (b);
    insert into fm_made select id, note from fm_orders where fm_orders.customer = k;
    get diagnostics n = row_count;
    select a into x from fm_made order by a limit 1;
    create temp table fm_copy as select i.id, o.note from fm_items i join fm_orders o using (id) where i.of = k;
    get diagnostics x = row_count;
    alter table fm_copy add column more int default 5;
    select count(*) as c, sum(more) as s, max(note) as m into q from fm_copy join fm_made on a = id;
    truncate fm_made; drop table fm_made; drop table if exists fm_made, fm_copy;
    return n || '/' || x || '/' || q.c || '/' || coalesce(q.s, 0) || '/' || coalesce(q.m, '-');
  end $$;
create function fm_executes(t text) returns bigint language plpgsql as $$
  declare n bigint;
  begin
    execute format('create table %I (id int primary key, v int)', t);
    execute format('insert into %I select id, v from fm_items', t);
    execute format('create index on %I (v)', t);
    execute format('select count(*) from %I join fm_orders using (id)', t) into n;
    execute format('drop table %I', t);
    return n;
  end $$;
create function fm_stays(t text) returns int language plpgsql as $$
  begin
    execute format('create table %I (id int, v int)', t);
    execute format('comment on table %I is %L', t, 'made');
    execute format('insert into %I select id, v from fm_items where id < 4', t);
    return 1;
  end $$;
create function fm_undone(k int) returns text language plpgsql as $$
  declare n int;
  begin
    create temp table fm_first (i int) on commit drop;
    begin
      create temp table fm_second (i int) on commit drop;
      insert into fm_second select id from fm_items;
      insert into fm_first select i / (i - k) from fm_second;
    exception when division_by_zero then
      select count(*) into n from pg_class where relname = 'fm_second';
      insert into fm_first values (n);
    end;
    return (select string_agg(i::text, ' ' order by i) from fm_first);
  end $$;
create function fm_clash() returns int language plpgsql as $$
  declare nn int := 1;
  begin
    perform count(*) from fm_items;
    create temp table fm_clashes on commit drop as select 5 as nn;
    return (select nn from fm_clashes);
  end $$;
create function fm_declares(k int) returns void language sql as 'delete from fm_items where of = k; declare fm_cursor cursor for select id from fm_orders where customer = k order by id';
create function fm_refused(k int) returns int language plpgsql as $$
  begin
    delete from fm_items where id = k;
    execute case k when 1 then 'vacuum fm_items' when 2 then 'create index concurrently on fm_items (v)' when 3 then 'select 1 into fm_selected' when 4 then 'commit' end;
    return 1;
  end $$;
create function fm_explains() returns setof text language plpgsql as $$
  declare t text; n int := 0;
  begin
    delete from fm_items where id = 5;
    for t in explain (costs off) select * from fm_items where v = n loop n := n + 1; end loop;
    return next n > 0;
    execute 'explain (costs off) select count(*) from fm_orders' into t;
    return next t is not null;
  end $$;
--! reset
truncate fm_orders, fm_items;
insert into fm_orders select g % 7, g, g * 1.5, 'n' || g from generate_series(1, 40) g;
insert into fm_items select g, g % 5, g * 2 from generate_series(1, 20) g;
--! tests
select fm_returned();
select fm_returned() from (values (1)) x;
select fm_most(3);
select * from fm_most(5) as m;
select fm_atomic(100, 3);
select fm_atomic(k => 4, v => 2);
select fm_atomic(101, 4);
select * from fm_items where id > 99 or of = 4 order by id;
select * from fm_atomic_rows(2);
select fm_atomic_rows(2);
select * from fm_atomic_table(1);
select * from fm_atomic_table(77) as t (x, y);
call fm_procedure(3);
select * from fm_items where of = 3 order by id;
select fm_row(row(4, 1, 7));
select fm_row((select i from fm_items i where id = 5));
select fm_row(null);
select fm_row_reads(row(4, 1, 7));
select fm_row_named(row(6, 1, 7));
select * from fm_fields(row(9, 1, 7));
select * from fm_items order by id;
select fm_makes(3);
select fm_makes(99);
begin;
select fm_makes(3);
select fm_makes(2);
select * from fm_made;
rollback;
select fm_executes('fm of them');
select fm_executes('fm_items');
begin;
select fm_stays('fm_stayed');
select * from fm_stayed order by id;
select fm_stays('fm_stayed');
rollback;
select fm_stays('fm_stayed');
select * from fm_stayed order by id;
drop table fm_stayed;
select fm_undone(5);
select fm_undone(500);
select fm_refused(1);
select fm_refused(2);
select fm_refused(3);
select fm_refused(4);
select count(*) from fm_items where id < 5;
select * from fm_explains();
do $$ begin create temp table fm_do on commit drop as select id, v from fm_items where of = 1; insert into fm_items select id + 500, 1, v from fm_do; end $$;
select * from fm_items where id > 500 order by id;
begin;
select fm_declares(3);
fetch all from fm_cursor;
select fm_declares(3);
rollback;
select fm_clash();
--! teardown
drop function if exists fm_returned, fm_most, fm_atomic, fm_atomic_rows, fm_atomic_table, fm_row, fm_row_reads, fm_row_named, fm_fields, fm_makes, fm_executes, fm_stays, fm_undone, fm_clash, fm_refused, fm_declares, fm_explains;
drop procedure if exists fm_procedure;
drop view if exists fm_view;
drop table if exists fm_orders, fm_items;
