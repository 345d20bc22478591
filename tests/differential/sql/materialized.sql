-- Materialized views over distributed tables: made, read, joined, indexed, refreshed (CONCURRENTLY, too), and what depends on them.
--! teardown
drop materialized view if exists mv_sum, mv_cols, mv_join, mv_empty, mv_of, mv_with, mv_coll, mv_late, mv_up, mv_in cascade;
drop view if exists mv_view;
drop table if exists mv_a, mv_b, mv_r, mv_l cascade;
drop schema if exists mv_s cascade;
--! setup
create table mv_a (k integer primary key, v integer, t text, n numeric(8,2), c char(4), z text collate "C");
create table mv_b (k bigint, x integer);
create table mv_r (code integer primary key, label varchar(9));
create table mv_l (id integer primary key, t text);
create schema mv_s;
--! distribute mv_a k
--! distribute mv_b k
--! reference mv_r
insert into mv_a select i, i % 7, 't' || i % 5, i / 4.0, 'c' || i % 3, chr(65 + i % 26 + 32 * (i % 2)) from generate_series(1, 60) i;
insert into mv_b select i, i % 5 from generate_series(1, 30) i;
insert into mv_r select i, 'l' || i from generate_series(0, 6) i;
insert into mv_l select i, 't' || i from generate_series(0, 4) i;
create view mv_view as select k, v from mv_a where v > 1;
--! tests
create materialized view mv_sum as select v, count(*) as n, sum(k) as s, avg(n) as a from mv_a group by v;
select * from mv_sum;
select s.v, s.n, r.label from mv_sum s join mv_r r on r.code = s.v;
select a.k, s.n from mv_a a join mv_sum s on s.v = a.v where a.k < 9;
create unique index mv_sum_v on mv_sum (v);
insert into mv_a values (1000, 3, 'new', 1.5, 'x', 'z');
select n from mv_sum where v = 3;
refresh materialized view mv_sum;
select n from mv_sum where v = 3;
delete from mv_a where v = 0;
refresh materialized view concurrently mv_sum;
select * from mv_sum;
-- message varies
create materialized view mv_sum as select k from mv_a;
create materialized view if not exists mv_sum as select k from mv_a;
create materialized view mv_cols (a, "B b", c) as select k, v, v from mv_a where k < 10;
select "B b", a, c from mv_cols;
create materialized view mv_coll as select z, c, n, 'lit' as u, k::bigint as b from mv_a;
-- ordered
select * from mv_coll order by z, n limit 20;
select attname, format_type(atttypid, atttypmod), attcollation::regcollation from pg_attribute where attrelid = 'mv_coll'::regclass and attnum > 0;
create materialized view mv_join as select a.k, b.x, r.label, l.t from mv_a a left join mv_b b on b.x = a.v left join mv_r r on r.code = b.x left join mv_l l on l.id = a.v where a.k < 20;
select count(*), sum(k), max(label), count(t) from mv_join;
create materialized view mv_empty as select k, t from mv_a where k > 5 with no data;
-- message varies
select * from mv_empty;
refresh materialized view mv_empty;
select count(*) from mv_empty;
refresh materialized view mv_empty with no data;
-- message varies
select count(*) from mv_empty;
refresh materialized view mv_empty;
create materialized view mv_of as select v, count(*) from mv_view group by 1;
select * from mv_of;
create materialized view mv_with as with x as (select k, v from mv_a where v < 4), y as (select v, max(k) as k from x group by v) select x.v, x.k from x join y using (k) order by 1 limit 3;
-- ordered
select * from mv_with order by 1;
create materialized view mv_s.mv_in as select t, min(k) from mv_a group by t having count(*) > 2 union select 'b', x from mv_b;
select count(*), max(min) from mv_s.mv_in;
refresh materialized view mv_s.mv_in;
select matviewname, ispopulated, hasindexes from pg_matviews where matviewname like 'mv\_%' order by 1;
-- message varies
drop table mv_b;
alter table mv_a rename column v to vv;
alter table mv_b rename to mv_bb;
refresh materialized view mv_sum;
refresh materialized view mv_join;
select * from mv_sum;
select count(*) from mv_join;
alter table mv_bb rename to mv_b;
alter table mv_a rename column vv to v;
alter table mv_a add column more integer default 3;
refresh materialized view mv_sum;
alter materialized view mv_sum rename to mv_up;
refresh materialized view mv_up;
select count(*) from mv_up;
alter materialized view mv_up rename to mv_sum;
-- message varies
alter table mv_a drop column n;
-- message varies
refresh materialized view mv_nowhere;
-- plain refuses
refresh materialized view mv_a;
-- message varies
refresh materialized view concurrently mv_cols;
-- message varies
create materialized view mv_late as select k / (k - 20) as d from mv_a;
-- message varies
select * from mv_late;
-- message varies
create materialized view mv_late as select nowhere from mv_a;
begin;
create materialized view mv_late as select k, v from mv_a where k <= 10;
insert into mv_a values (-1, 2, 'inside', 0, '', '');
refresh materialized view mv_late;
select count(*), min(k) from mv_late;
rollback;
-- message varies
select * from mv_late;
begin isolation level repeatable read;
select count(*) from mv_a;
refresh materialized view mv_cols;
select count(*) from mv_cols;
commit;
-- message varies
insert into mv_sum values (1);
-- message varies
update mv_a set v = s.n from mv_sum s where false and s.v = mv_a.v returning 1;
drop materialized view mv_coll, mv_cols;
drop table mv_b cascade;
-- message varies
select * from mv_join;
