-- Who asks sees of gathered tables what PostgreSQL shows: policies, grants of tables and columns, views with their owners' rights.
--! teardown
drop view if exists gar_bar, gar_v, gar_agg, gar_inv, gar_colv;
drop table if exists gar_a, gar_b, gar_c, gar_r, gar_l;
drop schema if exists gar_s cascade;
drop role if exists gar_ann;
--! setup
create role gar_ann;
create table gar_a (id int primary key, owner name, v int);
create table gar_b (k bigint primary key, x int, t text);
create table gar_c (k int primary key, x int, hidden text);
create table gar_r (code int primary key, label text);
create table gar_l (id int primary key, t text);
create schema gar_s;
create table gar_s.d (id int primary key, v int);
--! distribute gar_a id
--! distribute gar_b k
--! distribute gar_c k colocate_with => 'none'
--! reference gar_r
--! distribute gar_s.d id
alter table gar_a enable row level security;
create policy own on gar_a using (owner = current_user);
create view gar_bar with (security_barrier) as select k, x, t from gar_b where x < 4;
create view gar_v as select k, x from gar_b where x < 5;
create view gar_agg as select x, count(*) as n from gar_b group by x;
create view gar_inv with (security_invoker) as select id, v from gar_a;
create view gar_colv as select k, x, t from gar_b;
grant select on gar_a, gar_r to gar_ann;
grant all on gar_s.d to gar_ann;
grant select (k, x) on gar_c to gar_ann;
grant select on gar_bar, gar_v, gar_agg, gar_inv to gar_ann;
grant select (k) on gar_colv to gar_ann;
insert into gar_a select i, case when i % 2 = 0 then 'gar_ann' else 'other' end, i % 5 from generate_series(1, 20) i;
insert into gar_b select i, i % 6, 't' || i from generate_series(1, 18) i;
insert into gar_c select i, i % 4, 'h' || i from generate_series(1, 12) i;
insert into gar_r select i, 'r' || i from generate_series(1, 4) i;
insert into gar_l select i, 't' || i from generate_series(1, 4) i;
--! tests
select a.id, c.k from gar_a a join gar_c c on a.v = c.x;
set role gar_ann;
select a.id, c.k from gar_a a join gar_c c on a.v = c.x;
select count(*) from gar_a a left join gar_c c on a.v = c.x and c.k < 3;
select a.id, c.hidden from gar_a a join gar_c c on a.v = c.x;
select v from gar_s.d where id = 2;
explain (costs off) select v from gar_s.d where id = 2;
explain (costs off) update gar_s.d set v = v where id = 2;
explain (analyze, costs off) delete from gar_s.d where id = 2;
explain (costs off, format json) select v from gar_s.d where id = 2;
explain (costs off) select count(*) from gar_s.d;
explain (costs off) select a.id, l.t from gar_a a join gar_l l on a.v = l.id;
explain (costs off) select a.id, c.hidden from gar_a a join gar_c c on a.v = c.x;
select a.id from gar_a a join gar_c c on a.v = c.x where c.hidden = 'h1';
select * from gar_a a join gar_c c on a.v = c.x;
select count(c) from gar_a a join gar_c c on a.v = c.x;
select a.id, b.k from gar_a a join gar_b b on a.v = b.x;
select count(*) from gar_a, gar_b;
select r.label, a.id from gar_r r left join gar_a a on a.v = r.code;
select l.t, a.id from gar_l l join gar_a a on a.v = l.id;
select a.id, w.k from gar_a a join gar_bar w on a.v = w.x;
select a.id, w.k from gar_a a join gar_v w on a.v = w.x where w.k < 9;
select a.id, w.id from gar_a a join gar_inv w on a.v = w.id;
select id from gar_a where v in (select x from gar_bar where k > 3);
select id, (select count(*) from gar_v w where w.x = a.v) from gar_a a;
select id, (select count(*) from gar_bar w where w.x = a.v) from gar_a a;
select id, (select count(*) from gar_inv w where w.v = a.v) from gar_a a;
select a.id, w.k from gar_a a join gar_colv w on a.v = w.k;
select a.id, w.t from gar_a a join gar_colv w on a.v = w.k;
select a.id, w.n from gar_a a join gar_agg w on a.v = w.x;
reset role;
select w.n, a.id from gar_a a join gar_agg w on a.v = w.x;
select a.id, w.k from gar_a a join gar_bar w on a.v = w.x;
