-- Views over distributed and local tables, which only home has.
--! teardown
drop table if exists mv_a, mv_b, mv_r, mv_l, mv_s cascade;
drop schema if exists mv_room cascade;
--! setup
create table mv_a (k integer primary key, v integer, t text);
create table mv_b (k integer primary key, w text);
create table mv_r (id integer primary key, n text);
create table mv_l (id integer primary key, m text);
create table mv_s (k integer, n integer);
--! distribute mv_a k
--! distribute mv_b k
--! reference mv_r
insert into mv_a select i, i % 7, 't' || i % 5 from generate_series(1, 40) i;
insert into mv_b select i, 'w' || i % 4 from generate_series(1, 30) i;
insert into mv_r select i, 'n' || i from generate_series(0, 9) i;
insert into mv_l select i, 'm' || i from generate_series(0, 5) i;
--! reset
drop view if exists mv_join, mv_names, mv_both, mv_over, mv_some, mv_walk, mv_turns cascade;
drop schema if exists mv_room cascade;
delete from mv_s;
--! tests
create view mv_join as select a.k, a.v, l.m from mv_a a join mv_l l on l.id = a.v;
select count(*), sum(k), max(m) from mv_join;
select * from mv_join where k = 4;
-- params: 9
select m from mv_join where k = $1;
select j.k, j.m, b.w from mv_join j join mv_b b using (k) where j.k < 9;
select m, count(b.k) from mv_join j left join mv_b b on b.k = j.v group by m;
select x.key, x.* from mv_join as x (key) where key < 4;
-- rows as a whole
select row_to_json(j)::text from mv_join j where j.k < 9 order by j.k;
select count(j), count(j.*), min(j::text), bool_and(j is not null) from mv_join j;
select (j).m, row(j.*)::text from mv_join j where k = 4;
-- ordered
select j.k from mv_join j where k < 9 order by j desc;
select count(*) from mv_join j join mv_join o using (k) where j = o and j is not distinct from o and not j < o;
select k from mv_a where k < 9 and exists (select j from mv_join j where j.k = mv_a.k);
select jsonb_build_object('j', j, 'k', k) from mv_join j where k = 4;
select pg_typeof(j) from mv_join j where k = 4;
select j from mv_join j where k = 4;
select * from mv_join tablesample system (100);
create view mv_arrays as select a.k, u.n, u.t from mv_a a join mv_l l on l.id = a.v, lateral unnest(array[a.k, l.id], array[a.t, l.m]) with ordinality as u (n, t, at) where u.at > 1;
select count(*), sum(n), max(t) from mv_arrays;
drop view mv_arrays;
create view mv_names (x, y) as select id, m from mv_l union all select k, t from mv_a;
select * from mv_names where x < 4;
select y, count(*) from mv_names group by y having count(*) > 1;
create view mv_both as select (select count(*) from mv_l) as here, (select count(*) from mv_a) as there;
select * from mv_both;
create view mv_over as select j.*, r.n from mv_join j left join mv_r r on r.id = j.v;
select count(*), max(n) from mv_over;
select * from mv_over where k = 8;
create view mv_some as select * from mv_a where exists (select 1 from mv_l where id = mv_a.v and m <> 'm3');
select count(*) from mv_some;
select * from mv_some a join mv_some b using (k) where a.k < 6;
create recursive view mv_walk (n) as select k from mv_a where k = 1 union all select n + 1 from mv_walk where n in (select id from mv_l);
select * from mv_walk;
select * from mv_a where k in (select k from mv_join where m = 'm2');
with j as (select * from mv_join) select count(*) from j, mv_l where j.v = mv_l.id;
insert into mv_s select k, v from mv_join where m = 'm1';
update mv_s set n = j.k from mv_join j where j.k = mv_s.k and j.k > 20;
delete from mv_s using mv_over o where o.k = mv_s.k and o.n is null;
select * from mv_s;
comment on view mv_join is 'of both';
alter view mv_join rename column m to word;
select max(word) from mv_join;
select max(m) from mv_join;
select count(*) from mv_over;
create schema mv_room;
alter view mv_join set schema mv_room;
select count(*) from mv_room.mv_join;
select count(*) from mv_join;
create view mv_turns as select k, v from mv_a;
create or replace view mv_turns as select a.k, l.id as v from mv_a a join mv_l l on l.id = a.k;
select count(*) from mv_turns;
create or replace view mv_turns as select k, v from mv_a where k < 10;
select count(*) from mv_turns;
create or replace view mv_turns as select id as k, id as v from mv_l;
select count(*) from mv_turns;
drop view mv_room.mv_join;
drop view mv_room.mv_join cascade;
select count(*) from mv_over;
-- what nobody writes through
begin;
update mv_some set t = 'x' where k = 1;
rollback;
begin;
update mv_some set t = set_config('work_mem', '4MB', true) where k = 1;
rollback;
begin;
delete from mv_some;
rollback;
create view mv_join as select * from mv_a where k in (select id from mv_l) with check option;
