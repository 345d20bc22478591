-- UPDATE, DELETE and MERGE that read other tables: not colocated, local, reference, or the changed table itself.
--! setup
create domain cf_dom as text check (value <> 'never');
create type cf_mood as enum ('low', 'high');
create table cf_t (id int primary key, k int, v numeric(10,2), s text, d cf_dom, tags int[]);
create table cf_o (oid_ int primary key, tid int, w int, s varchar(10), d cf_dom, tags int[]);
create table cf_c (id int primary key, q int);
create table cf_ref (code int primary key, f int);
create table cf_l (n int, id int, note text);
create table "Cf_Odd" ("Id" int primary key, "select" text, "$1" int);
--! distribute cf_t id
--! distribute cf_o oid_ colocate_with => 'none'
--! distribute cf_c id colocate_with => 'cf_t'
--! distribute "Cf_Odd" Id
--! reference cf_ref
--! reset
truncate cf_t, cf_o, cf_c, cf_ref, cf_l, "Cf_Odd";
insert into cf_t select i, i % 7, i * 1.5, case when i % 5 = 0 then null else 's' || i % 4 end, 'd' || i % 3, array[i, null, i % 3] from generate_series(1, 40) i;
insert into cf_o select i, nullif(i * 3 % 45, 0), i % 6, case when i % 4 = 0 then null else 's' || i % 5 end, 'd' || i % 4, case when i % 3 = 0 then null else array[i] end from generate_series(1, 30) i;
insert into cf_c select i, i * 10 from generate_series(1, 20) i;
insert into cf_ref select i, i * 100 from generate_series(0, 6) i;
insert into cf_l select i, i * 2, case when i % 3 = 0 then null else 'n' || i end from generate_series(1, 12) i;
insert into "Cf_Odd" select i, 'o''' || i, i from generate_series(1, 10) i;
--! teardown
drop table if exists cf_t, cf_o, cf_c, cf_ref, cf_l, "Cf_Odd";
drop domain if exists cf_dom;
drop type if exists cf_mood;
--! tests
update cf_t set v = o.w from cf_o o where o.oid_ = cf_t.k;
select * from cf_t;
update cf_t t set s = o.s, d = o.d, tags = o.tags from cf_o o where o.oid_ = t.k and o.w > 1 and t.id < 30 returning t.id, t.s, o.s, o.d, t.tags;
update cf_t set s = note from cf_l l where l.id = cf_t.id;
update cf_t set s = note from cf_l l where l.id = cf_t.id and l.note is not null returning *;
update cf_t set s = note from cf_l l where l.id = cf_t.id returning cf_t.*, l.*;
update public.cf_t set s = l.note from public.cf_l l where l.id = public.cf_t.id returning public.cf_t.id;
update cf_t set v = (select max(w) from cf_o);
update cf_t set v = (select max(v) from cf_t);
select distinct v from cf_t;
update cf_t set v = v - (select avg(v) from cf_t) where v > (select avg(v) from cf_t) returning id, v;
update cf_t set v = 0 where id in (select tid from cf_o where w = 3);
update cf_t set v = 0 where id not in (select tid from cf_o where w = 3);
update cf_t set v = 0 where id not in (select tid from cf_o where tid is not null) returning id;
update cf_t set v = 0 where (id in (select tid from cf_o)) is null returning id;
update cf_t t set v = (select sum(o.w) from cf_o o where o.tid = t.id);
update cf_t t set v = (select o.w from cf_o o where o.s = t.s order by o.oid_ desc limit 1) returning id, v;
update cf_t t set (v, s) = (select o.w, o.s from cf_o o where o.oid_ = t.k) where t.id > 5 returning id, v, s;
update cf_t t set (v, s) = (select max(w), min(s) from cf_o) where t.id > 5 returning id, v, s;
update cf_t t set v = 1 where exists (select 1 from cf_o o where o.tid = t.id);
update cf_t t set v = 1 where not exists (select from cf_o o where o.tid = t.id and o.w > 2) returning id;
update cf_t t set v = 1 where exists (select from cf_o where w = 5);
update cf_t t set v = 1 where not exists (select * from cf_o where w = 500) returning count(*) is null;
update cf_t t set v = 1 where not exists (select * from cf_o where w = 500) returning id;
update cf_t t set v = 2 where k = any (select w from cf_o where oid_ < 4) returning id;
update cf_t t set v = 2 where k > all (select w from cf_o where oid_ < 4) returning id;
update cf_t t set v = 2 where array(select w from cf_o where oid_ < 4 order by w) @> array[k] returning id;
update cf_t t set v = (select count(*) from cf_t u where u.k = t.k);
update cf_t t set v = u.v from cf_t u where u.id = t.k returning t.id, t.v;
update cf_t t set v = u.v from cf_t u where u.id = t.id + 1 and t.id = 7 returning t.id, t.v, u.id;
update cf_t t set v = (select max(v) from cf_t where id < 8) where id = 7 returning v;
update cf_t t set v = v where id = 7 returning (select count(*) from cf_t), (select max(w) from cf_o);
update cf_t set v = c.q + o.w from cf_c c, cf_o o where c.id = cf_t.id and o.oid_ = c.q / 10 returning cf_t.id, v;
update cf_t set v = c.q from cf_c c left join cf_o o on o.oid_ = c.q where c.id = cf_t.id returning cf_t.id, v, o.w;
update cf_t set v = c.q from cf_o o left join cf_c c on o.oid_ = c.id where o.oid_ = cf_t.id returning cf_t.id, v, o.w;
update cf_t set v = r.f + o.w from cf_ref r join cf_o o on o.w = r.code where o.oid_ = cf_t.id and o.oid_ between 2 and 9 returning cf_t.id, v;
update cf_t set v = q.m from (select tid, max(w) as m from cf_o group by tid) q where q.tid = cf_t.id returning cf_t.id, v;
update cf_t set v = q.m from (select tid, max(w) from cf_o group by tid) q(t, m) where q.t = cf_t.id returning *;
update cf_t set v = m from cf_o o join lateral (select max(q) as m from cf_c c where c.id = o.tid) l on true where o.oid_ = cf_t.id returning cf_t.id, v;
update cf_t set v = m from cf_l l join lateral (select q as m from cf_c c where c.id = l.id) x on true where l.n = cf_t.id returning cf_t.id, v;
update cf_t set v = g from generate_series(1, 3) g, cf_o o where o.oid_ = g and cf_t.id = o.tid returning cf_t.id, v;
update cf_t set v = a.x from (values (1, 10), (2, 20)) a(k, x), cf_o o where o.oid_ = a.k and cf_t.id = o.tid returning cf_t.id, v;
with q as (select tid, max(w) as m from cf_o group by tid) update cf_t set v = q.m from q where q.tid = cf_t.id returning cf_t.id, v;
with q(t, m) as (select tid, max(w) from cf_o group by tid) update cf_t set v = m from q where t = cf_t.id;
with q as (select tid from cf_o where w > 2), r as (select tid from q where tid > 10) update cf_t set v = -1 where id in (select tid from r) returning id;
with q as (select tid from cf_o order by oid_ limit 5) update cf_t set v = -1 where id in (select tid from q) or id = (select max(tid) from q) returning id;
with recursive q(n) as (select 1 union all select n + 1 from q where n < (select max(w) from cf_o)) update cf_t set v = n from q where n = cf_t.id returning id, v;
with q as (select id from cf_l) update cf_t set v = -2 where id in (select id from q) returning id;
-- params: 3, 20
update cf_t set v = o.w from cf_o o where o.oid_ = cf_t.k and o.w <> $1 and cf_t.id < $2 returning id, v;
-- params: 5, abc
update cf_t set s = $2 where id in (select tid from cf_o order by oid_ limit $1) returning id, s;
-- params: 5
update cf_t set v = (select count(*) + $1 from cf_o where w < $1) where id = $1 returning v;
-- params: NULL
update cf_t set v = o.w from cf_o o where o.oid_ = cf_t.k and o.w = $1;
-- params: '{1,2,3}'
update cf_t set v = 9 where id in (select tid from cf_o where oid_ = any ($1)) returning id;
update cf_t set v = 1 where id in (select id from cf_t order by v desc, id limit 3) returning id;
delete from cf_t where id in (select id from cf_t order by v desc, id limit 3) returning id;
delete from cf_t using cf_o o where o.tid = cf_t.id and o.w = 2 returning cf_t.id, o.oid_;
delete from cf_t using cf_o o where o.tid = cf_t.id and o.w = 2 and cf_t.id = 12 returning *;
delete from cf_t a using cf_t b where a.k = b.k and a.id > b.id returning a.id;
delete from cf_t t where not exists (select 1 from cf_o o where o.tid = t.id);
delete from cf_t where id not in (select tid from cf_o);
delete from cf_t where k < (select avg(w) from cf_o);
delete from cf_t where id in (select id from cf_l where note is null) returning id;
delete from cf_t using cf_l l, cf_c c where l.id = cf_t.id and c.id = l.n returning cf_t.id, c.q, l.note;
delete from cf_t t where exists (select 1 from cf_o o where o.tid = t.id and o.w in (select f / 100 from cf_ref where f < 300)) returning id;
delete from cf_t t where exists (select 1 from cf_o o where o.tid = t.id and o.w in (select w from cf_o order by oid_ limit 2)) returning id;
delete from cf_t t where s in (select s from cf_o union select note from cf_l) returning id;
delete from cf_t t where exists (select o.s from cf_o o where o.s = t.s except select l.note from cf_l l where l.id = t.id) returning id;
delete from cf_t where id in (select code from cf_ref order by code limit 2) returning id;
delete from cf_t where id = (select tid from cf_o where oid_ = 1) returning id;
delete from cf_t where nocolumn in (select tid from cf_o);
delete from cf_t where id in (select nocolumn from cf_o);
delete from cf_t using cf_o o where id = o.id;
-- params: 4
delete from cf_t using (select tid, w from cf_o where w = $1) q where q.tid = cf_t.id returning id;
update cf_t set s = o."select", v = o."$1" from "Cf_Odd" o where o."Id" = cf_t.k returning id, s, v, o."Id";
update "Cf_Odd" set "select" = note from cf_l where cf_l.id = "Id" returning "Cf_Odd".*;
update cf_t set v = extract(epoch from now() - now()) from cf_o o where o.tid = cf_t.id and now() = now() returning id, v;
update cf_t set s = (now() = q.t)::text from (select now() as t, tid from cf_o) q where q.tid = cf_t.id returning id, s;
begin;
insert into cf_o values (100, 39, 77, 'new', 'd1', null);
update cf_t set v = o.w from cf_o o where o.tid = cf_t.id and o.w = 77 returning id, v;
delete from cf_o where oid_ in (select w from cf_o);
update cf_t set v = (select count(*) from cf_o);
select count(*), min(v), max(v) from cf_t;
rollback;
begin isolation level repeatable read;
update cf_t set v = o.w from cf_o o where o.tid = cf_t.id;
delete from cf_t where id in (select tid from cf_o where w = 1) returning id;
-- ordered
select id, v from cf_t order by id;
commit;
create temporary table cf_tmp (id int, x text);
insert into cf_tmp values (1, 'tmp1'), (20, null), (33, 'tmp33');
update cf_t set s = m.x from cf_tmp m where m.id = cf_t.id returning cf_t.id, s, m.*;
delete from cf_t where id in (select id from cf_tmp) returning id;
update cf_tmp set x = o.s from cf_o o where o.oid_ = cf_tmp.id returning *;
drop table cf_tmp;
update cf_l set note = t.s from cf_t t where t.id = cf_l.id returning *;
update cf_l set note = t.s from cf_t t, cf_o o where t.id = cf_l.id and o.oid_ = t.k returning cf_l.n, o.w;
update cf_l set note = (select max(s) from cf_t);
update cf_l set note = (select max(s) from cf_t where cf_t.k = cf_l.n) returning n, note;
update cf_l set note = 'x' where id in (select id from cf_t where k = 2) and n not in (select n from cf_l where n > 5) returning *;
delete from cf_l using cf_t t where t.id = cf_l.id and t.k = 4 returning cf_l.*, t.k;
delete from cf_l where not exists (select from cf_o where cf_o.tid = cf_l.id);
-- params: 4
delete from cf_l using cf_t t where t.id = cf_l.id and t.k = $1 returning cf_l.*;
merge into cf_l using cf_t t on t.id = cf_l.id when matched and t.k > 3 then delete when matched then update set note = t.s when not matched then insert values (-1, t.id, t.s);
-- ordered
select * from cf_l order by n, id;
merge into cf_t t using cf_o o on o.oid_ = t.id when matched and o.w = 2 then delete when matched then update set v = o.w;
-- ordered
select id, v from cf_t order by id;
merge into cf_t t using (select tid, max(w) as m from cf_o group by tid) o on o.tid = t.id when matched then update set v = o.m when not matched then do nothing;
merge into cf_t t using cf_l l on l.id = t.id when matched and l.note is null then delete when matched then update set s = l.note;
merge into cf_t t using cf_c c on c.id = t.id when matched then update set v = c.q;
merge into cf_t t using cf_o o on o.tid = t.k when matched then update set v = o.w;
update cf_t set v = 5 where ctid in (select ctid from cf_t limit 2);
update cf_t set id = id where id in (select tid from cf_o) returning id;
update cf_t set id = id + 1000 where id in (select tid from cf_o where w = 1) returning id;
update cf_t set v = o.w, id = cf_t.id + 2000 from cf_o o where o.oid_ = cf_t.id and o.w = 2;
update cf_t t set v = (select count(*) from (select * from cf_o limit 3) o where o.tid is null or t.id > 0) returning v;
update cf_t set v = random() * 0 where id in (select tid from cf_o where random() < 2) returning id, v;
-- A parameter of an own type that the rows which are read do not need.
-- params: n1, high
update cf_l set note = note || '!' from cf_o o where o.oid_ = 2 and o.oid_ = cf_l.id returning case when note = $1::text and $2::cf_mood is distinct from 'low' then note end;
-- params: n2, low
update cf_l set note = note || '!' from cf_o o where o.oid_ = 4 and o.oid_ = cf_l.id returning case when note = $1::text or $2::cf_mood = 'low' then note end;
-- params: n7, high
update cf_l set note = note || '!' from cf_o o where o.oid_ = 14 and o.oid_ = cf_l.id returning case when note = $1::text or $2::cf_mood = 'low' then note end;
