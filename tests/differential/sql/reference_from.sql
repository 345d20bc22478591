-- UPDATE, DELETE and MERGE of reference tables over rows of distributed and local ones.
--! setup
create table rf_r (id int primary key, name text, v int, at timestamptz default now(), n numeric, gen int generated always as (v * 2) stored);
create table rf_pair (a int not null, b text not null, v int, primary key (a, b));
create table rf_bare (id int, v int);
create table rf_child (id int primary key, r int references rf_r on delete cascade, v int);
create table rf_d (k int, id int, v int, t text, primary key (k, id));
create table rf_e (k int, v int);
create table rf_empty (k int, v int);
create table rf_l (id int primary key, v int);
create table rf_part (id int primary key, v int);
--! distribute rf_d k
--! distribute rf_e k colocate_with => 'none'
--! distribute rf_empty k
--! reference rf_r
--! reference rf_pair
--! reference rf_bare
--! reference rf_child
--! reset
delete from rf_child;
delete from rf_r;
delete from rf_pair;
delete from rf_bare;
delete from rf_d;
delete from rf_e;
delete from rf_l;
insert into rf_r (id, name, v, n, at) select g, 'r' || g, g, g / 3.0, '2026-01-01' from generate_series(1, 20) g;
insert into rf_r (id, at) values (21, '2026-01-01');
insert into rf_pair select g % 5, 'p' || g, g from generate_series(1, 20) g;
insert into rf_bare select g, g from generate_series(1, 5) g;
insert into rf_child select g, g, g from generate_series(1, 10) g;
insert into rf_d select g % 7, g, nullif(g % 11, 3), 'd' || g from generate_series(1, 40) g;
insert into rf_e select g, g * 10 from generate_series(1, 15) g;
insert into rf_l select g, g * 100 from generate_series(1, 8) g;
--! tests
update rf_r u set v = d.v, name = d.t from rf_d d where u.id = d.id;
select id, name, v, n, gen from rf_r order by id;
update rf_r u set v = -1 from rf_empty d where u.id = d.k;
update rf_r set v = (select count(*) from rf_d) where id = 3 returning id, v, gen;
update rf_r set v = (select d.v from rf_d d where d.id = rf_r.id) where id < 12;
select id, v from rf_r order by id;
update rf_r set n = (select sum(d.v) from rf_d d where d.k = rf_r.id % 7), name = null where exists (select from rf_d d where d.id = rf_r.id and d.v > 5) returning *;
delete from rf_r where id in (select v from rf_d where k = 3);
select count(*), sum(id) from rf_r;
select count(*), sum(r) from rf_child;
delete from rf_r using rf_e e where e.k = rf_r.id and e.v > 90 returning rf_r.id, e.v;
delete from rf_r where id not in (select k from rf_e);
delete from rf_r where id not in (select v from rf_d);
select id from rf_r order by 1;
delete from rf_r where not exists (select from rf_d d where d.v = rf_r.id);
select id from rf_r order by 1;
update rf_pair p set v = p.v + d.v from rf_d d where d.id = p.v and p.b like 'p1%' returning p.a, p.b, p.v, d.t;
select * from rf_pair order by 1, 2;
update rf_pair p set v = q.s from (select k, sum(v) as s from rf_d group by k) q where q.k = p.a;
select * from rf_pair order by 1, 2;
update rf_pair set b = d.t from rf_d d where d.id = rf_pair.v;
update rf_bare b set v = d.v from rf_d d where d.id = b.id;
delete from rf_bare where id in (select k from rf_d);
update rf_bare b set v = d.v from rf_d d where d.id = b.id and d.k = 3;
delete from rf_bare b using rf_d d where d.k = 4 and d.id = b.id;
select * from rf_bare order by 1;
merge into rf_r u using rf_d d on u.id = d.id when matched and d.v > 5 then delete when matched then update set v = d.v;
select id, v from rf_r order by 1;
merge into rf_r u using (select k + 100 as id, sum(v) as s, count(*) as c from rf_d group by 1) d on u.id = d.id
  when not matched then insert (id, v, name) values (d.id, d.s, 'new ' || d.c) when matched then do nothing;
select id, v, name, gen from rf_r where id >= 100 order by 1;
merge into rf_r u using rf_e e on u.id = e.k when matched and e.v > 50 then update set n = e.v when not matched by source and u.id > 18 then delete;
select id, n from rf_r order by 1;
with x as (select k, max(v) as m from rf_d group by k) update rf_r set v = x.m from x where x.k = rf_r.id returning rf_r.id, v;
with x as (update rf_r set v = 7 where id in (select k from rf_d) returning id) select count(*), min(id) from x;
update rf_r u set v = l.v from rf_l l where l.id = u.id;
select id, v from rf_r order by 1;
update rf_r set v = (select max(v) from rf_l) where id = 5 returning v;
delete from rf_r where id in (select id from rf_l where v > 300);
delete from rf_bare where id in (select id from rf_l);
update rf_r u set v = l.v + d.v from rf_l l join rf_d d on d.id = l.id where l.id = u.id;
select id, v from rf_r order by 1;
merge into rf_r u using rf_l l on u.id = l.id when matched then update set v = l.v when not matched then insert (id, v) values (l.id, l.v);
select id, v from rf_r order by 1;
update rf_r set v = d.v / (d.v - 1) from rf_d d where d.id = rf_r.id;
update rf_r set id = 1 from rf_d d where d.id = rf_r.id and d.id in (4, 5);
update rf_r u set v = d.v from rf_d d where u.id = d.id and d.k = 3;
select id, v from rf_r order by 1;
update rf_r u set v = random()::int * 0 + d.v from rf_d d where u.id = d.id;
select id, v from rf_r order by 1;
-- params: 3, 'x'
update rf_r u set name = $2 || d.t from rf_d d where u.id = d.id and d.k = $1::int returning u.id, u.name;
-- params: 5
delete from rf_r where id = $1 and exists (select from rf_d where k = $1) returning id;
begin;
insert into rf_d values (1, 900, 900, 'fresh'), (2, 901, 901, 'fresh');
insert into rf_r (id, v) values (900, 0), (901, 0);
update rf_r u set v = d.v from rf_d d where u.id = d.id and d.t = 'fresh' returning u.id, u.v;
savepoint s;
delete from rf_r where id in (select id from rf_d where t = 'fresh');
rollback to s;
select id, v from rf_r where id >= 900 order by 1;
commit;
select id, v from rf_r where id >= 900 order by 1;
begin isolation level repeatable read;
update rf_r u set v = d.v from rf_d d where u.id = d.id;
rollback;
update rf_r u set gen = d.v from rf_d d where u.id = d.id;
update rf_r u set nothing = d.v from rf_d d where u.id = d.id;
update rf_r u set v = d.t from rf_d d where u.id = d.id;
update rf_r u set v = default, n = default from rf_d d where u.id = d.id;
select id, v, n from rf_r order by 1;
--! teardown
drop table rf_r, rf_pair, rf_bare, rf_child, rf_d, rf_e, rf_empty, rf_l, rf_part cascade;
