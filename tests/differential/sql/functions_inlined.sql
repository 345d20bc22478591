-- SQL functions that read distributed tables, called as one server has them called.
--! setup
create table fi_orders (customer int, id int, total int, note text, primary key (customer, id));
create table fi_items (order_id int, n int, price numeric(10, 2), at timestamp, primary key (order_id, n));
create table fi_names (id int primary key, name varchar(20), limited bigint);
create table fi_local (id int primary key, of int);
--! distribute fi_orders customer
--! distribute fi_items order_id
--! reference fi_names
insert into fi_orders select g % 23, g, g * 3, 'n' || g from generate_series(1, 200) g;
insert into fi_items select g, n, g + n / 10.0, timestamp '2026-01-01' + g * interval '1 hour' from generate_series(1, 200) g, generate_series(1, 2) n;
insert into fi_names select g, 'name ' || g, g * 7 from generate_series(0, 22) g;
insert into fi_local select g, g % 5 from generate_series(1, 20) g;
create function fi_total(p_customer int) returns bigint language sql stable as 'select sum(total) from fi_orders where customer = p_customer';
create function fi_narrow(c int) returns int language sql stable as 'select sum(total) from fi_orders where customer = $1';
create function fi_limited(c int) returns int language sql stable as 'select id from fi_orders where customer = c order by 1 limit c - 5';
create function fi_all() returns bigint language sql stable as 'select count(*) from fi_orders';
create function fi_volatile(c int) returns bigint language sql as 'select count(*) from fi_orders where customer = c';
create function fi_first(c int) returns text language sql stable as 'select note from fi_orders where customer = c order by id';
create function fi_last(c int, low int default 0) returns text language sql stable as
  'select note from fi_orders where customer = c and id > low order by id desc limit 1';
create function fi_rows(c int) returns setof fi_orders language sql stable as 'select * from fi_orders where customer = c';
create function fi_ids(c int) returns setof int language sql stable as 'select id from fi_orders where customer = c';
create function fi_best(c int, top bigint default 3) returns table (order_id int, worth numeric) language sql stable as
  'select i.order_id, sum(i.price) from fi_orders o join fi_items i on i.order_id = o.id where o.customer = c group by 1 order by 2 desc, 1 limit top';
create function fi_with(c int) returns bigint language sql stable as
  'with o as (select id from fi_orders where customer = c) select count(*) from o join fi_items i on i.order_id = o.id';
create function fi_twice(c int) returns bigint language sql stable as 'select fi_total(c) + fi_total(c) from fi_names where id = c';
create function fi_of_name(n text) returns bigint language sql stable as 'select sum(o.total) from fi_orders o join fi_names m on m.id = o.customer where m.name = n';
create function fi_strict(c int) returns bigint language sql stable strict as 'select count(*) + 5 from fi_orders where customer = c';
create function fi_big(c bigint) returns bigint language sql stable as 'select sum(total) from fi_orders where customer = c';
create function fi_since(t timestamp) returns bigint language sql stable as 'select count(*) from fi_items where at >= t';
create function fi_same(customer int) returns bigint language sql stable as 'select count(*) from fi_orders where customer = customer';
create function fi_null(c int) returns int language sql stable as 'select id from fi_orders where customer = c and id < 0';
create function fi_union(c int) returns setof int language sql stable as 'select id from fi_orders where customer = c union all select id from fi_names where id = c order by 1';
create function fi_again(c int) returns bigint language sql stable as 'select count(*) from fi_orders where customer = c';
create or replace function fi_again(c int) returns bigint language sql stable as 'select fi_again(c) from fi_orders where customer = c limit 1';
-- Names, aggregates and limits that would mean something else where the call stands.
create function fi_most(c int) returns int language sql stable as 'select max(c) from fi_orders where customer = 3';
create function fi_counted(c int) returns bigint language sql stable as 'select count(c) from fi_orders';
create function fi_over(c int) returns bigint language sql stable as 'select sum(total + c) from fi_orders where customer = 3';
create function fi_none(c int) returns bigint language sql stable as 'select count(*) from fi_orders where customer = c limit 0';
create function fi_at(c int, n bigint) returns int language sql stable as 'select id from fi_orders where customer = 4 and id > c limit n';
create function fi_named(c int) returns bigint language sql stable as 'select min(total) as c from fi_orders where customer = $1 and id > c';
create function fi_long(c text) returns bigint language sql stable as
  $$select count(*) from fi_orders where note = c or note = c or note = c or note = c or note = c or note = c or note = c or note = c$$;
--! tests
-- A function in FROM is called for each row, also where nothing reads what it gives: it may fail.
select count(*) from fi_names n left join fi_limited(n.id) f on f > n.id;
select count(*) from fi_names n left join fi_limited(n.id) f on true;
select count(*) from fi_names n, fi_limited(n.id) f;
select count(*), sum(f) from fi_names n left join fi_limited(n.id) f on f > n.id where n.id > 5;
select g, n.id from fi_names n, fi_limited(n.id) f(g) where n.id > 5 order by 2;
select f.f from fi_names n join lateral fi_limited(n.id) f on f.f < 100 where n.id > 5 order by 1;
select * from fi_limited(9), fi_limited(10) t(u);
select fi_total(5);
select fi_total(5) as t, fi_narrow(6), fi_total(null);
select fi_narrow(7), fi_all(), fi_volatile(3);
select fi_total(id), id from fi_names where id < 6 order by id;
select n.id, fi_total(n.id) from fi_names n where fi_total(n.id) > 2500 order by 1;
select n.id, fi_volatile(n.id) from fi_names n where n.id in (1, 2, 3) order by 1;
select l.id, fi_total(l.of) from fi_local l order by 1;
select fi_first(4), fi_last(4), fi_last(4, 150), fi_last(4, 10000);
select fi_null(3), fi_null(3) is null;
select sum(fi_total(id)), max(id) from fi_names;
select fi_orders.id, fi_total(fi_orders.id) from fi_orders where customer = 3 order by 1;
select id, (select fi_total(n.id) from fi_names n where n.id = o.customer) from fi_orders o where customer = 7 order by 1;
select * from fi_rows(4) order by id;
select r.id, r.note from fi_rows(9) r where r.total > 200 order by 1;
select r.b from fi_rows(9) as r(a, b, c) order by 1;
select count(r) from fi_rows(9) r;
select * from fi_ids(3) order by 1;
select x from fi_ids(3) x order by 1;
select y.z from fi_ids(3) as y(z) order by 1;
select fi_ids from fi_ids(3) order by 1;
-- ordered
select * from fi_best(4);
-- ordered
select b.order_id, worth from fi_best(4, 2) b;
select n.id, b.* from fi_names n, fi_best(n.id, 1) b where n.id < 5 order by 1;
select n.id, b.worth from fi_names n left join lateral fi_best(n.id, 1) b on true where n.id < 5 order by 1;
select fi_with(3), fi_with(100);
select fi_twice(3);
select fi_of_name('name 4'), fi_of_name('nobody');
select n.name, fi_of_name(n.name) from fi_names n where n.id < 4 order by 1;
select fi_big(5), fi_big(5::smallint), fi_big(5000000000);
select fi_big(n.id) from fi_names n where n.id = 7;
select fi_total(n.limited) from fi_names n where n.id = 0;
select fi_total(5.5);
select fi_total('5');
select fi_total('five');
select fi_total(5::bigint);
select fi_since('2026-01-03'), fi_since(date '2026-01-04'), fi_since(timestamp '2026-01-05 10:00');
select fi_since(timestamptz '2026-01-05 10:00+00');
select fi_same(4);
select fi_strict(4);
select fi_again(4);
select fi_union from fi_union(4);
select count(*) from fi_orders where customer = 4 and total > fi_total(4) / 10;
select customer, sum(total) from fi_orders group by customer having sum(total) > fi_total(3) order by 1;
select fi_total(1, 2);
select fi_total();
with fi_orders as (select 5 as customer, 1 as id, 7 as total) select fi_total(5), count(*) from fi_orders;
with fi_orders(customer) as (select 5) select * from fi_ids(5), fi_orders order by 1;
with fi_names as (select 5.7 as id) select fi_total(n.id) from fi_names n;
with fi_names as (select 5::smallint as id) select fi_total(n.id) from fi_names n;
select fi_most(n.id) from fi_names n where n.id < 4 order by 1;
select n.id, fi_counted(n.id) from fi_names n where n.id < 4 order by 1;
select n.id, fi_over(n.id) from fi_names n where n.id < 4 order by 1;
select fi_most(6), fi_counted(6), fi_counted(null), fi_over(6);
select fi_none(4), fi_at(1, 0), fi_at(1, null) is null, fi_at(300, 1);
select fi_total(5)::int, coalesce(fi_total(5), 1), case when true then 1 else fi_total(5) end, fi_total(5) + 1;
select x.fi_total from (select fi_total(5)::text) x;
select * from fi_ids(3) as y(a, b);
select * from fi_best(4) as y(a, b, c);
select i.order_id, b.worth from fi_items i, fi_best(4, 1) b where i.order_id = 5 and i.n = 1 for update;
select l.id, x.x from fi_local l, fi_ids(3) as x(x) where l.id = 1 order by 2 limit 1 for update of x;
select fi_named(4) from (values (1)) v(c);
select fi_most(total) from fi_orders o where customer = 3 order by 1;
select fi_long('n5'), fi_long('n500');
-- params: 5
select fi_total($1::int);
-- params: 5, 1
select fi_total($1), o.id from fi_orders o where o.customer = $2::int order by 2 limit 2;
-- rows vary
explain (costs off) select 1 where 1 = fi_total(5);
begin;
insert into fi_orders values (5, 9005, 100000, 'new');
select fi_total(5), fi_all();
rollback;
prepare fi_p as select fi_total($1);
execute fi_p(3);
execute fi_p(4);
deallocate fi_p;
alter table fi_orders rename column total to amount;
select fi_total(5) as renamed;
alter table fi_orders rename column amount to total;
select fi_total(5);
create or replace function fi_total(p_customer int) returns bigint language sql stable as 'select -sum(total) from fi_orders where customer = p_customer';
select fi_total(5);
create or replace function fi_total(p_customer int) returns bigint language sql stable as 'select sum(total) from fi_orders where customer = p_customer';
select fi_total(5);
--! teardown
drop table fi_orders, fi_items, fi_names, fi_local cascade;
drop function fi_limited, fi_total, fi_narrow, fi_all, fi_volatile, fi_first, fi_last, fi_ids, fi_best, fi_with, fi_twice, fi_of_name, fi_strict, fi_big, fi_since, fi_same, fi_null, fi_union, fi_again, fi_most, fi_counted, fi_over, fi_none, fi_at, fi_named, fi_long;
