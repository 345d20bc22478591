-- MERGE that inserts rows elsewhere than where ON looks for them.
--! setup
create table me_t (id int, n int, s text default 'none', at timestamptz default now(), primary key (id));
create table me_d (k int default 500, n int, s varchar(6));
create table me_o (o int primary key, n int, s text);
create table me_ref (id int primary key, n int);
create table me_l (id int, n int, s text);
create table me_num (k numeric(6, 1), v int);
create table me_txt (k text, v text);
create table me_two (a int, b text, v int);
create table me_rnd (k int default (random() * 1000)::int, v int);
create table me_seq (k int, n serial);
--! distribute me_t id
--! distribute me_d k
--! distribute me_o o colocate_with => 'none'
--! reference me_ref
--! distribute me_num k
--! distribute me_txt k
--! distribute me_two a,b
--! distribute me_rnd k
--! distribute me_seq k
--! reset
truncate me_t, me_d, me_o, me_ref, me_l, me_num, me_txt, me_two, me_rnd, me_seq;
insert into me_t (id, n) select i, i * 10 from generate_series(1, 12) i;
insert into me_d select i, i % 3, 'd' || i from generate_series(1, 8) i;
insert into me_o select i, i * 20, case when i % 3 > 0 then 'o' || i end from generate_series(1, 9) i;
insert into me_ref select i, i * 100 from generate_series(1, 5) i;
insert into me_l select i, i * 10, 'l' || i from generate_series(10, 15) i;
insert into me_num values (1, 1), (2.5, 2), (null, 3);
insert into me_txt values ('a', 'x'), ('b', 'y');
insert into me_two values (1, 'a', 1), (2, 'b', 2);
--! teardown
drop table if exists me_t, me_d, me_o, me_ref, me_l, me_num, me_txt, me_two, me_rnd, me_seq;
--! tests
merge into me_t t using me_o o on t.n = o.n when not matched then insert (id, n) values (o.o + 100, o.n);
select id, n, s from me_t;
merge into me_t t using me_o o on t.n = o.n when matched then update set s = o.s, n = t.n + 1 when not matched then insert (id, n, s) values (o.o + 200, o.n, o.s) returning merge_action(), t.id, t.n, t.s, o.*;
merge into me_t t using me_o o on t.n = o.n when matched and o.s is null then delete when matched then do nothing when not matched and o.s is null then do nothing when not matched and o.o % 2 = 0 then insert (id, n) values (o.o + 300, -1) when not matched then insert (n, id) values (-2, o.o + 400) returning merge_action(), t.id, t.n, o.o;
select id, n, s from me_t;
merge into me_t t using me_o o on t.id = o.o when not matched then insert (id, n) values (o.o + 1, o.n);
merge into me_t t using me_o o on t.id = o.o + 1000 when not matched then insert (id, n) values (o.o + 1500, o.n) returning o.*, t.id, t.n;
merge into me_t t using me_o o on t.id = o.o + 3000 when not matched then insert (n) values (o.n);
merge into me_t t using me_o o on t.id = o.o when not matched then insert default values;
merge into me_t t using me_o o on t.id = o.o + 1000 when not matched then insert default values;
merge into me_t t using me_o o on t.n = o.n when not matched then insert (id) values (null);
merge into me_d d using me_o o on d.k = o.o when not matched then insert default values returning *;
merge into me_d d using me_o o on d.n = o.n when matched then delete when not matched then insert (n) values (o.n);
select * from me_d;
merge into me_d d using (select 1 as one) x on d.k = 77 when matched then update set n = 77 when not matched then insert values (78, 5, 'five');
merge into me_d d using (select 1 as one) x on d.k = 78 when matched then update set n = 77 when not matched then insert values (79, 5, 'five') returning merge_action(), d.*;
merge into me_d d using (select 1 as one) x on d.k = 80 when not matched then insert values (81, 5, 'too long');
merge into me_d d using (select 1 as one) x on false when not matched then insert values (82, 5, 'fits  ') returning d.*;
merge into me_d d using me_o o on d.n = o.o when matched then update set n = 0, s = o.s when not matched by source and d.k < 4 then update set s = 'alone' when not matched by source then delete when not matched by target and o.o > 2 then insert (k, n, s) values (o.n, o.o, o.s) returning *;
select * from me_d;
merge into me_d d using me_o o on d.n = o.o when not matched by source and d.n = 0 then delete when not matched by target then insert (k) values (o.o + 1);
select * from me_d;
-- A row is changed twice.
merge into me_d d using me_o o on d.k < 500 when matched then update set n = 5 when not matched then insert (k) values (9999);
merge into me_t t using (values (1), (1)) v(x) on t.n = v.x * 10 when matched then update set s = 'twice' when not matched then insert (id) values (777);
merge into me_t t using (values (1), (1)) v(x) on t.n = v.x when not matched then insert (id) values (778);
merge into me_d t using (values (1), (1)) v(x) on t.n = -1 when not matched then insert (k, n) values (778, -1) returning merge_action(), t.k, t.n;
-- Sources of all kinds.
merge into me_d d using me_ref r on d.n = r.id when matched then update set s = 'ref' when not matched then insert (k, n, s) values (r.n, r.id, 'new') returning merge_action(), d.*;
merge into me_d d using me_l l on d.n = l.id when matched then update set s = l.s when not matched then insert (k, n, s) values (l.n, l.id, l.s) returning merge_action(), d.*, l.id;
merge into me_d d using generate_series(1, 4) g on d.n = g when matched then update set s = 'g' when not matched then insert (k, n) values (g * 1000, g) returning merge_action(), d.*, g;
merge into me_d d using (select o, n from me_o order by n desc limit 3) q on d.n = q.n when matched then update set s = 'q' when not matched then insert (k, n) values (q.o, q.n) returning merge_action(), d.*;
with w as (select n, count(*) as c from me_t group by n) merge into me_d d using w on d.n = w.n when matched then update set s = 'w' || w.c when not matched then insert (k, n) values (w.c, w.n) returning merge_action(), d.*;
merge into me_d d using me_d e on d.n = e.k when matched and d.k < 3 then update set s = 'self' when not matched then insert (k, n, s) values (e.k + 10000, e.n, e.s);
select * from me_d;
-- Subqueries over other tables in conditions and actions.
merge into me_d d using me_o o on d.n = o.o and exists (select from me_t t where t.id = o.o) when matched and d.k > (select avg(n) from me_o) then delete when matched then update set s = (select max(s) from me_o x where x.o < o.o) when not matched and o.o in (select id from me_t where n > 50) then insert (k, n, s) values ((select max(k) from me_d) + o.o, (select t.n from me_t t where t.id = o.o), 'sub') returning merge_action(), d.*, o.o;
select * from me_d;
merge into me_d d using me_o o on d.n = o.n + 1 when not matched then insert (k, s) values ((select count(*) from me_d), (select min(s) from me_l)) returning d.*;
-- Names.
merge into me_d using me_o on me_d.n = me_o.o when matched then update set s = me_o.s when not matched then insert (k, n) values (o, me_o.n) returning me_d.k, o;
merge into me_d as d (kk, nn, ss) using me_o o on kk = o.n when not matched then insert (k, n) values (o.n, o.o);
-- Types of keys.
merge into me_num t using (values (1, 1), (3, 3)) v(a, b) on t.v = v.a when matched then update set v = 10 when not matched then insert values (v.a / 7.0, v.b) returning merge_action(), t.*;
select * from me_num where k = 0.4;
merge into me_num t using me_ref r on t.v = r.id when not matched then insert values (r.n, r.id);
select * from me_num;
merge into me_num t using (values ('5.55'), ('x')) v(a) on t.v = 10000 when not matched then insert values (v.a::numeric, 5);
merge into me_txt t using me_o o on t.v = o.s when not matched then insert values (o.o, o.s) returning t.*;
merge into me_txt t using me_o o on t.v = o.s when matched then delete when not matched then insert values (upper(o.s), 'none') returning merge_action(), t.*;
select * from me_txt where k is null;
merge into me_two t using me_o o on t.v = o.o when matched then update set v = 100 when not matched then insert values (o.n, coalesce(o.s, 'null'), o.o) returning merge_action(), t.*;
select * from me_two where a = 80 and b = 'o4';
merge into me_txt t using me_o o on t.v = o.s when not matched then insert values (now()::text, 'now') returning t.k = now()::text as same, t.v;
merge into me_t t using me_ref r on t.n = -r.id when not matched then insert (id, n) values (r.id + 7000, r.id) returning t.id, t.at = now() as same;
-- What can't be told before.
merge into me_rnd t using me_ref r on t.v = r.id when not matched then insert (v) values (r.id);
merge into me_rnd t using me_ref r on t.v = r.id when not matched then insert values ((random() * 1000)::int, r.id);
merge into me_seq t using me_ref r on t.n = r.id when not matched then insert (k) values (1);
merge into me_seq t using me_ref r on t.n = r.id when not matched then insert (k, n) values (1, 2) returning *;
merge into me_t t using me_o o on t.n = o.n when matched then update set id = 5 when not matched then insert (id) values (o.o);
-- Parameters, and blocks.
-- params: 30, 600
merge into me_d d using me_o o on d.n = o.n and o.n > $1 when matched then update set s = 'p' when not matched and o.n > $1 then insert (k, n) values (o.n + $2, $1) returning merge_action(), d.k, d.n;
-- params: 5, 700
merge into me_d d using (values ($1::int)) v(x) on d.n = v.x when matched then update set n = $1 + 1 when not matched then insert (k, n) values ($2, v.x) returning merge_action(), d.*;
begin;
merge into me_d d using me_o o on d.n = o.n when matched then update set s = 'b' when not matched then insert (k, n) values (o.o, o.n);
merge into me_d d using me_o o on d.n = o.n when matched then update set s = 'bb' when not matched then insert (k, n) values (o.o, o.n);
select * from me_d where s = 'bb';
savepoint a;
merge into me_d d using me_o o on d.n = -5 when not matched then insert (k, s) values (o.o, 'much too long');
rollback to a;
rollback;
begin isolation level repeatable read;
merge into me_d d using me_o o on d.n = o.n when matched then update set s = 'r' when not matched then insert (k, n) values (o.o, o.n) returning merge_action(), d.*;
rollback;
prepare me_p (int) as merge into me_d d using me_o o on d.n = o.n + $1 when matched then update set s = 'pp' when not matched then insert (k, n) values (o.o, o.n + $1) returning merge_action(), d.*;
execute me_p (1);
execute me_p (1);
deallocate me_p;
merge into me_d t using me_nowhere v on t.n = v.id when not matched then insert (k) values (1);
merge into me_d t using me_o o on t.nowhere = o.o when not matched then insert (k) values (1);
merge into me_d t using me_o o on t.n = o.o when not matched then insert (k) values (t.n);
merge into me_d t using me_o o on t.n = o.o + 50 when not matched then insert (k) values (1 / (o.o - 5));
merge into me_d t using me_o o on t.n = o.o + 50 when not matched then insert (k) values (true);
merge into me_d t using me_o o on t.n = o.o + 50 when not matched then insert (k, n) values (1);
select * from me_d;
-- A condition that is asked twice must say the same.
-- rows vary
merge into me_d d using me_o o on d.n = o.n + (random() * 0)::int when not matched then insert (k) values (o.o);
merge into me_d d using me_o o on d.n = (select x.n from me_o x order by x.o limit 1) and o.o = 1 when matched then update set s = 'lim' when not matched then insert (k, n) values (o.o, 20);
merge into me_d d using me_o o on d.n = (select max(x.n) from me_o x) and o.o = 1 when matched then update set s = 'max' when not matched then insert (k, n) values (o.o, 180);
merge into me_d d using me_o o on d.n = (select max(x.n) from me_o x) and o.o = 1 when matched then update set s = 'max' when not matched then insert (k, n) values (o.o, 180);
select * from me_d;
