-- INSERT … VALUES of one row that reads distributed tables.
--! setup
create table ir_d (k int, id int, v int, t text, primary key (k, id));
create table ir_e (k int, v bigint);
create table ir_r (id int primary key, v int, t varchar(4), n numeric(6, 2), at timestamptz);
create table ir_l (id serial primary key, v int default 7, t text, g int generated always as (v * 2) stored, at timestamp default '2026-01-01');
create table ir_id (id int generated always as identity, k int, v int, primary key (k));
create table ir_none (k int, v int);
--! distribute ir_d k
--! distribute ir_e k colocate_with => 'none'
--! distribute ir_id k
--! distribute ir_none k
--! reference ir_r
create view ir_v as select k, sum(v) as s from ir_d group by k;
create view ir_of_r as select id, v from ir_r;
--! reset
delete from ir_d;
delete from ir_e;
delete from ir_r;
delete from ir_l;
delete from ir_id;
insert into ir_d select g % 7, g, nullif(g % 11, 3), 'd' || g from generate_series(1, 40) g;
insert into ir_e select g, g * 10 from generate_series(1, 15) g;
--! tests
insert into ir_d values (50, (select max(id) + 1 from ir_d), 3, 'x') returning *;
insert into ir_d (k, id, v) values ((select max(k) from ir_d) + 1, 1, (select count(*) from ir_e)) returning k, id, v;
insert into ir_d (k, id, v, t) values ((select count(*) from ir_none), 100, (select v from ir_none), default) returning *;
insert into ir_r values (1, (select sum(v) from ir_d where k = 3), 'a', (select avg(v) from ir_e), '2026-02-03 00:00+00') returning *;
insert into ir_r values (2, (select v from ir_e where k = 100), null, 1, null);
insert into ir_r (id, t) values (3, (select t || 'too long' from ir_d where id = 5));
insert into ir_r (id, v) values (4, (select max(v) * 1000000000 from ir_e));
insert into ir_r (id, n) values (5, (select sum(v) / 3.0 from ir_e)), (6, 1);
insert into ir_r (id, n) values (7, (select sum(v) / 3.0 from ir_e)) returning n;
insert into ir_r (id, v) values (1, (select min(id) from ir_d)) on conflict (id) do update set v = excluded.v + ir_r.v returning id, v;
insert into ir_r (id, v) values (1, (select min(id) from ir_d)) on conflict do nothing;
insert into ir_d (k, id, v) values (1, 1, (select count(*) from ir_e)) on conflict (k, id) do update set v = excluded.v returning *;
insert into ir_d (k, id, v) values (1, 1, (select count(*) from ir_e)) on conflict do nothing returning *;
insert into ir_d (k, id) values (1, (select id from ir_d where k = 1));
insert into ir_l (v, t) values ((select count(*) from ir_d), default) returning v, t, g, at;
insert into ir_l (id, v, g, at) values (1000, (select max(v) from ir_e), default, default) returning *;
insert into ir_l (id, v) values (1001, (select s from ir_v where k = 2)), (1002, 5);
insert into ir_l values (1005, (select max(v) from ir_e), default);
insert into ir_l (id, v) values (1003, (select s from ir_v where k = 2)) returning id, v;
insert into ir_l (id, v) values (1004, (select v from ir_of_r where id = 1)) returning id, v;
insert into ir_id (k, v) values (5, (select count(*) from ir_d));
insert into ir_id (k, id, v) values (6, default, (select count(*) from ir_d));
insert into ir_id (k, id, v) values (7, 9, (select count(*) from ir_d));
select k, v from ir_id order by 1;
insert into ir_d (k, id) values (exists (select from ir_e)::int, 700) returning k, id;
insert into ir_d (k, id) values (case when 5 in (select k from ir_e) then 9 end, 701) returning k, id;
insert into ir_d (k, id, v) values (8, 702, count(*) + (select 1 from ir_e limit 1));
insert into ir_d (k, id, v) values (8, 703, k + (select max(k) from ir_e));
insert into ir_d (k, id, v) values (8, 704, row_number() over () + (select max(k) from ir_e));
insert into ir_d (k, id, v) values (8, 705, (select max(k) from ir_e), 'x', 5);
insert into ir_d (k, id, v) values (8, (select max(k) from ir_e));
insert into ir_d (k, id, v) values ('8', '706', (select max(k) from ir_e)) returning *;
insert into ir_d (k, id, v) values ('eight', 707, (select max(k) from ir_e));
insert into ir_d (k, id, t) values (8, 708, (select max(k) from ir_e)) returning *;
insert into ir_r (id, at) values (8, 'now'), (9, (select max('2026-01-01'::timestamptz) from ir_e));
insert into ir_r (id, at) values (10, (select max(timestamptz '2026-01-01 00:00+00' + v * interval '1 day') from ir_e)) returning id, at;
-- params: 60, 'p'
insert into ir_d (k, id, v, t) values ($1, 1, (select count(*) from ir_e), $2) returning *;
-- params: 61, 5
insert into ir_d (k, id, v) values ($1::int, (select max(v) from ir_d where k = $2::int), $2::int) returning *;
begin;
insert into ir_e values (200, 2000);
insert into ir_d (k, id, v) values (70, 1, (select max(v) from ir_e)) returning *;
insert into ir_r (id, v) values (70, (select max(v) from ir_e)) returning id, v;
savepoint s;
insert into ir_d (k, id, v) values (70, 1, (select max(v) from ir_e));
rollback to s;
commit;
select * from ir_d where k >= 50 order by 1, 2;
select id, v, t, n from ir_r order by 1;
select v, t, g from ir_l order by 1;
--! teardown
drop table ir_d, ir_e, ir_r, ir_l, ir_id, ir_none cascade;
