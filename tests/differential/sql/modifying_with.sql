-- Data-modifying WITH over tables of several nodes, reference tables and local ones.
--! teardown
drop table if exists mw_log, mw_src, mw_dst, mw_child, mw_ref, mw_notes, mw_typed, mw_by_other cascade;
drop domain if exists mw_small;
--! setup
create table mw_src (id int primary key, grp int not null, v text, n numeric);
create table mw_dst (id int primary key, grp int, v text, n numeric default 7);
create table mw_log (id int primary key, what text, at int);
create table mw_child (id int, parent int, primary key (parent, id));
create table mw_by_other (k text, id int, primary key (k, id));
create table mw_ref (id int primary key, label text);
create table mw_notes (n int, remark text);
create domain mw_small as int check (value < 1000);
create table mw_typed (id int primary key, d mw_small, ts timestamptz, j jsonb, a int[], b bytea, f float8, arr text[], c char(5), e varchar(3));
--! distribute mw_src id
--! distribute mw_dst id colocate_with => 'mw_src'
--! distribute mw_log id
--! distribute mw_by_other k
--! distribute mw_child parent colocate_with => 'mw_src'
--! distribute mw_typed id
--! reference mw_ref
alter table mw_child add foreign key (parent) references mw_src (id);
--! reset
delete from mw_child; delete from mw_src; delete from mw_dst; delete from mw_log; delete from mw_ref; delete from mw_notes; delete from mw_typed; delete from mw_by_other;
insert into mw_src select i, i % 4, 'v' || i, i * 1.5 from generate_series(1, 40) i;
insert into mw_ref values (1, 'one'), (2, 'two'), (3, null);
insert into mw_notes values (1, 'a'), (2, 'b');
insert into mw_typed values (1, 10, '2024-02-29 12:00:00+00', '{"a": [1, null]}', '{1,null,3}', '\x00ff', 0.1, '{"a b",NULL,"c,d"}', 'ab', 'xyz'), (2, null, null, null, null, null, 'NaN', null, null, null);
--! tests
-- Rows that move.
with moved as (delete from mw_src where grp = 1 returning *) insert into mw_dst select * from moved;
select * from mw_dst;
select count(*), sum(id) from mw_src;
with moved as (delete from mw_dst where id < 10 returning id, v) insert into mw_log select id, v, 1 from moved returning id, what;
with moved (a, b) as (delete from mw_dst where id < 20 returning id, grp) insert into mw_by_other (id, k) select a, 'k' || b from moved;
select * from mw_by_other;
with ins as (insert into mw_dst (id, v) values (101, 'x'), (102, 'y'), (103, null) returning id, v, n) select * from ins;
with ins as (insert into mw_dst (id, v) values (104, 'x') returning id) select id + 1 as next, 'word' as word from ins;
-- ordered
with up as (update mw_src set v = v || '!' where grp = 2 returning id, v) select count(*), min(v), max(id) from up;
with up as (update mw_src set v = v || '?' where grp = 2 returning id, v) insert into mw_log select id, v, 2 from up where id > 20;
select * from mw_log;
-- The rows of one are what another, or several, read.
with d as (delete from mw_log where at = 2 returning id) select (select count(*) from d) as n, (select sum(id) from d) as s, a.id from d a join d b using (id);
with d as (delete from mw_dst where id > 100 returning *), l as (insert into mw_log select id, v, 3 from d returning id, at) select l.id, l.at, d.v from l join d on d.id = l.id;
with a as (insert into mw_dst (id, grp) values (201, 1), (202, 2) returning id, grp), b as (update mw_src set v = 'b' where id in (2, 3, 6) returning id), c as (delete from mw_log where at = 3 returning id) select 'a', id from a union all select 'b', id from b union all select 'c', id from c;
select * from mw_log;
-- They run although nobody names them, and to their end.
with d as (delete from mw_dst where id = 201) select 1;
select id from mw_dst where id > 200;
with i as (insert into mw_dst (id) select id from mw_src where id > 30 returning id) select count(*) from (select id from i order by id limit 2) s;
select count(*) from mw_dst where id > 30;
with i as (insert into mw_log values (301, 'i', 5), (302, 'j', 5)), u as (update mw_src set grp = 9 where id in (2, 3, 4)) delete from mw_dst where id > 30;
select id, grp from mw_src where grp = 9;
select * from mw_log;
-- What is read is as it was before.
with u as (update mw_src set n = 0 where id < 10 returning id) select id, n from mw_src where id < 12;
with d as (delete from mw_log where at = 5) select count(*) from mw_log;
select count(*) from mw_log;
with before as (select id, n from mw_src where id between 10 and 15), u as (update mw_src set n = -1 where id between 10 and 15 returning id, n) select before.id, before.n as was, u.n as now from before join u on u.id = before.id;
with u as (update mw_src set n = -2 where id between 10 and 15 returning id) select s.id, s.n from mw_src s join u on u.id = s.id;
with u as (update mw_src set n = -2 where id between 10 and 15 returning id) select s.id, s from mw_src s join u on u.id = s.id;
with u as (update mw_src set n = -2 where id between 10 and 15 returning id) select s.id, s.tableoid > 0 as found from mw_src s join u on u.id = s.id;
with u as (update mw_src set n = -2 where id between 10 and 15 returning id) select s.id, s.v from mw_src s join u on u.id = s.id group by s.id;
-- A table beside the rows that its own change returns.
with u as (update mw_src set n = n - 1 where id between 10 and 15 returning id, n) select s.*, u.n as now from mw_src s join u on u.id = s.id;
with u as (update mw_src set n = n - 1 where id between 10 and 15 returning id, n) select id, mw_src.n, u.n as now, v from mw_src join u using (id) where grp > 1;
with u as (update mw_src set n = 0 where id between 16 and 18 returning id) select count(*), sum(n) from mw_src where n > (select count(*) from u);
with u as (update mw_src set n = 0 where id between 16 and 18 returning id), of_u as (select s.id, s.n from mw_src s join u on u.id = s.id) select count(*), sum(n) from of_u;
with u as (update mw_src set n = 1 where id between 16 and 18 returning id) select a.id, b.id as other, a.n from u join mw_src a using (id) left join mw_src b on b.id = a.id + 1 and b.grp = 2;
with i as (insert into mw_src (id, grp, v) values (2001, 1, 'new'), (2002, 1, 'newer') returning id) select count(*), count(i.id) from mw_src left join i using (id);
with d as (delete from mw_src where id > 2000 returning id, v) select d.id, d.v, s.v as was from d left join mw_src s (i, g, v) on s.i = d.id;
with u as (update mw_src set n = n + 100 where id in (20, 21, 22) returning id, n) insert into mw_log select s.id + 8000, s.n || ' to ' || u.n, 8 from mw_src s join u using (id) returning *;
with u as (update mw_src set n = n - 100 where id in (20, 21, 22) returning id) delete from mw_log using mw_src s, u where s.id = u.id and mw_log.id = s.id + 8000 returning mw_log.id, s.n;
with u as (update mw_ref set label = upper(label) returning id, label) select r.id, r.label, u.label as now from mw_ref r join u using (id);
with u as (update mw_ref set label = lower(label) where id < 3 returning id) select count(s.id), min(r.label) from mw_src s join mw_ref r on r.id = s.grp where exists (select from u where u.id = r.id);
with u as (update mw_src set n = 5 where id = 19 returning id) select s.id, s.n from mw_src s, u where s.id = u.id;
select id, n from mw_src where id between 10 and 22;
-- Rows of WITH queries in UPDATE and DELETE.
with i as (insert into mw_log values (12, 'twelve', 6), (14, 'fourteen', 6) returning id, what) update mw_src set v = i.what from i where i.id = mw_src.id returning mw_src.id, v;
with i as (insert into mw_log values (2, 'two', 6), (6, 'six', 6) returning id) delete from mw_src where id in (select id from i) returning id;
with gone as (delete from mw_log where at = 6 returning id) delete from mw_dst using gone where gone.id = mw_dst.id;
-- Foreign keys: who is referred to comes first, and goes last.
with c as (insert into mw_child values (1, 1001), (2, 1002)) insert into mw_src (id, grp) values (1001, 1), (1002, 2);
with p as (insert into mw_src (id, grp) values (1003, 3) returning id) insert into mw_child select 7, id from p;
select * from mw_child;
with p as (delete from mw_src where id = 1001) delete from mw_child where parent = 1001;
with c as (delete from mw_child returning parent) delete from mw_src where id in (select parent from c);
select count(*) from mw_src where id > 1000;
-- message varies
with c as (insert into mw_child values (1, 4040)) insert into mw_log values (4040, 'not there', 0);
select * from mw_log where id = 4040;
-- Reference tables and local ones.
with r as (insert into mw_ref values (10, 'ten'), (11, 'eleven') returning *) select * from r;
with r as (insert into mw_ref values (12, 'twelve') returning id, label) insert into mw_log select id, label, 7 from r;
with d as (delete from mw_log where at = 7 returning id) update mw_ref set label = 'gone' where id in (select id from d);
with u as (update mw_ref set label = label || '.' where id > 9 returning id, label) insert into mw_dst (id, v) select id + 500, label from u returning id, v;
with d as (delete from mw_ref where id > 10 returning *) insert into mw_notes select * from d;
select * from mw_notes;
select * from mw_ref;
with n as (delete from mw_notes where n > 10 returning *) insert into mw_log select n, remark, 8 from n;
with d as (delete from mw_dst where id > 500 returning id, v) insert into mw_ref select * from d returning *;
with m as (merge into mw_ref r using (values (1, 'uno'), (77, 'new')) as s (id, label) on r.id = s.id when matched then update set label = s.label when not matched then insert values (s.id, s.label)) select count(*) from mw_src;
select * from mw_ref;
-- Errors anywhere leave nothing.
with d as (delete from mw_src where id < 20 returning id) insert into mw_log select 1, 'twice', 9 from d;
with d as (delete from mw_src where id < 20 returning id) select 1 / (id - id) from d;
with i as (insert into mw_log values (900, 'x', 9)), j as (insert into mw_dst (id) values ('none')) select 1;
select count(*), sum(id) from mw_src;
select * from mw_log where at = 9;
-- plain refuses
with d as (delete from mw_src where grp = 1) select * from d;
with d as (delete from mw_src where nosuch = 1 returning id) select * from d;
with d as (delete from mw_src where grp = 1 returning id) select nosuch from d;
-- Types, words and parameters.
with m as (delete from mw_typed returning *) select * from m order by id;
insert into mw_typed values (3, 999, '2024-02-29 12:00:00+00', '{"a": [1, null]}', '{1,null,3}', '\x00ff', 1e-300, '{"a b",NULL,"c,d"}', 'ab', 'xyz');
with m as (update mw_typed set d = d - 1 returning *) insert into mw_typed select id + 10, d, ts, j, a, b, f, arr, c, e from m;
with m as (delete from mw_typed returning d, ts, j, a, b, f, arr, c, e, 'lit', null, 1 + 1 as two) select pg_typeof(d)::text, pg_typeof(ts)::text, pg_typeof(j)::text, pg_typeof(a)::text, pg_typeof(b)::text, pg_typeof(f)::text, pg_typeof(arr)::text, pg_typeof(c)::text, pg_typeof(e)::text, pg_typeof("?column?")::text, two from (select d, ts, j, a, b, f, arr, c, e, two, 'x'::text as "?column?" from m) s;
-- params: 3, 'given', 20
with d as (delete from mw_src where grp = $1 and id > $3 returning id) insert into mw_log select id, $2, $1 from d returning *;
-- params: 2
with d as (delete from mw_log where at = 3 returning id) select id + $1 from d;
-- params: 'w', 5001
with i as (insert into mw_dst (id, v) values ($2, $1), ($2 + 1, $1) returning id), u as (update mw_src set v = $1 where grp = 0 returning id) select count(*), (select sum(id) from i) from u where id > 3;
with recursive r (n) as (select 1 union all select n + 1 from r where n < 3), i as (insert into mw_log select n + 700, 'r', n from r returning id) select i.id, r.n from i join r on r.n + 700 = i.id;
with x as materialized (select id from mw_src where grp = 0), u as (update mw_dst set v = 'm' where id in (select id from x) returning id), l as (insert into mw_log select id + 6000, 'x', 0 from x returning id) select (select count(*) from u), (select count(*) from l), (select count(*) from x);
with d as (with inner_one as (select 701 as id) delete from mw_log where id in (select id from inner_one) returning id) select * from d;
with i as (insert into mw_log values (800, 'v', 1) returning id) insert into mw_dst (id, v) values ((select id from i), 'from i') returning id, v;
with i as (insert into mw_log values (801, 'v', 1) on conflict (id) do nothing returning id) insert into mw_dst (id, v) select id, 'from i' from i on conflict (id) do update set v = 'again' returning id, v;
with i as (insert into mw_log values (801, 'v', 1) on conflict (id) do update set what = 'seen' returning id, what) select * from i;
-- Rows of one table: added, and others of it changed or taken away.
with i as (insert into mw_log values (7001, 'i', 11)) insert into mw_log values (7002, 'j', 11);
with u as (update mw_log set what = 'u' where at = 11 returning id) insert into mw_log select id + 10, 'from u', 12 from u;
with d as (delete from mw_log where at = 12 returning *) insert into mw_log select id + 1000, what, 13 from d;
with i as (insert into mw_log values (7003, 'k', 11)) update mw_log set what = 'all' where id > 7000;
with i as (insert into mw_log values (7004, 'k', 11)) select id from mw_log where id > 7000;
select * from mw_log where id > 7000;
with d as (delete from mw_log where id = 7001) insert into mw_log values (7001, 'again', 14);
with u as (update mw_log set what = 'x' where id > 7000) delete from mw_log where id > 7001;
-- One node has all of it.
with d as (delete from mw_src where id = 8 returning *) insert into mw_dst select * from d where id = 8;
with d as (delete from mw_dst where id = 8 returning id) select * from d;
-- In transactions.
begin;
with d as (delete from mw_dst returning id) insert into mw_log select id + 9000, 'tx', 1 from d;
select count(*) > 3 from mw_log where id > 9000;
rollback;
select count(*) from mw_log where id > 9000;
select count(*) > 3 from mw_dst;
prepare mw (int) as with d as (delete from mw_log where id > $1 returning id) insert into mw_dst (id, v) select id, 'prepared' from d where id > $1 + 1 returning id;
execute mw (6000);
execute mw (6000);
deallocate mw;
copy (with d as (delete from mw_dst where v = 'prepared' returning id) select id from d order by id) to stdout;
select count(*), sum(id) from mw_dst;
