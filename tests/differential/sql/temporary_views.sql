-- Temporary views over distributed, reference and local tables: made, read beside others, replaced, changed, dropped.
--! teardown
drop table if exists tv_a, tv_b, tv_r, tv_l, tv_s cascade;
drop domain if exists tv_word;
drop function if exists tv_text(text);
--! setup
create table tv_a (k integer primary key, v integer, t text);
create table tv_b (k integer primary key, w text);
create table tv_r (id integer primary key, n text);
create table tv_l (id integer primary key, m text);
create table tv_s (k integer, n integer);
--! distribute tv_a k
--! distribute tv_b k
--! reference tv_r
insert into tv_a select i, i % 7, 't' || i % 5 from generate_series(1, 40) i;
insert into tv_b select i, 'w' || i % 4 from generate_series(1, 30) i;
insert into tv_r select i, 'n' || i from generate_series(0, 9) i;
insert into tv_l select i, 'm' || i from generate_series(0, 5) i;
--! reset
drop view if exists pg_temp.tv_all, pg_temp.tv_groups, pg_temp.tv_mixed, pg_temp.tv_ref, pg_temp.tv_over, pg_temp.tv_own, pg_temp.tv_next, pg_temp."Tv Odd", pg_temp.tv_b, pg_temp.tv_made cascade;
drop table if exists pg_temp.tv_t cascade;
delete from tv_s;
--! tests
create temp view tv_all as select * from tv_a;
select count(*), sum(v), max(t) from tv_all;
select * from tv_all where k = 5;
-- params: 7
select t from tv_all where k = $1;
select a.k, a.v, b.w from tv_all a join tv_b b using (k) where a.k < 9;
select x.key, x.* from tv_all as x (key) where x.key < 3;
create temporary view tv_groups (v, rows) as select v, count(*) from tv_all group by v having count(*) > 5;
-- ordered
select * from tv_groups order by v;
select g.v, g.rows, r.n from tv_groups g join tv_r r on r.id = g.v;
create temp view tv_mixed as select a.k, a.t, l.m, r.n from tv_a a join tv_l l on l.id = a.v join tv_r r on r.id = a.v;
select count(*), min(m), max(n) from tv_mixed;
select * from tv_mixed where k = 3;
create temp view tv_ref as select * from tv_r where id < 8;
select * from tv_ref;
select a.k, f.n from tv_a a left join tv_ref f on f.id = a.v where a.k < 10;
-- a view over a temporary view is temporary
create view tv_over as select t, count(*) as rows from tv_all group by t;
select * from tv_over;
create temp table tv_t (k integer, word text);
insert into tv_t values (1, 'one'), (2, 'two'), (50, 'fifty');
create temp view tv_own as select word, v from tv_t left join tv_a using (k);
select * from tv_own;
insert into tv_t select k, t from tv_all where k > 38;
select * from tv_t;
insert into tv_s select k, v from tv_all where v = 2;
update tv_s set n = rows from tv_groups where tv_groups.v = tv_s.n;
select * from tv_s;
delete from tv_s using tv_all where tv_all.k = tv_s.k and tv_all.t = 't0';
select count(*) from tv_s;
with tv_all as (select 1 as one) select * from tv_all;
select (select count(*) from tv_all i where i.v = o.v) from tv_all o where o.k < 4;
select row_to_json(g) from tv_groups g where g.v = 1;
create or replace temp view tv_all as select k, v, t, k * 2 as twice from tv_a where k < 20;
select count(*), sum(twice) from tv_all;
select * from tv_groups;
create or replace temp view tv_all as select k from tv_a;
alter view tv_all rename column twice to doubled;
select max(doubled) from tv_all;
select max(twice) from tv_all;
alter view tv_all rename to tv_next;
select count(*) from tv_next;
select count(*) from tv_all;
begin;
create temp view tv_made as select * from tv_a where k > 10;
select count(*) from tv_made;
savepoint s;
create or replace temp view tv_made as select * from tv_a where k > 20;
select count(*) from tv_made;
rollback to s;
select count(*) from tv_made;
rollback;
select count(*) from tv_made;
-- it hides the table of its name
create temp view tv_b as select k, v from tv_a where k < 4;
select * from tv_b;
select count(*) from public.tv_b;
select count(*) from pg_temp.tv_b;
drop view tv_b;
select count(*) from tv_b;
create temp view "Tv Odd" as select k as "The Key", t from tv_a;
select "The Key" from "Tv Odd" where "The Key" in (3, 4);
drop view tv_next;
drop view tv_next cascade;
select * from tv_groups;
create temp view tv_all as select 1 as k, 2 as k from tv_a;
create temp view tv_all as select * from tv_none;
-- what nobody writes through
create temp view tv_all as select * from tv_a;
begin;
insert into tv_all values (100, 1, 'x');
rollback;
begin;
update tv_all set v = 1 where k = 1;
rollback;
begin;
delete from tv_ref;
rollback;
create temp view tv_made as select * from tv_r where id > 1 with check option;
-- nor where writing may run code that is given as text: a domain asks for that
create function tv_text(text) returns boolean language plpgsql as $$ begin execute 'select $1' using $1; return true; end $$;
create domain tv_word as text check (tv_text(value));
begin;
insert into tv_all values (100, 1, 'x');
rollback;
begin;
update tv_all set v = 1 where k = 1;
rollback;
begin;
with gone as (delete from tv_ref returning *) select * from gone;
rollback;
select count(*) from tv_all;
drop domain tv_word;
drop function tv_text(text);
