-- PL/pgSQL functions that return one query over distributed tables at once, and functions that are given what they do not read.
--! setup
create table fr_orders (customer int, id int, total int, note text, primary key (customer, id));
create table fr_names (id int primary key, name varchar(20), limited bigint);
create table fr_local (id int primary key, of int);
create table fr_empty (id int, v bigint);
--! distribute fr_orders customer
--! distribute fr_empty id
--! reference fr_names
insert into fr_orders select g % 23, g, g * 3, 'n' || g from generate_series(1, 200) g;
insert into fr_names select g, 'name ' || g, nullif(g * 7, 0) from generate_series(0, 22) g;
insert into fr_local select g, g % 5 from generate_series(1, 20) g;
create function fr_all(i int) returns bigint language sql stable as 'select count(*) from fr_orders';
create function fr_count(i int) returns bigint language plpgsql stable as 'begin return (select count(*) from fr_orders); end';
create function fr_of(p_customer int) returns bigint language plpgsql stable as
  'begin return (select sum(total) from fr_orders where customer = p_customer); end';
create function fr_own(p_customer int) returns bigint language plpgsql stable as
  'begin return (select sum(o.total) from fr_orders o where o.customer = fr_own.p_customer); end';
create function fr_numbered(int) returns bigint language plpgsql stable as
  'begin return (select count(*) from fr_orders where customer = $1); end';
create function fr_volatile(c int) returns bigint language plpgsql as 'begin return (select count(*) from fr_orders where fr_orders.customer = c); end';
create function fr_some(c int, low int default 150) returns text language plpgsql stable as
  'begin return (select o.note from fr_orders o where o.customer = c and o.id > low order by o.id limit 1); end';
create function fr_several(c int) returns text language plpgsql stable as
  'begin return (select o.note from fr_orders o where o.customer = c); end';
create function fr_exists(c int) returns boolean language plpgsql stable as
  'begin return exists (select from fr_orders where fr_orders.customer = c); end';
create function fr_or_zero(c int) returns bigint language plpgsql stable as
  'begin return coalesce((select sum(o.total) from fr_orders o where o.customer = c), 0); end';
create function fr_narrow(c int) returns int language plpgsql stable as
  'begin return (select sum(o.total) from fr_orders o where o.customer = c); end';
create function fr_clash(customer int) returns bigint language plpgsql stable as
  'begin return (select count(*) from fr_orders where customer = customer); end';
create function fr_strict(c int) returns bigint language plpgsql stable strict as 'begin return (select count(*) + 5 from fr_orders); end';
create function fr_two(c int) returns bigint language plpgsql stable as
  'declare n bigint; begin n := (select count(*) from fr_orders where fr_orders.customer = c); return n; end';
create function fr_word(t text, n numeric) returns bigint language sql stable as 'select count(*) from fr_orders';
create function fr_found(i int) returns bigint language plpgsql stable as
  'begin return (select count(*) from fr_orders where found); end';
create function fr_none(i int) returns bigint language plpgsql stable as 'begin return (select v from fr_empty); end';
create function fr_rows(c int) returns setof int language plpgsql stable as
  'begin return query select o.id from fr_orders o where o.customer = c; end';
--! tests
select fr_all(5), fr_count(5), fr_count(null), fr_none(1);
select fr_of(5), fr_own(6), fr_numbered(7), fr_volatile(8), fr_of(null), fr_of(-1);
select fr_some(4), fr_some(4, 0), fr_some(4, 5000);
select fr_some(c => 4);
select fr_several(4);
select fr_several(-1);
select fr_exists(4), fr_exists(-4), fr_or_zero(3), fr_or_zero(-3);
select fr_narrow(3);
select fr_clash(3);
select fr_strict(3), fr_strict(null);
select fr_two(3);
select fr_found(3);
select fr_of(n.id), n.id from fr_names n order by 2;
select fr_count(n.id), fr_all(n.id * 2), n.id from fr_names n order by 3 limit 3;
select fr_all(abs(n.id) % 7), fr_count(length(n.name)) from fr_names n where n.id < 3;
select fr_all(o.total / (o.id - 7)) from fr_orders o where o.customer = 7;
select fr_all(o.id / (o.id - 8)) from fr_orders o where o.customer = 7 and o.id < 0;
select fr_count(o.total / 0) from fr_empty e join fr_orders o on o.customer = e.id;
select count(fr_count(o.id + o.total)), max(fr_all(o.id)) from fr_orders o;
-- message varies
select fr_all(n.limited) from fr_names n;
select fr_all('5'), fr_count('five');
-- message varies
select fr_all(5.5);
select fr_all(n.limited::int) from fr_names n where n.id in (0, 1) order by n.id;
select fr_all(l.of), l.id from fr_local l order by 2;
select fr_all(count(*)::int) from fr_orders;
select fr_all((count(*) / (count(*) - 200))::int) from fr_orders;
select customer, fr_all(max(id)) from fr_orders group by customer order by 1 limit 3;
select fr_all(customer), count(*) from fr_orders group by fr_all(customer);
select fr_all(generate_series(1, 3));
select fr_all((select max(id) from fr_names));
select fr_word('a', 1), fr_word(n.name, n.limited), fr_word(null, null) from fr_names n where n.id = 3;
-- message varies
select fr_word(5, 1);
select fr_all(fr_count(3)::int), fr_all(fr_all(1)::int);
select n.id from fr_names n where fr_of(n.id) > 2500 order by 1;
select * from fr_of(5);
select x from fr_of(5) x;
select n.id, f from fr_names n, fr_of(n.id) f where n.id < 4 order by 1;
select * from fr_all(5);
select exists (select from fr_orders), exists (select from fr_orders where customer = 5), exists (select from fr_empty);
select * from fr_rows(5) order by 1;
-- params: 5
select fr_of($1), fr_all($1);
-- params: 5
select fr_count($1::int), fr_or_zero($1::int);
begin;
insert into fr_orders values (5, 9005, 100000, 'new');
select fr_of(5), fr_count(5);
savepoint s;
delete from fr_orders where customer = 5;
select fr_of(5), fr_count(5);
rollback to s;
select fr_of(5), fr_count(5);
rollback;
create table fr_made as select n.id, fr_of(n.id), fr_all(n.id) as a, fr_exists(n.id) from fr_names n;
select * from fr_made order by 1;
create table fr_counts (n, m) as select fr_count(1), fr_volatile(3) with no data;
insert into fr_counts select fr_count(1), fr_volatile(3);
insert into fr_counts values (1, fr_all(2));
select * from fr_counts order by 1;
select fr_some(4) as some, fr_of(3) into fr_into;
select * from fr_into;
create temp table fr_temp as select fr_of(5) as five;
create table if not exists fr_made as select fr_of(5);
create table fr_wrong as select fr_two(3);
drop table fr_made, fr_counts, fr_into;
create or replace function fr_of(p_customer int) returns bigint language plpgsql stable as 'begin return (select min(total)::bigint from fr_orders where customer = p_customer); end';
select fr_of(5);
create or replace function fr_of(p_customer int) returns bigint language plpgsql stable as
  'begin begin return (select -sum(total) from fr_orders where customer = p_customer); exception when others then return 1; end; end';
select fr_of(5) as caught;
create or replace function fr_of(p_customer int) returns bigint language plpgsql stable as
  'begin return (select sum(total) from fr_orders where customer = p_customer); end';
--! teardown
drop table fr_orders, fr_names, fr_local, fr_empty cascade;
drop function fr_all, fr_count, fr_of, fr_own, fr_numbered, fr_volatile, fr_some, fr_several, fr_exists, fr_or_zero, fr_narrow, fr_clash, fr_strict, fr_two, fr_word, fr_found, fr_none, fr_rows;
