-- Functions and procedures that are distributed by an argument: what they give and write is what one server does.
--! setup
create table fd_orders (customer int, id int, total int, note text, primary key (customer, id));
create table fd_items (customer int, order_id int, n int, price int, primary key (customer, order_id, n));
create table fd_names (name text primary key, hits int);
create table fd_rates (id int primary key, rate int);
--! distribute fd_orders customer
--! distribute fd_items customer colocate_with => 'fd_orders'
--! distribute fd_names name
--! reference fd_rates
insert into fd_orders select g % 23, g, g * 3, 'n' || g from generate_series(1, 300) g;
insert into fd_items select o.customer, o.id, n, o.id + n from fd_orders o, generate_series(1, 3) n;
insert into fd_names select 'name ' || g, g from generate_series(1, 50) g;
insert into fd_rates select g, g * 10 from generate_series(1, 23) g;
create function fd_total(p_customer int) returns bigint language sql stable as
  'select sum(price) from fd_orders o join fd_items i using (customer) where o.customer = p_customer and i.order_id = o.id';
create function fd_best(c int, top int default 3) returns table (order_id int, worth bigint) language sql stable as
  'select i.order_id, sum(i.price) * (select max(rate) from fd_rates) from fd_items i where i.customer = $1 group by 1 order by 2 desc, 1 limit $2';
create function fd_lines(p_customer int) returns setof fd_items language sql stable as 'select * from fd_items where customer = p_customer';
create function fd_pair(p_customer int, out orders bigint, out highest int) language sql stable as
  'select count(*), max(total) from fd_orders where customer = p_customer';
create function fd_order(p_customer int, p_id int, variadic p_prices int[]) returns int language plpgsql as $$
declare
  sum_of int := 0;
  price int;
  place int := 0;
begin
  if p_id <= 0 then raise exception 'order % of %', p_id, p_customer using errcode = '22023'; end if;
  insert into fd_orders values (p_customer, p_id, 0, 'made') on conflict (customer, id) do update set note = 'made again';
  foreach price in array p_prices loop
    place := place + 1;
    insert into fd_items values (p_customer, p_id, place, price) on conflict (customer, order_id, n) do update set price = excluded.price;
    sum_of := sum_of + price;
  end loop;
  update fd_orders set total = sum_of where customer = p_customer and id = p_id;
  return (select total from fd_orders where customer = p_customer and id = p_id);
end $$;
create function fd_walk(p_customer int) returns setof text language plpgsql as $$
declare r record; c cursor for select id from fd_orders where customer = p_customer order by id;
begin
  for r in select o.id, count(*) as n from fd_orders o left join fd_items i on i.customer = p_customer and i.order_id = o.id
           where o.customer = p_customer group by 1 order by 1 loop
    return next r.id || ':' || r.n;
  end loop;
  return query select 'rate ' || rate from fd_rates where id = p_customer;
  open c;
  fetch c into r;
  return next 'first ' || coalesce(r.id, -1);
exception when division_by_zero then return next 'never';
end $$;
create function fd_hit(who text) returns int language sql as
  'insert into fd_names values (who, 1) on conflict (name) do update set hits = fd_names.hits + 1 returning hits';
create function fd_strict(p_customer int) returns bigint language sql strict stable as 'select count(*) + 1000 from fd_orders where customer = p_customer';
create procedure fd_clear(p_customer int, inout gone int) language plpgsql as $$
begin
  delete from fd_items where customer = p_customer;
  get diagnostics gone = row_count;
  delete from fd_orders where customer = $1;
end $$;
create function fd_owner(p_customer int) returns bigint language sql stable security definer set search_path = public as
  'select count(*) from fd_items where customer = p_customer';
create function fd_small(p_customer smallint) returns bigint language sql stable as 'select count(*) from fd_orders where customer = p_customer';
-- herd only
select create_distributed_function('fd_total(int)', 'p_customer', colocate_with => 'fd_orders');
-- herd only
select create_distributed_function('fd_best(int, int)', '$1');
-- herd only
select create_distributed_function('fd_lines(int)', 'p_customer');
-- herd only
select create_distributed_function('fd_pair(int)', 'p_customer', colocate_with := 'fd_items');
-- herd only
select create_distributed_function('fd_order(int, int, int[])', 'p_customer');
-- herd only
select create_distributed_function('public.fd_walk(int)', 'p_customer');
-- herd only
select create_distributed_function('fd_hit(text)', 'who');
-- herd only
select create_distributed_function('fd_strict(int)', 'p_customer');
-- herd only
select create_distributed_function('fd_clear(int, int)', 'p_customer');
-- herd only
select create_distributed_function('fd_owner(int)', 'p_customer');
-- herd only
select create_distributed_function('fd_small(smallint)', 'p_customer');
--! reset
truncate fd_orders, fd_items;
truncate fd_names;
insert into fd_orders select g % 23, g, g * 3, 'n' || g from generate_series(1, 300) g;
insert into fd_items select o.customer, o.id, n, o.id + n from fd_orders o, generate_series(1, 3) n;
insert into fd_names select 'name ' || g, g from generate_series(1, 50) g;
--! tests
select fd_total(0);
select fd_total(5), fd_total(5) as again, 1 + fd_total(5);
select * from fd_total(7);
select fd_total(99);
select fd_total(null);
-- params: 12
select fd_total($1);
-- params: 12, 2
select * from fd_best($1, $2);
select * from fd_best(3);
select worth, b.order_id from fd_best(4, 10) b where order_id % 2 = 0 order by 1 desc, 2 limit 2;
select (fd_best(5, 1)).*;
select * from fd_lines(6) order by 1, 2, 3;
select count(*), sum(price) from fd_lines(6) where n = 2;
select sum(price) filter (where n = 1), order_id from public.fd_lines(8) group by 2 order by 2;
select * from fd_pair(9);
select fd_pair(9);
select * from fd_pair(1000);
select fd_walk(22);
select * from fd_walk(0) w (line);
select * from fd_walk(1001);
select fd_order(3, 1000, 5, 6, 7);
select fd_order(3, 1000, 8, 9);
select * from fd_lines(3) where order_id = 1000 order by n;
-- params: 4, 1001, 77
select fd_order($1, $2, $3);
select fd_order(5, -1, 1);
select count(*), sum(total) from fd_orders;
select count(*), sum(price) from fd_items;
select fd_hit('name 3');
select fd_hit('name 3');
select fd_hit('new');
-- params: 'it''s'
select fd_hit($1);
select name, hits from fd_names where hits > 48 or name in ('new', 'name 3') order by 1;
select fd_strict(null), fd_strict(null) is null;
select fd_strict(2);
call fd_clear(11, 0);
-- params: 12
call fd_clear($1, null);
select count(*) from fd_orders where customer in (11, 12);
select fd_owner(13), current_user = session_user;
select fd_small(3::smallint);
select fd_small('4');
select fd_small('many');
select fd_total('99999999999');
begin;
select fd_order(1, 2000, 1);
select fd_order(2, 2000, 2);
select fd_order(3, 2000, 3);
call fd_clear(4, 0);
select fd_total(4), now() = transaction_timestamp();
select count(*) from fd_items;
rollback;
select count(*) from fd_items where order_id = 2000;
begin;
select fd_order(1, 2001, 1);
savepoint s;
select fd_order(2, 0, 2);
rollback to s;
select fd_order(3, 2001, 3);
commit;
select customer, order_id, price from fd_items where order_id = 2001 order by 1;
begin isolation level repeatable read;
select fd_total(1);
select fd_total(2);
commit;
begin read only;
select fd_total(3);
select fd_order(3, 2002, 3);
rollback;
prepare fd_p (int) as select * from fd_best($1, 1);
execute fd_p (1);
execute fd_p (2);
deallocate fd_p;
-- rows vary
explain (costs off) select fd_total(1);
--! teardown
drop function if exists fd_total, fd_best, fd_lines, fd_pair, fd_order, fd_walk, fd_hit, fd_strict, fd_owner, fd_small;
drop procedure if exists fd_clear;
drop table if exists fd_orders, fd_items, fd_names, fd_rates;
