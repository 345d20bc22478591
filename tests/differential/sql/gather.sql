-- Queries of tables that are not colocated: joins not on the key in every form, correlated subqueries, local and reference tables
-- beside distributed ones, WITH queries used twice and recursive, row types, types with modifiers.
--! teardown
drop table if exists ga_tmp, ga_a, ga_b, ga_c, ga_e, ga_r, ga_l, "GaT" cascade;
drop view if exists ga_v;
drop domain if exists ga_d;
drop type if exists ga_enum, ga_comp;
--! setup
create domain ga_d as integer check (value > -1000);
create type ga_enum as enum ('low', 'mid', 'high');
create type ga_comp as (x integer, y text);
create table ga_a (gone text, k integer, x integer, t text, n numeric(8,2), c char(6), v varchar(5), d ga_d, e ga_enum, arr integer[], comp ga_comp, ts timestamptz(0), j json, z text collate "C", primary key (k));
alter table ga_a drop column gone;
create table ga_b (k bigint, x integer, t text, g integer generated always as (x * 2) stored, f boolean);
create table ga_c (k integer primary key, x integer, w text);
create table ga_e (k integer, x integer, t text);
create table ga_r (code integer primary key, label text);
create table ga_l (id integer primary key, t text);
create table "GaT" ("ColA" integer, "b c" text, "select" integer);
--! distribute ga_a k
--! distribute ga_b k
--! distribute ga_c k colocate_with => 'ga_a'
--! distribute ga_e x colocate_with => 'none'
--! distribute "GaT" ColA colocate_with => 'none'
--! reference ga_r
create view ga_v as select k, x, t from ga_a where x is not null;
insert into ga_a (k, x, t, n, c, v, d, e, arr, comp, ts, j, z)
  select i, nullif(i % 5, 0), case when i % 7 <> 0 then 't' || i % 4 end, i / 4.0, 'c' || i % 3, left('v' || i, 5), i % 9, (array['low', 'mid', 'high'])[i % 3 + 1]::ga_enum,
    case when i % 4 > 0 then array[i, null, i * 2] end, case when i % 6 > 0 then row(i, 'y' || i)::ga_comp end, '2024-02-03 04:05:06+00'::timestamptz + i * interval '1 day', json_build_object('i', i), chr(65 + i % 26 + 32 * (i % 2)) from generate_series(1, 40) i;
insert into ga_b (k, x, t, f) select i, nullif(i % 6, 0), case when i % 5 <> 0 then 't' || i % 4 end, case i % 3 when 0 then true when 1 then false end from generate_series(1, 24) i;
insert into ga_c select i, i % 8, 'w' || i from generate_series(1, 20) i;
insert into ga_r select i, 'r' || i from generate_series(0, 6) i;
insert into ga_l select i, 't' || i % 3 from generate_series(1, 9) i;
insert into "GaT" select i, 'b' || i % 3, nullif(i % 4, 0) from generate_series(1, 12) i;
--! tests
-- Parts take along those WITH queries alone that they name: others may read local tables, and be called alike.
with l as materialized (select id, t from ga_l), w as (select k as c from ga_b order by k) select (select max(c) from w), a.x from ga_a a where not exists (select from l left join ga_c c on l.id = c.x where c.k = 77);
with l as (select id from ga_l), m as (select id + 1 as id from l), w as (select k as c from ga_b) select (select max(c) from w), (select count(*) from m), a.k from ga_a a where a.k < 9;
with w as (with w as (select id from ga_l) select a.k as c, b.t from ga_a a left join ga_b b on a.x = b.x order by 1, 2 desc limit 20) select c, count(*) from w group by rollup (c);
with w as (with w as (select t from ga_l where id = 1) select a.k as c from ga_a a join ga_c c on a.k = c.k) select l.id, count(*) from w join ga_l l on l.id = w.c group by l.id;
with w as (select t from ga_l) select (with w as (select k from ga_a) select count(*) from w), (select count(*) from ga_b) from ga_c where k < 3;
with recursive n as (select 1 as i union all select i + 1 from n where i < 3), l as (select id from ga_l) select (select max(a.k) from ga_a a join n on n.i = a.x), b.k from ga_b b where exists (select from l where l.id = b.x) order by 2;
with l as (select id from ga_l having count(*) > 2) select k from ga_a;
-- Joins.
select a.k, b.k, a.t from ga_a a join ga_b b on a.x = b.x;
select a.k, b.k from ga_a a left join ga_b b on a.x = b.x and b.k < 6;
select a.k, b.k from ga_a a right join ga_b b on a.x = b.x and a.k < 6;
select a.k, b.k from ga_a a full join ga_b b on a.x = b.x and a.t = b.t;
select count(*) from ga_a, ga_b;
select count(*), count(b.x), sum(b.g) from ga_a a left join ga_b b on a.x = b.x where b.x is null;
select a.k from ga_a a left join ga_b b on a.k = b.x where b.k is null and a.k < 10;
select a.k, b.k from ga_a a left join ga_b b on a.x = b.x where b.t like 't%' and a.k in (1, 2, 3);
select a.k, b.k from ga_a a left join (ga_b b join ga_c c on b.x = c.x and c.k > 3) on a.x = b.x where a.k < 8;
select a.k, b.k, r.label from ga_r r left join ga_a a on a.x = r.code left join ga_b b on b.k = a.k;
select r.code, a.k from ga_r r full join ga_a a on a.x = r.code and a.k > 35;
select r.label, count(a.k) from ga_r r left join ga_a a on a.x = r.code group by r.label;
select * from ga_b natural join ga_e;
select * from ga_c join ga_b using (k, x);
select * from ga_c left join ga_b using (x) where k < 4;
select * from ga_b b join ga_c c using (x) where b.k < 4;
select x, count(*) from ga_a join ga_b using (x) group by x;
select x, count(*) from ga_a full join ga_b using (x) group by x;
select j.p, j.q from (ga_b b join ga_c c on b.x = c.x) as j(p, q) where j.p < 3;
select m.x from ga_a join ga_b using (x) as m where m.x > 3;
select a1.k, a2.k from ga_a a1 join ga_a a2 on a1.k = a2.x where a1.k < 4;
select a1.k, a2.k from ga_a a1, ga_a a2 where a1.k = a2.k + 1 and a1.t = 't1' and a2.k <= 20;
select e.k, b.k from ga_e e right join ga_b b on e.x = b.x where b.k < 3;
select count(*), max(e.k), min(a.k) from ga_e e join ga_a a on e.t = a.t;
select t.*, b.k from "GaT" t join ga_b b on b.x = t."select" where t."b c" = 'b1';
select "GaT"."select", count(*) from "GaT" join ga_b on ga_b.t = 't' || "GaT"."select" group by 1;
select p."one", p."b c" from "GaT" p ("one", two, "b c") join ga_b b on b.x = p."b c";
select public.ga_a.k, ga_b.k from public.ga_a join public.ga_b on ga_a.x = public.ga_b.x where public.ga_a.k < 5;
select a.k from ga_a a join ga_b b on a.k = b.k where a.k = 7;
-- params: 7
select a.k, b.t from ga_a a join ga_b b on a.x = b.x where a.k = $1;
-- params: 7, t%, 3
select a.k, b.t, $3::int from ga_a a join ga_b b on a.x = b.x where a.k < $1 and b.t like $2 and b.k > $3::bigint;
-- params: NULL
select count(*) from ga_a a join ga_b b on a.x = b.x where a.x = $1;
-- params: '{1,2,3}'
select count(*) from ga_a a join ga_b b on a.x = b.x where a.k = any ($1::int[]);
-- Types travel as they are.
select a.n, a.c, a.v, a.d, a.e, a.arr, a.comp, a.ts, a.j, a.z from ga_a a join ga_b b on b.x = a.x where a.k < 8;
select a.c || '|', length(a.c), a.c = 'c1' from ga_a a join ga_b b on b.x = a.x where a.k < 8;
select (a.comp).y, a.arr[1], a.n + 1, a.e > 'low' from ga_a a join ga_b b on b.x = a.x where a.k < 8;
select s.d + 1, pg_typeof(s.d)::text, b.k from (select d, count(*) as n from ga_a group by d) s join ga_b b on b.x = s.n;
select pg_typeof(a.n)::text, pg_typeof(a.c)::text, pg_typeof(a.d)::text, pg_typeof(a.comp)::text, pg_typeof(b.g)::text from ga_a a join ga_b b on b.x = a.x where a.k = 1;
select max(a.e), min(a.c), sum(a.n), max(a.arr) from ga_a a join ga_b b on b.x = a.x;
-- ordered
select a.k, a.z, b.k from ga_a a join ga_b b on b.x = a.x where a.k < 12 order by a.z, a.k, b.k;
-- ordered
select a.t, a.z from ga_a a join ga_b b on b.k = a.x where a.k < 12 order by a.t desc nulls last, a.z, a.k;
select b.f, b.g from ga_b b join ga_a a on b.x = a.x where b.f;
select b.k from ga_b b join ga_a a on b.x = a.x where b.f is not true and a.k between 3 and 9 and a.e = 'mid';
-- Subqueries.
select k from ga_a where x in (select x from ga_b);
select k from ga_a where x not in (select x from ga_b where x is not null);
select k from ga_a where x not in (select x from ga_b);
select count(*) from ga_a where not (x in (select x from ga_b where k < 3)) is true;
select k from ga_a a where exists (select 1 from ga_b b where b.t = a.t and b.x = 3);
select k from ga_a a where not exists (select 1 from ga_b b where b.t = a.t);
select k, (select count(*) from ga_b b where b.x = a.x) as n from ga_a a;
select k, (select b.t from ga_b b where b.x = a.x order by b.k limit 1) from ga_a a where k < 9;
select k from ga_a a where n > (select avg(n) from ga_a);
select k from ga_a a where n > (select avg(b.n) from ga_a b where b.x = a.x);
select k from ga_a where k = (select max(k) from ga_a);
select k from ga_a where (x, t) in (select x, t from ga_b);
select k from ga_a where x = any (array(select x from ga_b where k < 4));
select (select sum(a.k + b.k) from ga_b b where b.x = a.x) from ga_a a where a.k < 6;
select b.x, (select max(a.k) from ga_a a where a.x = b.x) m from ga_b b group by b.x;
select b.x, sum((select count(*) from ga_a a where a.x = b.k)) from ga_b b group by b.x;
select k from ga_a where exists (select 1 from ga_l where id = 2) and k < 3;
select k from ga_a where k in (select id from ga_l);
select id, (select t from ga_a where k = id) from ga_l;
select l.id, a.k from ga_l l left join ga_a a on a.t = l.t where l.id < 4;
select a.k, l.t from ga_a a join ga_l l on l.id = a.x;
select min(k), (select max(id) from ga_l) from ga_a;
select count(*) from ga_a, ga_l;
select s.x, s.n, b.k from (select x, count(*) n from ga_a group by x) s join ga_b b on b.x = s.x;
select s.x, s.n, r.label from ga_r r left join (select x, count(*) n from ga_a group by x) s on s.x = r.code;
select a.k, s.k from ga_a a join (select k, x from ga_b order by k limit 5) s on s.x = a.x;
select a.k, s.k from ga_a a join (select distinct on (x) x, k from ga_b order by x, k) s on s.x = a.x;
select distinct on (case when s.x in (select b.x from ga_b b) then 1 else 0 end) case when s.x in (select b.x from ga_b b) then 1 else 0 end, s.n from (select x, count(*) as n from ga_a group by x) s order by case when s.x in (select b.x from ga_b b) then 1 else 0 end, s.n, s.x;
select s.x in (select b.x from ga_b b) as known, count(*) from (select x, count(*) as n from ga_a group by x) s group by s.x in (select b.x from ga_b b) order by 1;
select a.k, c.code from ga_a a join (select code from ga_r order by code limit 2) c on c.code = a.x;
select r.code, l.k from ga_r r, lateral (select k from ga_a a where a.x = r.code order by k limit 2) l;
select a.k, l.m from ga_a a left join lateral (select max(b.k) m from ga_b b where b.x = a.x and b.k > a.k) l on true where a.k < 9;
select g, a.k from generate_series(1, 4) g left join ga_a a on a.x = g and a.k < 10;
select a.k, u from ga_a a join ga_b b on b.x = a.x, unnest(a.arr) u where a.k < 5;
select a.k, l.n, l.e from ga_a a, lateral (select count(*) n, every(b.x > 2) e from ga_b b where b.k = 4 and b.k = a.k) l where a.k < 8;
select a.k, l.n from ga_a a, lateral (select n from (select max(c.x) n from ga_c c where c.k = 4 and c.k = a.k) y) l where a.k < 8;
select a.k, l.g, l.n from ga_a a, lateral (select c.x g, count(*) n from ga_c c where c.k = 4 and c.k = a.k group by rollup (c.x)) l where a.k < 8;
select a.k, l.n from ga_a a, lateral (select c.x n from ga_c c where c.k = 4 and c.k = a.k) l where a.k < 8;
select a.k, l.id from ga_a a, lateral (select count(*) id from ga_l where id = 4 and id = a.k) l where a.k < 8;
-- WITH.
with s as (select x, count(*) n from ga_a group by x) select p.x, q.n from s p join s q on p.x = q.n - 2;
with s as materialized (select k, x from ga_a where k < 20) select s.k, b.k from s join ga_b b on b.x = s.x where s.k > 15;
with s as (select k, x from ga_a), u as (select * from s where k < 9) select u.k, s.k from u join s on s.x = u.k;
with recursive r (k, depth) as (select k, 1 from ga_c where k = 2 union all select c.k, r.depth + 1 from ga_c c join r on c.x = r.k where r.depth < 4) select * from r;
with recursive r as (select k, x from ga_b where k = 1 union select b.k, b.x from ga_b b join r on b.k = r.x + r.k) select count(*), max(k) from r;
with ga_b as (select 1 as x) select a.k from ga_a a join ga_b on ga_b.x = a.x join ga_c c on c.x = a.x;
with ga_a as (select k, x from ga_a where k < 9) select p.k, q.k from ga_a p join ga_a q on p.k = q.x;
with s as materialized (select k, random() as r from ga_a) select count(*) from (select r from s) p join (select r from s) q on p.r = q.r;
with s as materialized (select k, random() as r from ga_a) select count(*), count(distinct p.r) from s p, s q, ga_b b where p.r = q.r and b.x = p.k;
with s as (select k, x from ga_b where k > 2) select a.k, (select count(*) from s where s.x = a.x) n from ga_a a where a.k < 9;
with s as (select k, x from ga_b where k > 2) select a.k, l.m from ga_a a, lateral (select max(s.k) m from s where s.x = a.x and exists (select 1 from s t where t.k = s.x)) l where a.k < 9;
with n as (select count(*) as n from ga_a) select c.k from ga_c c, n where c.k = n.n - 30;
with n as (select n from (select max(id) as n from ga_l) q) select a.k from ga_a a, n where a.x = n.n - 7;
-- Set operations, windows, grouping.
select x from ga_a intersect select x from ga_b;
select x from ga_a except all select x from ga_b;
select a.x from ga_a a join ga_b b on a.x = b.x union select code from ga_r;
select a.x, row_number() over (partition by b.x order by a.k, b.k) from ga_a a join ga_b b on a.x = b.x where a.k < 7;
select a.x, b.t, count(*), grouping(a.x, b.t) from ga_a a join ga_b b on a.x = b.x group by rollup (a.x, b.t);
select a.x, b.t, count(*) from ga_a a join ga_b b on a.x = b.x group by grouping sets ((a.x), (b.t), ());
select a.x, count(distinct b.t), sum(b.k) filter (where b.k > 3) from ga_a a join ga_b b on a.x = b.x group by a.x having count(*) > 4;
select a.x, string_agg(b.t, ',' order by b.k) from ga_a a join ga_b b on a.k = b.k + 1 group by a.x;
-- The key in GROUP BY says what the other columns are.
select a.k, a.t, a.n, count(b.k) from ga_a a left join ga_b b on b.x = a.x group by a.k;
select a.k, a.t, upper(a.t), count(*) from ga_a a join ga_b b on b.x = a.x group by 1 having max(a.n) > 2 order by a.t;
select a.*, count(b.k) from ga_c a left join ga_b b on b.x = a.x group by a.k;
select a.k, a.j, count(b.k) from ga_a a left join ga_b b on b.x = a.x group by a.k;
-- ordered
select a.k, b.k from ga_a a join ga_b b on a.x = b.x order by a.k desc, b.k limit 7 offset 3;
-- ordered
select distinct a.x, b.t from ga_a a join ga_b b on a.x = b.x order by 1, 2;
-- ordered
select distinct on (a.x) a.x, b.k, a.k from ga_a a join ga_b b on a.x = b.x order by a.x, b.k desc, a.k;
-- Rows as values.
select a, b.k from ga_c a join ga_b b on b.x = a.x where a.k < 3;
select count(b), count(*) from ga_c a left join ga_b b on b.x = a.k;
select row_to_json(c), b.k from ga_c c join ga_b b on b.x = c.x where c.k < 4;
select a.k from ga_c a left join ga_b b on b.x = a.k where b is null;
select (c).w, (c).* from ga_c c join ga_b b on b.x = c.x where c.k < 4;
select c::text from ga_c c join ga_b b on b.x = c.x where c.k < 4;
select pg_typeof(c)::text from ga_c c join ga_b b on b.x = c.x where c.k < 4;
select b.k, a, a is null, a::text, coalesce(a::text, 'none') from ga_b b left join ga_c a on a.k = b.x + 10 and a.x > 3;
select b.x, array_agg(a order by a.k), count(distinct a), max(a::text) from ga_b b join ga_c a on a.x = b.x group by b.x;
select a.k, a = c as same, row(a, 1) = row(c, 1) from ga_c a join ga_c c on a.x = c.k;
select s.a, (s.a).w from (select a, b.k from ga_c a join ga_b b on b.x = a.x where a.k < 4) s;
select a, b.* from ga_c a join ga_b b on b.x = a.x where a.k < 3 order by a, b.k;
select a as b, b.k from ga_c a join ga_b b on b.x = a.x where a.k < 3 order by b, b.k;
select ga_c, ga_b.k from ga_c join ga_b using (x) where ga_c.k < 3 order by ga_c, 2;
select w.k from ga_a w join ga_b b on b.x = w.x where (w).n > 3 and (w).comp is not null;
with unread as (select * from ga_a a join ga_b b on a.x = b.x), own as (select 1 as one) select a.k from ga_a a join ga_b b on a.x = b.k and a.k < 5;
select a.ctid from ga_c a join ga_b b on b.x = a.x where a.k = -1;
select b.xmin from ga_c a join ga_b b on b.x = a.x where a.k = -1;
select ctid from ga_l where exists (select 1 from ga_b, ga_c where ga_b.x = ga_c.x and ga_l.ctid is null);
-- Errors are PostgreSQL's.
select a.k / (b.k - b.k) from ga_a a join ga_b b on a.x = b.x;
select a.k / (b.k - b.k) from ga_a a join ga_b b on a.x = b.x where a.k < 0;
select a.nosuch from ga_a a join ga_b b on a.x = b.x;
select x from ga_a a join ga_b b on a.x = b.x;
select (select k from ga_b b where b.t = a.t) from ga_a a;
select a.k from ga_a a join ga_b b on a.x = b.t;
select a.t, count(*) from ga_a a join ga_b b on a.x = b.x group by a.x;
select sum(a.d::ga_d - 2000)::ga_d from ga_a a join ga_b b on a.x = b.x;
-- Views.
select v.k, b.k from ga_v v join ga_b b on v.x = b.x where v.k < 9;
select k from ga_v where x in (select x from ga_b where f);
-- In other statements.
copy (select a.k, b.k from ga_a a join ga_b b on a.x = b.x order by 1, 2) to stdout;
create table ga_tmp as select a.k, a.c, b.g from ga_a a join ga_b b on a.x = b.x;
select * from ga_tmp;
select t.k, a.t from ga_tmp t join ga_a a on a.x = t.g;
drop table ga_tmp;
begin;
insert into ga_e select a.k, b.x, a.t from ga_a a join ga_b b on a.x = b.x;
select count(*), count(distinct e.k), max(e.x) from ga_e e join ga_a a on a.x = e.x;
update ga_r set label = 'changed' where code = 1;
update ga_a set t = 'changed' where k = 3;
insert into ga_l values (100, 'changed');
select r.label, count(a.k) from ga_r r left join ga_a a on a.x = r.code group by 1;
select a.k, l.id from ga_a a join ga_l l on l.t = a.t where l.id = 100;
declare c cursor for select a.k, b.k from ga_a a join ga_b b on a.x = b.x order by 1, 2;
fetch 3 from c;
fetch 2 from c;
close c;
rollback;
begin isolation level repeatable read;
select count(*) from ga_a a join ga_b b on a.x = b.x;
select r.label, count(a.k) from ga_r r left join ga_a a on a.x = r.code group by 1;
commit;
-- simple only
prepare ga_p (int) as select a.k, b.k from ga_a a join ga_b b on a.x = b.x where a.k < $1; execute ga_p (3); execute ga_p (5); deallocate ga_p;
-- A column called as a table is.
select ga_c, count(*) from (select c.w as ga_c, b.k from ga_a a, ga_b b, ga_c c where a.x = b.x and c.x = a.x) g group by ga_c order by ga_c;
select ga_c from (select a.t as ga_c, a.x from ga_a a) g join ga_b b on g.x = b.x where ga_c is not null order by ga_c, b.k limit 5;
select ga_b.x, (select max(ga_b) from (select t as ga_b, x from ga_e) g where g.x = ga_b.x) from ga_b;
-- EXISTS asks for no column.
select k from ga_a a where exists (select * from ga_b b where b.t = a.t and b.x > 2) and not exists (select c.* from ga_c c where c.x = a.x and c.w = a.t);
select k from ga_a a where exists (select * from ga_b b join ga_c c using (x) where b.t = a.t);
select k from ga_a a where exists (select * from ga_b b where b.t = a.t order by 2) and exists (select * from ga_e e where e.x = a.x except select * from ga_b b2 where false);
select k from ga_a a where exists (select distinct * from ga_e e where e.t = a.t) and exists (select from ga_c c where c.x = a.x);
-- Enough rows to be joined as PostgreSQL joins its own: tables it has analysed, and an index for what is looked up row by row.
select count(*), sum(p.k * q.x) from (select a.k, a.x, a.t from ga_a a, generate_series(1, 60)) p join ga_b q on p.x = q.x join ga_l l on l.t = p.t;
begin;
insert into ga_b select i, i % 50, 't' || i % 9 from generate_series(1, 3000) i;
select a.k, (select sum(b.k) from ga_b b where b.x = a.x and a.t = b.t) from ga_a a;
select c.k, l.k from ga_c c cross join lateral (select b.k from ga_b b where b.x = c.x order by b.k desc limit 1) l;
select r.label, l.k from ga_r r left join lateral (select b.k from ga_b b where b.x = r.code order by b.k desc limit 1) l on true;
select a.k, array(select b.k from ga_b b where b.t = a.t and b.x = a.x order by 1 limit 2), (select count(b.f) from ga_b b where b.f = (a.k > 3)) from ga_a a;
select a.comp, count(*) from ga_a a join ga_b b on b.x = a.x group by 1;
select a.j::text, a.e, a.d from ga_a a join ga_b b on b.x = a.x and b.k = a.k;
rollback;
-- What follows from each of several alternatives for one table; constants that are computed.
select a.k, b.k from ga_a a join ga_b b on a.x = b.x where (a.t = 't1' and b.k < 5 and a.k > 2) or (a.t = 't2' and b.k in (7, 8)) or (a.k = 9 and b.t is null);
select a.k, b.k from ga_a a join ga_b b on a.x = b.x where (a.t = 't1' or b.k < 3) and (a.k < 10 or (a.n > 5 and b.f));
select a.k, b.k from ga_a a left join ga_b b on a.x = b.x and ((a.t = 't1' and b.k < 5) or (a.t = 't2' and b.k > 5)) where a.k < 12 or a.t = 't3' and a.e = 'low';
select a.k, b.k from ga_a a left join ga_b b on a.x = b.x where (b.k < 5 and a.k < 20) or (b.k is null and a.k > 20);
select count(*) from ga_a a join ga_b b on a.x = b.x where a.ts >= date '2024-02-05' and a.ts < date '2024-02-05' + interval '10' day and b.k between 2 + 3 and 4 * 5 - 2;
select a.k, (select count(*) from ga_b b where b.x = a.x and b.k < 10 - 3) from ga_a a where a.ts < timestamp '2024-03-05 00:00' - interval '1 month' and a.n between 1.5 - 0.5 and 2.5 * 2;
select count(*) from ga_a a join ga_b b on a.x = b.x where a.k < 2147483647 + 1;
-- Values with a collation of their own travel under any setting of how dates look.
set datestyle = 'Postgres, MDY';
select a.k, a.z, b.k from ga_a a join ga_b b on a.x = b.x where a.k < 8;
select max(a.z), count(distinct a.z) from ga_a a;
set extra_float_digits = 0;
select a.k, a.z from ga_a a, ga_b b where a.x = b.x and b.k = 4;
reset extra_float_digits;
reset datestyle;
-- Still refused.
select a.k from ga_a a join ga_b b on a.x = b.x for update;
select a.k from ga_a a tablesample system (100), ga_b b where a.x = b.x and a.k < 0;
