-- Outer joins that keep rows of reference tables: nodes aggregate what they have, where aggregates don't notice rows that are padded
-- with NULLs on more than one node. Rows that come home are those that have a partner among a reference table's needed rows.
--! teardown
drop view if exists or_v, or_v_twice, or_v_apart;
drop table if exists or_d, or_e, or_p, or_r, or_s cascade;
--! setup
create table or_r (id integer primary key, label text, n numeric(8,2), day date, u uuid);
create table or_s (code integer primary key, label text);
create table or_d (k integer primary key, r integer, x integer, f double precision, q numeric, t text, b boolean, day date, u uuid);
create table or_e (k integer, r bigint, y integer, primary key (k, y));
create table or_p (k integer, r integer, y integer);
--! distribute or_d k
--! distribute or_e k colocate_with => 'or_d'
--! distribute or_p y colocate_with => 'none'
--! reference or_r
--! reference or_s
create view or_v_twice as select d.x from or_d d where d.x not in (select e.r from or_d e where e.k > 20 and e.r > 3);
create view or_v_apart as select d.x, p.y from or_d d join or_p p on p.k = d.x group by d.x, p.y having count(*) > 0;
create view or_v as select id, label from or_r where n > 2;
insert into or_r select i, case when i % 3 > 0 then 'l' || i % 4 end, i / 2.0, date '2024-01-01' + i, lpad(i::text, 32, '0')::uuid from generate_series(1, 12) i;
insert into or_s select i, 's' || i from generate_series(0, 6) i;
-- Ten has one row, eleven one of NULLs, twelve none.
insert into or_d select i, i % 9, nullif(i % 5, 0), i / 8.0, case when i % 6 > 0 then i * 1.5 end, case when i % 7 <> 0 then 't' || i % 4 end, nullif(i % 4, 0) > 1, date '2024-01-01' + i % 9, lpad((i % 9)::text, 32, '0')::uuid from generate_series(1, 60) i;
insert into or_d values (61, 10, 7, 1, 2, 'only', true), (62, 11, null, null, null, null, null);
insert into or_e select i % 20, i % 7, i from generate_series(1, 40) i;
insert into or_p select i, i % 8, nullif(i % 6, 0) + 10 * i from generate_series(1, 50) i;
--! tests
select r.id, count(d.x), sum(d.x), avg(d.x), min(d.t), max(d.k), bool_or(d.b), bool_and(d.b), bit_or(d.x) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select r.label, count(d.k), sum(d.q), avg(d.q) from or_r r left join or_d d on d.r = r.id and d.x > 2 group by r.label order by 1;
select r.label, r.id % 2, count(d.k) as n from or_d d right join or_r r on d.r = r.id where r.n > 1 group by 1, 2 having count(d.k) > 3 order by n, 1, 2;
select r.id, count(*) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select r.id, count(r.id), sum(r.n) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select r.id, min(r.n), max(r.label), bool_or(r.id > 3), sum(d.x) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select min(r.n), max(d.x), count(d.x) from or_r r left join or_d d on d.r = r.id;
select count(d.k), sum(d.x), avg(d.f) from or_r r left join or_d d on d.r = r.id where r.id > 10;
select count(d.k), sum(d.x) from or_r r left join or_d d on d.r = r.id where r.id > 11;
select count(d.k), sum(d.x) from or_r r left join or_d d on d.r = r.id where r.id > 12;
select r.id, sum(coalesce(d.x, 1)), min(coalesce(d.x, -5)) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select r.id, sum(case when d.x is null then 1 else 0 end) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select r.id, sum(d.x + r.id), sum(d.x * 2), count(d.x::bigint), sum(d.x::numeric + 1) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select r.id, count(d.x) filter (where d.t like 't%'), min(r.n) filter (where d.k is null), sum(d.x) filter (where r.n > 2) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select r.id, count(distinct d.x), min(distinct d.x), string_agg(d.t, ',' order by d.k) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select d.t, count(d.k) from or_r r left join or_d d on d.r = r.id group by d.t order by 1;
select coalesce(d.t, r.label), count(d.k) from or_r r left join or_d d on d.r = r.id group by 1 order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id where d.k is null group by r.id order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id where d.x > 2 or d.x is null group by r.id order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id where d.x > 2 group by r.id order by 1;
select r.id, d.k, d.x from or_r r left join or_d d on d.r = r.id where d.x = 3 order by 1, 2;
select r.id, count(*) from or_r r left join or_d d on d.r = r.id where d.x = 3 group by 1 order by 1;
select r.id, count(*) from or_r r left join or_d d on d.r = r.id where d.r = r.id group by 1 order by 1;
select r.id, s.label, count(d.k), sum(d.x) from or_r r left join or_d d on d.r = r.id left join or_s s on s.code = d.x group by r.id, s.label order by 1, 2;
select r.id, count(d.k), count(s.code) from or_r r left join or_d d on d.r = r.id left join or_s s on s.code = d.x group by r.id order by 1;
select r.id, count(d.k), max(s.code) from or_r r left join or_d d on d.r = r.id left join or_s s on s.code = r.id % 7 group by r.id order by 1;
select r.id, count(d.k), sum(e.y), count(e.y) from or_r r left join or_d d on d.r = r.id left join or_e e on e.k = d.k group by r.id order by 1;
select r.id, count(d.k), sum(e.y) from or_r r left join or_d d on d.r = r.id left join or_e e on e.k = d.k and e.y > 20 group by r.id order by 1;
select r.id, count(d.k), sum(e.y) from or_r r left join or_d d on d.r = r.id left join or_e e on e.r = d.r group by r.id order by 1;
select r.id, count(d.k), sum(p.y) from or_r r left join or_d d on d.r = r.id left join or_p p on p.r = d.k group by r.id order by 1;
select r.id, count(d.k) from or_r r left join (or_d d join or_s s on s.code = d.x) on d.r = r.id group by r.id order by 1;
select r.id, count(x.k), sum(x.code) from or_r r left join (select d.k, d.r, s.code from or_d d left join or_s s on s.code = d.x) x on x.r = r.id group by r.id order by 1;
select r.id, s.code, count(d.k) from or_r r cross join or_s s left join or_d d on d.r = r.id and d.x = s.code group by r.id, s.code order by 1, 2;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id, or_s s where s.code < 3 group by r.id order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id join or_s s on s.code = d.x group by r.id order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id full join or_s s on s.code = r.id group by r.id order by 1;
select r, count(x) from or_r join or_s on code = id left join or_d using (label) group by r order by 1;
select day, count(d.k), sum(d.x) from or_r r left join or_d d using (day) group by day order by 1;
select n, count(*) from (select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id and d.t not like '%1%' group by r.id) x(id, n) group by n order by 1, 2;
select r.id, l.rx, count(l.k), count(l.rx) from or_r r left join lateral (select r.id as rx, d.k from or_d d where d.r = r.id) l on true group by r.id, l.rx order by 1, 2;
select r.id, sum(l.rx) from or_r r left join lateral (select r.id as rx, d.k from or_d d where d.r = r.id) l on true group by r.id order by 1;
select distinct r.id, count(d.k) over () from or_r r left join or_d d on d.r = r.id order by 1;
select r.id, count(d.k), count(d.k) filter (where exists (select from or_s s where s.code = d.x)) from or_r r left join or_d d on d.r = r.id group by r.id order by 1;
select grouping(r.id), r.id, count(d.k) from or_r r left join or_d d on d.r = r.id group by rollup (r.id) order by 1, 2;
select g, count(d.k), sum(d.x) from generate_series(1, 12) g left join or_d d on d.r = g group by g order by 1;
select g, count(d.k), sum(g) from generate_series(1, 12) g left join or_d d on d.r = g group by g order by 1;
select v.a, count(d.k) from (values (1), (2), (11), (12), (99)) v(a) left join or_d d on d.r = v.a group by v.a order by 1;
with c as (select id from or_r where n > 2) select c.id, count(d.k) from c left join or_d d on d.r = c.id group by c.id order by 1;
select v.id, count(d.k), max(v.label) from or_v v left join or_d d on d.r = v.id group by v.id order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id and random() < 2 group by r.id order by 1;
select (select count(d.k) from or_s s left join or_d d on d.x = s.code where s.code > r.id) from or_r r order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id group by r.id union all select code, 0 from or_s order by 1, 2;
-- What padded rows find of a second reference table is not what they should find.
select s.label, count(d.k) from or_r r left join or_d d on d.r = r.id and d.x = 3 and d.k < 10 left join or_s s on s.code = d.x where r.id = 8 group by s.label order by 1;
select r.id, count(d.k) from or_r r left join or_d d on d.r = r.id left join or_s s on s.code = d.x where s.code is null group by r.id order by 1;
select r.id, min(s.code), max(s.label) from or_r r left join or_d d on d.r = r.id left join or_s s on s.code = coalesce(d.x, 0) group by r.id order by 1;
select r.id, count(s.code), sum(s.code) from or_r r left join or_d d on d.r = r.id left join or_s s on s.code = coalesce(d.x, 0) group by r.id order by 1;
select r.id, count(d.k), min(z.label) from or_s x right join (or_r r left join or_d d on d.r = r.id) on x.code = d.x left join lateral (select s.label from or_s s where s.code = coalesce(d.x, 1)) z on true group by r.id order by 1;
-- Conditions of other levels and names of other things are no conditions of the rows that come home.
select d.k from or_d d join or_p p on p.r = d.x where not exists (select from or_s s where d.r in (select r.id from or_r r where r.label = 'l1')) order by 1, p.k;
select d.k, (select count(*) from or_s where d.r in (select r.id from or_r r where r.label = 'l1')) from or_d d join or_p p on p.r = d.x order by 1, p.k;
select d.k, z.* from or_d d join or_p p on p.r = d.x left join lateral (select s.code from or_s s where s.code = 2 and d.r in (select r.id from or_r r where r.label = 'l1')) z on true order by 1, p.k;
with or_r as (select code as id, 'l1' as label, 1 as n, null::date as day, null::uuid as u from or_s) select d.k, p.y from or_d d join or_p p on p.r = d.x join or_r on or_r.id = d.r where or_r.label = 'l1' order by 1, 2;
select d.k, p.y from or_d d join or_p p on p.r = d.x join or_r on or_r.id = d.r where not exists (select 1 from (or_r join or_s on or_s.code = or_r.id and or_r.label = 'l1') as j where j.code = p.k) order by 1, 2;
update or_d d set q = 5 from or_p p where p.r = d.x and not exists (select from or_s where p.k in (select id from or_r where label = 'l1')) returning d.k;
delete from or_p p using or_d d where p.r = d.x and p.k > 45 and not exists (select from or_s where d.r in (select id from or_r where label = 'l1')) returning d.k > 0;
-- Views that are taken apart are asked for their right in what is read before: that is not to be planned over and over.
select * from or_v_twice order by 1;
select from or_v_twice;
select count(*) from or_v_apart;
-- What is not looked at does not fail.
select k, case when k < 0 then (select 100 / count(*) from or_p where k < 0) end from or_d order by 1;
select count(*) from or_d where k < 0 and x = (select 1 / count(*) from or_p where k < 0);
select count(*) from or_d where x = (select 1 / count(*) from or_p where k < 0);
-- A partner's rows.
select sum(p.y) from or_p p, or_r r where r.id = p.r and r.label = 'l1' and p.y < (select avg(q.y) + 100 from or_p q where q.r = r.id);
select r.id, (select count(*) from or_p p where p.r = r.id) from or_r r where r.label = 'l2' order by 1;
select r.id, (select max(d.k) from or_d d join or_p p on p.k = d.r where d.r = r.id) from or_r r where r.id in (2, 5, 8, 12) order by 1;
select d.k, p.y from or_d d join or_p p on p.r = d.x join or_r r on r.id = d.r where r.id < 4 order by 1, 2;
select d.k, p.y, r.label from or_d d join or_p p on p.r = d.x left join or_r r on r.id = d.r and r.id < 4 order by 1, 2;
select d.k, p.y, r.label from or_r r left join or_d d on d.r = r.id left join or_p p on p.r = d.x where r.label > 'l1' order by 1, 2, 3;
select r.id, d.k from or_r r full join or_d d on d.r = r.id and r.id = 3 join or_p p on p.r = d.x where p.y > 30 order by 1, 2, p.y;
select d.k from or_d d join or_p p on p.r = d.x where d.r not in (select r.id from or_r r where r.label = 'l1') order by 1;
select d.k from or_d d join or_p p on p.r = d.x where d.r in (select r.id from or_r r where r.label = 'l1') order by 1;
select d.k from or_d d join or_p p on p.r = d.x where not exists (select from or_r r where r.id = d.r and r.label = 'l1') order by 1;
select d.k from or_d d join or_p p on p.r = d.x join (select id from or_r where n > 2 order by id limit 2) r on r.id = d.r order by 1;
select d.k, p.y from or_d d join or_p p on p.r = d.x join or_v v on v.id = d.r where v.label = 'l2' order by 1, 2;
select d.k, p.y from or_d d join or_p p on p.r = d.x join or_r r using (u) where r.id between 2 and 3 order by 1, 2;
select d.k, p.y from or_d d join or_p p on p.r = d.x join or_r r using (day) where r.id = 4 order by 1, 2;
select d.k, p.y from or_d d join or_p p on p.r = d.x join or_s s on s.label = d.t where s.code = 4 order by 1, 2;
-- Of a subquery that is asked for any of its rows, rows of the same values come once; subqueries run before.
select r.id from or_r r where not exists (select * from or_p p where p.r = r.id) order by 1;
select r.id from or_r r where exists (select * from or_p p join or_d d on d.k = p.k where p.r = r.id and d.x > r.id) order by 1;
select r.id from or_r r where r.id not in (select d.r from or_d d join or_p p on p.r = d.x where d.t like 't%') order by 1;
select r.id from or_r r where r.id <> all (select p.r from or_p p where p.y > 40) and exists (select from or_e) order by 1;
select r.id, r.id in (select p.r from or_p p where p.k > 44), exists (select from or_p where y > 1000) from or_r r order by 1;
select d.k from or_d d where exists (select from or_p p left join or_r r on r.id = p.r where p.k = d.x and r.n is null) order by 1;
select d.k from or_d d where d.t in (select e.t from or_d e join or_p p on p.r = e.r where e.x = 3) and d.f = any (select f.f from or_d f where f.q > 30) order by 1;
select r.id from or_r r where r.label in (select t from or_d union all select 'l1') or exists (select 1 from or_p p where p.r = r.id limit 1) order by 1;
select count(*), min(k) from or_p where y > (select avg(y) from or_p);
select r, count(*) from or_p group by r having count(*) > (select count(*) / 10 from or_p where y < 400) order by 1;
select r, sum(y) - (select min(y) from or_p), (select max(label) from or_r) from or_p group by r order by 1;
select k from or_d where (r, x) in (select p.r, p.r % 5 from or_p p where p.y > 200) order by 1;
select k from or_d where x in (select r from or_p order by y desc limit 3) order by 1;
select d.k from or_d d join or_p p on p.k = d.r where p.y > (select avg(y) from or_p) and d.q < (select max(q) from or_d) order by 1;
select s.code from or_s s where s.code in (select p.r from or_p p where p.k in (select r.id from or_r r where r.label like 'l%') and p.y > (select 0.5 * sum(d.x) from or_d d where d.r = p.k)) order by 1;
select r.id from or_r r where r.id in (select s.code from or_s s where s.label > 's1') and r.n < (select sum(p.y) from or_p p where p.r = r.id) order by 1;
with s as (select code as id from or_s where code < 5) select r.id from or_r r where r.id in (select id from s) and r.n < (select sum(p.y) from or_p p where p.r = r.id) order by 1;
update or_d d set x = r.id + 100 from or_p p, or_r r where p.r = d.x and r.id = d.r and r.label = 'l1' returning d.k, r.id;
delete from or_p p using or_d d, or_r r where p.r = d.x and r.id = p.r and r.n > 3 returning r.id;
select count(*), sum(x) from or_d;
select count(*), sum(y) from or_p;
