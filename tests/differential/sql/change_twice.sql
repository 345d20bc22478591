-- One table changed by several parts of a statement: all see the rows as they were, and of one row only one change takes place.
--! setup
create table ct (id int primary key, n int, s text);
create table ct_two (a int, b text, n int, primary key (a, b));
create table ct_none (k int, n int);
create table ct_o (o int primary key, n int);
create table ct_ref (id int primary key, n int);
create view ct_view as select id, n from ct;
--! distribute ct id
--! distribute ct_two a
--! distribute ct_none k
--! distribute ct_o o colocate_with => 'none'
--! reference ct_ref
--! reset
truncate ct, ct_two, ct_none, ct_o, ct_ref;
insert into ct select i, i, 's' || i from generate_series(1, 20) i;
insert into ct_two select i, 'b' || i, i from generate_series(1, 10) i;
insert into ct_none select i, i from generate_series(1, 10) i;
insert into ct_o select i, i * 10 from generate_series(1, 10) i;
insert into ct_ref select i, i * 100 from generate_series(1, 5) i;
--! teardown
drop view if exists ct_view;
drop table if exists ct, ct_two, ct_none, ct_o, ct_ref;
--! tests
with u as (update ct set n = n + 100 where id < 5 returning id, n), d as (delete from ct where id > 17 returning id) select 'u' as w, id from u union all select 'd', id from d;
select * from ct;
with u as (update ct set n = 0 where id < 5 returning *) update ct set n = 1 from u where ct.id = u.id + 5 returning ct.*, u.id;
-- What the first one made is not seen by the second.
with u as (update ct set n = n + 1000 where id in (10, 11) returning id) update ct set s = 'seen' where n > 1000 and exists (select from u);
select * from ct;
with u as (update ct set n = n - 1000 where id in (10, 11) returning id, n) delete from ct where n < 0 or id = 12 and (select count(*) from u) = 2 returning *;
select * from ct;
-- A row that both would change.
with u as (update ct set n = 5 where id < 4 returning id) update ct set n = 6 where id < 6 and (select count(*) from u) > 0 returning id, n;
select * from ct where id < 7;
with u as (update ct set n = 7 where id < 4 returning id) delete from ct where id < 6 and (select count(*) from u) > 0 returning id, n;
select * from ct where id < 7;
with d as (delete from ct where id = 6 returning id) update ct set n = 7 where id between 6 and 8 and (select count(*) from d) = 1 returning id;
with d as (delete from ct where id = 7 returning id), e as (delete from ct where id in (7, 8) and exists (select from d) returning id) select d.id, e.id from d, e;
select * from ct;
with u as (update ct set n = 0 where id = 5), v as (delete from ct where id between 4 and 6 returning id) delete from ct where id = 4 returning id;
select * from ct where id < 8;
-- Keys that change.
with u as (update ct set id = id + 100 where id in (13, 14) returning id, n) update ct set n = -1 where id > 15 and exists (select from u) returning id, n;
with u as (update ct set id = id + 100 where id in (15, 113) returning id, n) update ct set n = -2 where id in (114, 115, 213) and exists (select from u) returning id, n;
select * from ct;
-- Three, with other tables, one of them without RETURNING.
with a as (update ct set n = 1 where id = 9 returning id), b as (update ct set n = 2 where id = 16 and exists (select from a) returning id), c as (delete from ct where id in (9, 16, 17) and exists (select from b) returning id) select a.id as a, b.id as b, c.id as c from a, b, c;
with u as (update ct set n = n + o.n from ct_o o where o.o = ct.id and ct.id < 11 returning ct.id, o.n), d as (delete from ct using ct_o o where o.n = ct.id and ct.id > 11 returning ct.id) select (select count(*) from u), (select count(*) from d);
with u as (update ct set n = 3 where id = 10), d as (delete from ct where id = 214 returning id) select * from d;
select * from ct;
with u as (update ct_two set n = -n where a < 4 returning a, b), d as (delete from ct_two where b > 'b7' returning *) select u.a, d.a from u, d;
with u as (update ct_two as t set b = b || 'x' where a < 4 returning *) update ct_two t set n = 50 where t.a in (select u.a + 3 from u) returning *;
select * from ct_two;
with u as (update ct set n = 8 where id = 10 returning id), r as (update ct_ref set n = n + 1 where id = 1 returning id) update ct_ref set n = 0 where id = 2 and exists (select from u);
with u as (update ct_none set n = 0 where k < 3 returning k), d as (delete from ct_none where k > 8 returning k) select * from d;
with u as (update ct_none set n = 0 where k < 3 returning k), v as (update ct_none set n = 1 where k > 8 returning k) select u.k, v.k from u, v;
with d as (delete from ct_none where k in (3, 4) returning k), e as (delete from ct_none where k > 8 returning k) select d.k, e.k from d, e;
select * from ct_none;
with u as (update ct set n = 1 where id = 10 returning id), m as (update ct set n = (select max(n) from ct) where id = 11 returning id, n) select * from u, m;
with u as (update ct_view set n = 1 where id = 10 returning id), d as (delete from ct where id = 11 returning id) select * from u, d;
-- params: 10, 77
with u as (update ct set n = $2 where id = $1 returning id, n), d as (delete from ct where id > $2 returning id) select (select n from u), (select count(*) from d);
select * from ct;
begin;
insert into ct select i, i, 'new' from generate_series(200, 204) i;
update ct set n = 0 where id = 200;
with u as (update ct set n = n + 1 where id = 200 returning id, n), v as (update ct set n = n + 2 where id in (201, 202) returning id, n) select * from u, v;
select * from ct where id >= 200;
rollback;
with u as (update ct set n = 'x' where id = 10 returning id), d as (delete from ct where id = 11 returning id) select * from u, d;
with u as (update ct set n = 1 / (n - n) where id = 10 returning id), d as (delete from ct where id = 11 returning id) select * from u, d;
-- plain refuses
with u as (update ct set n = 1 where id = 10), d as (delete from ct where id = 11 returning id) select * from u, d;
-- rows vary
explain (costs off) with u as (update ct set n = 1 where id < 10 returning id), d as (delete from ct where id = 11 returning id) select * from u, d;
select * from ct;
