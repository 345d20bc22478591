-- Temporary tables of what several nodes have: made by CREATE TABLE AS and SELECT INTO, filled by INSERT … SELECT, read and dropped.
--! teardown
drop table if exists te_a, te_b, te_l cascade;
--! setup
create table te_a (k integer primary key, v integer, t text);
create table te_b (k integer primary key, v integer);
create table te_l (k integer, t text);
--! distribute te_a k
--! distribute te_b k
insert into te_a select i, i % 7, 't' || i % 5 from generate_series(1, 40) i;
insert into te_b select i, i % 5 from generate_series(1, 30) i;
--! tests
create temp table te_t as select * from te_a;
select count(*), sum(v), max(t) from te_t;
select a.k, t.v from te_a a join te_t t on t.k = a.v;
create temp table te_t as select k from te_a;
create temp table if not exists te_t as select k from te_a;
select count(*) from te_t where t = 't1';
insert into te_t select k + 100, v from te_b where v > 2;
insert into te_t (t, k) select t, k + 200 from te_a where k < 6 returning k, t, v;
select k, v, t from te_t where k > 99;
insert into pg_temp.te_t select a.k + 300, b.v, 'joined' from te_a a join te_b b on a.v = b.v where a.k < 9;
select count(*), sum(v) from te_t where t = 'joined';
alter table te_t add column more numeric(6, 2) default 1.5;
insert into te_t (k, more) select k + 400, v / 3.0 from te_b where k < 4;
select k, more from te_t where k > 400;
insert into te_t select 1, 2, 3, 4, 5, k from te_a;
drop table te_t;
create temp table te_t (one, two) as select v, count(*) from te_a group by v;
select * from te_t;
insert into te_t select v, k from te_b where k = 3 or v = 1;
select * from te_t;
drop table te_t;
create temp table te_t as select v, k from te_a with no data;
select * from te_t;
drop table te_t;
select v, count(*) as n into temp te_t from te_a group by v;
select * from te_t;
drop table te_t;
select k into pg_temp.te_t from te_a where k < 4;
select * from te_t;
drop table te_t;
create temp table te_t as with x as (select v from te_a group by v) select * from x;
select * from te_t;
drop table te_t;
create temp table te_t as select 1 / (k - 20) as q from te_a;
select * from te_t;
begin;
create temp table te_t on commit drop as select a.k, b.v from te_a a join te_b b on a.v = b.v;
select count(*), sum(v) from te_t;
update te_a set v = v + 1 where k < 10;
insert into te_t select k, v from te_a;
select count(*), sum(v) from te_t;
savepoint s;
insert into te_t select k, v / (k - 5) from te_a;
rollback to s;
select count(*), sum(v) from te_t;
rollback;
select count(*) from te_t;
begin;
create temp table te_t on commit drop as select k from te_a;
commit;
select count(*) from te_t;
create temp table te_t on commit drop as select k from te_a;
select count(*) from te_t;
create temp table te_t (k serial primary key, v integer check (v < 5), w integer generated always as (v * 2) stored);
insert into te_t (v) select v from te_b where k < 5;
select v, w from te_t;
insert into te_t (k, v) select k, 1 from te_b where k < 8 on conflict (k) do update set v = excluded.v + 1;
select v, count(*) from te_t group by v;
prepare te_p as insert into te_t (k, v) select k + $1, 0 from te_b where k < 4;
execute te_p(1000);
alter table te_t add column x text;
execute te_p(2000);
select count(*) from te_t where k > 1000;
drop table te_t;
deallocate te_p;
create temp table te_a as select k, v from te_b;
select count(*), sum(v) from te_a;
insert into te_a select k, v from public.te_a;
select count(*), sum(v) from te_a;
select count(*) from public.te_a;
drop table te_a;
select count(*) from te_a;
-- A function of a temporary table's rows, which only its session's connection knows.
create temp table te_shape (a int, b text);
insert into te_shape values (1, 'x'), (2, 'y');
create function te_of() returns setof te_shape language sql stable as 'select * from te_shape order by a desc';
-- ordered
select * from te_of();
update te_b set v = v where k in (select a from te_of());
-- notices vary
drop table te_shape cascade;
select * from te_of();
