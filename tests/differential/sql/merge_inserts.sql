-- MERGE that inserts rows: the source's rows go to the nodes of their shards.
--! setup
create table mi_t (id int primary key, n int, s text default 'none', at timestamptz default now());
create table mi_c (id int primary key, n int);
create table mi_o (o int primary key, id int, n int, s varchar(20), b bigint);
create table mi_ref (id int primary key, n int);
create table mi_l (id int, n int, s text);
create table mi_txt (k text, v int);
create table mi_vc (k varchar(4) primary key, v int);
create table mi_num (k numeric(6,1) primary key, v int);
create table mi_ts (k timestamptz primary key, v int);
create table mi_two (a int, b text, v int, primary key (a, b));
create table mi_seq (id int primary key, n serial, v int);
create table mi_gen (id int primary key, v int, w int generated always as (v * 2) stored);
create table mi_rnd (id int primary key, u uuid default gen_random_uuid(), check (id > 0));
--! distribute mi_t id
--! distribute mi_c id colocate_with => 'mi_t'
--! distribute mi_o o colocate_with => 'none'
--! reference mi_ref
--! distribute mi_txt k
--! distribute mi_vc k
--! distribute mi_num k
--! distribute mi_ts k
--! distribute mi_two a,b
--! distribute mi_seq id
--! distribute mi_gen id
--! distribute mi_rnd id
--! reset
truncate mi_t, mi_c, mi_o, mi_ref, mi_l, mi_txt, mi_vc, mi_num, mi_ts, mi_two, mi_seq, mi_gen, mi_rnd restart identity;
insert into mi_t (id, n) select i, i from generate_series(1, 20) i;
insert into mi_c select i, i * 10 from generate_series(11, 30) i;
insert into mi_o select i, nullif(i * 3, 60), i % 6, case when i % 4 = 0 then null else 's' || i end, i * 5 from generate_series(1, 19) i;
insert into mi_ref select i, i * 100 from generate_series(15, 25) i;
insert into mi_l select i, i * 2, 'l' || i from generate_series(16, 24) i;
insert into mi_txt values ('a', 1), ('b', 2), (null, 3);
insert into mi_vc values ('a', 1), ('b', 2);
insert into mi_num values (1, 1), (2.5, 2);
insert into mi_ts values ('2024-01-01 00:00:00+00', 1), ('2024-06-01 12:00:00.5+00', 2);
insert into mi_two select i, 'b' || i, i from generate_series(1, 6) i;
insert into mi_gen (id, v) values (1, 1), (2, 2);
insert into mi_rnd (id) values (1), (2);
--! teardown
drop table if exists mi_t, mi_c, mi_o, mi_ref, mi_l, mi_txt, mi_vc, mi_num, mi_ts, mi_two, mi_seq, mi_gen, mi_rnd;
--! tests
merge into mi_t t using mi_c c on t.id = c.id when matched then update set n = c.n when not matched then insert (id, n) values (c.id, c.n);
select id, n, s from mi_t;
merge into mi_t t using mi_c c on c.id = t.id when not matched by target then insert (id, n) values (c.id, c.n) when not matched by source then delete returning merge_action(), t.id, t.n, c.n;
select id, n, s from mi_t;
merge into mi_t t using mi_o o on t.id = o.id and o.id is not null when matched then update set n = o.n, s = o.s when not matched and o.id is not null then insert (n, id, s) values (o.n, o.id, o.s);
select id, n, s from mi_t;
merge into mi_t t using mi_o o on t.id = o.o when matched and o.n = 0 then delete when matched and o.n = 1 then do nothing when matched then update set n = t.n + o.n when not matched then insert (id, n) values (o.o, o.n) returning merge_action(), t.id, t.n, o.*;
merge into mi_t t using mi_o o on t.id = o.b when matched then update set n = -1 when not matched and o.n > 3 then insert (id, n) values (b, o.n) when not matched and o.n = 2 then do nothing when not matched then insert (id, n, s) values (o.b, 0, 'second') returning t.id, t.n, t.s;
select id, n, s from mi_t;
merge into mi_t t using mi_ref r on t.id = r.id when matched then update set n = r.n when not matched then insert (id, n) values (r.id, r.n) returning merge_action(), t.id, t.n;
merge into mi_t t using mi_ref r on t.id = r.id and r.id = 17 when matched then update set n = r.n when not matched and r.id > 20 then insert (id, n) values (r.id, r.n);
select id, n, s from mi_t;
merge into mi_t using mi_ref on mi_t.id = mi_ref.id when not matched then insert (id, n) values (mi_ref.id, mi_ref.n) returning mi_t.id;
merge into mi_t t using mi_l on t.id = mi_l.id when matched then update set s = mi_l.s when not matched then insert (id, s) values (mi_l.id, mi_l.s) returning merge_action(), t.id, t.s;
merge into mi_t t using mi_l l on t.id = l.n + 1 when matched then update set s = l.s when not matched then insert (id, s) values (n + 1, l.s);
select id, n, s from mi_t;
merge into mi_t t using (values (5, 50), (50, 500), (51, 510)) v(id, n) on t.id = v.id when matched then update set n = v.n when not matched then insert (id, n) values (v.id, v.n) returning merge_action(), t.id, t.n, v.*;
merge into mi_t t using (values (5, 50), (50, 500), (51, 510)) as v on t.id = column1 when matched then delete when not matched then insert (id, n) values (column1, column2) returning merge_action(), v.*, t.id, t.s;
merge into mi_t t using unnest(array[3, 60, 61], array[1, 2, 3]) u(id, n) on t.id = u.id when matched then update set n = u.n when not matched then insert (id, n) values (u.id, u.n);
merge into mi_t t using generate_series(18, 23) g on t.id = g when matched then update set n = g when not matched then insert (id, n) values (g, 0);
select id, n, s from mi_t;
merge into mi_t t using (select o.id as k, max(o.n) as m from mi_o o join mi_l l on l.id = o.id group by o.id) q on t.id = q.k when matched then update set n = q.m when not matched then insert (id, n) values (k, m) returning merge_action(), t.id, t.n;
merge into mi_t t using (select c.id, o.n from mi_c c join mi_o o on o.o = c.id) q on t.id = q.id when matched then update set n = q.n when not matched then insert (id, n) values (q.id, q.n) returning merge_action(), t.id, t.n;
merge into mi_t t using (select id, n from mi_c order by n desc limit 4) q on t.id = q.id when matched then update set n = q.n when not matched then insert (id, n) values (q.id, q.n) returning t.id, t.n;
merge into mi_t t using (select id + 1 as id, n from mi_t) q on t.id = q.id when matched then update set n = q.n when not matched then insert (id, n) values (q.id, q.n);
select id, n, s from mi_t;
merge into mi_t t using mi_t q on t.id = q.id + 10 when matched then update set n = q.n when not matched then insert (id, n) values (q.id + 10, q.n) returning merge_action(), t.id, q.id;
with w as (select id, n from mi_o where n < 3 and id is not null) merge into mi_t t using w on t.id = w.id when matched then update set n = w.n when not matched then insert (id, n) values (w.id, w.n) returning merge_action(), t.id;
with w(k, m) as (values (1, 1), (70, 2)) merge into mi_t t using w x on t.id = x.k when matched then update set n = x.m when not matched then insert (id, n) values (x.k, x.m) returning t.id, t.n;
merge into mi_t t using mi_l l on t.id = l.id when matched and t.n > (select avg(n) from mi_o) then update set n = 0 when not matched and exists (select from mi_o o where o.o = l.id - 10) then insert (id, n) values (l.id, (select max(n) from mi_o)) returning merge_action(), t.id, t.n;
merge into mi_t t using mi_c c on t.id = c.id when matched and c.n in (select b * 2 from mi_o) then delete when not matched then insert (id, n) values (c.id, (select count(*) from mi_o)) returning merge_action(), t.id, t.n;
merge into mi_t t using (values (4, 1), (80, 2)) v(id, n) on t.id = v.id and t.n = 4 when matched then update set s = 'hit' when not matched then insert (id, n) values (v.id, v.n) when not matched by source and t.n > 15 then delete when not matched by source and t.id = 2 then update set s = 'alone' returning merge_action(), t.id, t.s;
merge into mi_t t using (select 1 as id where false) v on t.id = v.id when not matched then insert (id) values (v.id) returning *;
merge into mi_t t using (select 1 as id where false) v on t.id = v.id when not matched then insert (id) values (v.id) when not matched by source and t.id > 3 then delete;
select id, n, s from mi_t;
merge into mi_t t using (values (4), (4)) v(id) on t.id = v.id when matched then update set n = 0 when not matched then insert (id) values (v.id);
merge into mi_t t using (values (90), (90)) v(id) on t.id = v.id when matched then update set n = 0 when not matched then insert (id) values (v.id);
merge into mi_t t using (values (4), (null)) v(id) on t.id = v.id when matched then update set n = 0 when not matched then insert (id) values (v.id);
merge into mi_t t using (values (4), (null)) v(id) on t.id = v.id when matched then update set n = 0 when not matched and v.id is not null then insert (id) values (v.id);
merge into mi_t t using (values (4::bigint), (40000000000)) v(id) on t.id = v.id when matched then update set n = 0 when not matched then insert (id) values (v.id);
merge into mi_t t using (values (4::bigint), (40000000000)) v(id) on t.id = v.id when matched then update set n = 0 when not matched and v.id < 100 then insert (id) values (v.id) returning t.id;
merge into mi_t t using (values (4, 'x'), (91, 'y')) v(id, n) on t.id = v.id when matched then update set n = v.n when not matched then insert (id) values (v.id);
merge into mi_t t using mi_nowhere v on t.id = v.id when not matched then insert (id) values (v.id);
merge into mi_t t using mi_l v on t.id = v.nocolumn when not matched then insert (id) values (v.nocolumn);
merge into mi_t t using (values (4, 1), (92, 2)) v(id, n) on t.id = v.id when matched then update set at = default, n = extract(epoch from now() - t.at) when not matched then insert (id, n, at) values (v.id, v.n, default);
select count(*), count(distinct at) from mi_t where id in (4, 92);
merge into mi_t t using mi_l l on t.id = l.id when not matched then insert (id, n) values (l.id, 1);
select count(distinct at) from mi_t where n = 1 and id > 20;
-- params: 4, 93
merge into mi_t t using (values ($1::int, 'p'), ($2, 'q')) v(id, s) on t.id = v.id when matched then update set s = v.s when not matched then insert (id, s) values (v.id, v.s) returning merge_action(), t.id, t.s;
-- params: '{4,94,95}', '{x,y,NULL}'
merge into mi_t t using unnest($1::int[], $2::text[]) v(id, s) on t.id = v.id when matched then update set s = v.s when not matched then insert (id, s) values (v.id, v.s) returning merge_action(), t.id, t.s;
-- params: 4, abc
merge into mi_t t using (select $1::int as id, $2::text as s) v on t.id = v.id when matched then update set s = v.s when not matched then insert (id, s) values (v.id, v.s) returning merge_action(), t.id, t.s;
-- params: 100
merge into mi_t t using mi_l l on t.id = l.id + $1 when matched then delete when not matched then insert (id, s) values (l.id + $1, l.s) returning t.id, t.s;
-- params: 3
merge into mi_t t using mi_o o on t.id = o.o when matched and o.n > $1 then update set n = $1 when not matched and o.n > $1 then insert (id, n) values (o.o, $1);
select id, n, s from mi_t;
merge into mi_txt t using (values ('a', 10), ('c', 30), (null, 40), ('ä', 50)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning merge_action(), t.k, t.v;
select * from mi_txt;
merge into mi_txt t using mi_o o on t.k = o.s when matched then update set v = 0 when not matched then insert values (o.s, o.n);
select * from mi_txt;
merge into mi_txt t using mi_o o on t.k = lower(o.s) when matched then update set v = 0 when not matched then insert values (lower(o.s), o.n) returning *;
merge into mi_txt t using (select 'a' as k, 1 as v union all select 'z', 2) o on t.k = o.k when matched then update set v = 0 when not matched then insert values (o.k, o.v) returning *;
merge into mi_vc t using (values ('a', 10), ('x   ', 30), ('long    ', 31)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
merge into mi_vc t using (values ('a', 10), ('muchlong', 31)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
select k, v from mi_vc where k = 'x   ';
merge into mi_num t using (values (1.00, 10), (2.50, 20), (3.14, 30)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
merge into mi_num t using mi_ref r on t.k = r.id when matched then update set v = r.n when not matched then insert values (r.id, r.n);
select * from mi_num where k = 3.1;
select * from mi_num where k = 17;
set timezone = 'Asia/Kolkata';
merge into mi_ts t using (values ('2024-01-01 00:00:00+00'::timestamptz, 10), ('2024-06-01 12:00:00.500+00', 20), ('2025-01-01', 30), ('infinity', 40)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
select * from mi_ts where k = '2025-01-01';
reset timezone;
merge into mi_two t using (values (1, 'b1', 10), (1, 'b2', 20), (9, 'b9', 90)) v(a, b, v) on t.b = v.b and t.a = v.a when matched then update set v = v.v when not matched then insert values (v.a, v.b, v.v) returning merge_action(), t.*;
select * from mi_two where a = 1 and b = 'b2';
merge into mi_seq t using (values (1, 5, 1), (2, 6, 2)) v(id, n, v) on t.id = v.id when not matched then insert values (v.id, v.n, v.v) returning t.*;
merge into mi_gen t using (values (1, 5), (3, 6), (4, 7)) v(id, v) on t.id = v.id when matched then update set v = v.v when not matched then insert (id, v) values (v.id, v.v) returning t.*;
merge into mi_rnd t using (values (1), (3), (4)) v(id) on t.id = v.id when not matched then insert (id) values (v.id) returning t.id, t.u is null;
merge into mi_rnd t using (values (1), (3), (-4)) v(id) on t.id = v.id when not matched then insert (id) values (v.id) returning t.id;
merge into mi_rnd t using (values (1), (3), (4)) v(id) on v.id = t.id and v.id > 1 when matched then do nothing when not matched then insert (id) values (v.id);
merge into mi_t t using (select * from mi_c where n > 150) c on t.id = c.id when matched and exists (select from mi_o o where o.o = t.id) then update set n = c.n when not matched and c.id > (select max(id) / 2 from mi_t) then insert (id, n) values (c.id, c.n) returning merge_action(), t.id, t.n;
merge into mi_t t using mi_c c on t.id = c.id and t.n > 12 when matched then update set n = c.n when not matched and c.n > 200 then insert (id, n) values (c.id, c.n) returning merge_action(), t.id, t.n;
merge into mi_t t using mi_c c on t.id = c.id when matched then do nothing when not matched by source and t.n < 5 then delete when not matched by source then update set s = 'left' returning merge_action(), t.id, t.s;
merge into mi_t t using mi_c c on t.id = c.id and c.id = 25 when not matched and c.n > 290 then insert (id, n) values (c.id, c.n);
merge into mi_t t using (select distinct id from mi_c) c on t.id = c.id when not matched then insert (id) values (c.id);
merge into mi_t t using (select c.id, o.n from mi_c c left join mi_o o on o.o = c.id) c on t.id = c.id when not matched then insert (id, n) values (c.id, c.n);
merge into mi_t t using (select t2.id, c.n from mi_c c left join mi_t t2 on t2.id = c.id) c on t.id = c.id when matched then update set n = 7 when not matched and c.id is not null then insert (id, n) values (c.id, c.n);
select id, n, s from mi_t;
merge into mi_t t using (values (5, 55)) v(id, n) on t.id = v.id when matched then update set n = v.n when not matched then insert (id, n) values (v.id, v.n);
merge into mi_t t using (values (120, 55)) v(id) on t.id = v.id when matched then update set n = column2 when not matched then insert (id, n) values (v.id, column2) returning v.*, t.id, t.n;
merge into mi_t t using (values ('121'::int, 55)) v on t.id = v.column1 when not matched then insert (id, n) values (column1, column2) returning t.id, t.n;
merge into mi_t t using (values (null::int, 55)) v on t.id = v.column1 when not matched then insert (id, n) values (column1, column2) returning t.id, t.n;
merge into mi_vc t using (values ('x   ', 30)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
merge into mi_vc t using (values ('word    ', 31)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
merge into mi_vc t using (select 'cut     ' as k, 31 as v) v on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
merge into mi_num t using (values (7.77, 30)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning t.*;
select * from mi_num where k = 7.8;
merge into mi_txt t using (values (null, 40)) v(k, v) on t.k = v.k when matched then update set v = v.v when not matched then insert values (v.k, v.v) returning merge_action(), t.k, t.v;
merge into mi_two t using (values (1, 'b2', 20)) v(a, b, v) on t.b = v.b and t.a = v.a when matched then update set v = v.v when not matched then insert values (v.a, v.b, v.v) returning merge_action(), t.*;
-- params: 6, 66
merge into mi_t t using (values ($1::int, $2::int)) v(id, n) on t.id = v.id when matched then update set n = v.n when not matched then insert (id, n) values (v.id, v.n) returning t.id, t.n;
-- params: 122, 66
merge into mi_t t using (values ($1::int, $2::int)) v(id, n) on t.id = v.id when matched then update set n = v.n when not matched then insert (id, n) values (v.id, v.n) returning t.id, t.n;
begin;
insert into mi_l values (200, 2, 'new');
insert into mi_o values (300, 300, 3, 'new', 3);
merge into mi_t t using mi_l l on t.id = l.id when not matched then insert (id, s) values (l.id, l.s) returning t.id, t.s;
merge into mi_t t using mi_o l on t.id = l.o when matched then delete when not matched then insert (id, s) values (l.o, l.s) returning merge_action(), t.id;
select count(*), sum(id) from mi_t;
rollback;
select count(*), sum(id) from mi_t;
begin isolation level repeatable read;
merge into mi_t t using mi_o l on t.id = l.o when not matched then insert (id, s) values (l.o, l.s);
merge into mi_t t using mi_c l on t.id = l.id when not matched then insert (id) values (l.id);
-- ordered
select id, s from mi_t order by id;
commit;
create temporary table mi_tmp (id int, s text);
insert into mi_tmp values (1, 't1'), (210, 't2');
merge into mi_t t using mi_tmp m on t.id = m.id when matched then update set s = m.s when not matched then insert (id, s) values (m.id, m.s) returning merge_action(), t.id, t.s;
drop table mi_tmp;
prepare mi_p (int, text) as merge into mi_t t using (select $1 as id, $2 as s union all select $1 + 1, $2) v on t.id = v.id when matched then update set s = v.s when not matched then insert (id, s) values (v.id, v.s) returning merge_action(), t.id, t.s;
execute mi_p (20, 'one');
execute mi_p (20, 'two');
execute mi_p (null, 'three');
deallocate mi_p;
merge into mi_t t using mi_o o on t.n = o.n when not matched then insert (id, n) values (o.o, o.n);
merge into mi_t t using mi_o o on t.id = o.o when not matched then insert (id, n) values (o.o + 1, o.n);
merge into mi_t t using mi_o o on t.id = o.o when not matched then insert (n) values (o.n);
merge into mi_t t using mi_o o on t.id = o.o when not matched then insert default values;
merge into mi_seq t using (values (1, 1), (2, 2)) v(id, v) on t.id = v.id when not matched then insert (id, v) values (v.id, v.v);
merge into mi_t t using (mi_o o join mi_l l on l.id = o.o) on t.id = o.o when not matched then insert (id) values (o.o);
merge into mi_t t using (values (1.5), (2.0)) v(id) on t.id = v.id when not matched then insert (id) values (v.id);
