-- Writes through views that PostgreSQL updates by itself, over distributed and reference tables.
--! setup
create table vw (k int, id int, v int default 7, t text default 'none', made timestamptz default '2000-01-01', dbl int generated always as (v * 2) stored, primary key (k, id));
create table vw_src (k int primary key, n int);
create table vw_ref (id int primary key, code text unique, n int default 3, w int default 1);
create table vw_serial (id serial primary key, t text, n int default 1);
create table vw_ident (k int primary key, id bigint generated always as identity, t text);
create table vw_log (region text, id int, n int);
create table vw_local (id int primary key, n int);
create table vw_time (k int primary key, v int, made timestamptz default now());
create table vw_def (k int default 4, t text);
--! distribute vw k
--! distribute vw_src k colocate_with => 'vw'
--! reference vw_ref
--! distribute vw_serial id colocate_with => 'none'
--! distribute vw_ident k colocate_with => 'none'
--! distribute vw_log region strategy => 'list', bounds => array['IN (''a'')', 'DEFAULT']
--! distribute vw_time k
--! distribute vw_def k colocate_with => 'none'
--! reset
drop view if exists vw_time_all, vw_time_less, vw_plain, vw_turned, vw_big, vw_over, vw_cascaded, vw_local_check, vw_loose, vw_hides_key, vw_hides_default, vw_expr, vw_agg, vw_distinct, vw_join, vw_limit, vw_with, vw_union, vw_window, vw_ref_all, vw_ref_some, vw_ref_big, vw_serial_all, vw_serial_less, vw_ident_all, vw_regions, vw_of_local, vw_own_default, vw_three, vw_in_ref, vw_in_dist, vw_over_dist, vw_checked_dist, vw_over_checked, vw_twice, vw_late, vw_def_all, vw_const, vw_alias, vw_set, vw_checked, vw_with_src, vw_with_n cascade;
delete from vw;
delete from vw_src;
delete from vw_ref;
delete from vw_serial;
delete from vw_ident;
delete from vw_log;
delete from vw_local;
delete from vw_def;
delete from vw_time;
alter sequence vw_serial_id_seq restart;
alter table vw_ident alter column id restart;
insert into vw (k, id, v, t) select i % 10, i, i, 't' || i from generate_series(1, 40) i;
insert into vw_src select i, i * 100 from generate_series(0, 12) i;
insert into vw_ref select i, 'c' || i, i, i from generate_series(1, 9) i;
insert into vw_log select case when i % 2 = 0 then 'a' else 'b' end, i, i from generate_series(1, 10) i;
insert into vw_def values (1, 'a'), (4, 'd');
create view vw_plain as select k, id, v, t, made from vw;
create view vw_turned (words, number, key) as select t, id, k from vw;
create view vw_big as select k, id, v from vw where v > 20;
create view vw_over as select id, k as kk, v from vw_big where v < 30;
create view vw_cascaded as select id, k as kk, v from vw_big where v < 30 with cascaded check option;
create view vw_local_check as select id, k as kk, v from vw_big where v < 30 with local check option;
create view vw_loose as select k, id, v from vw where v > 20;
create view vw_hides_key as select id, v, t from vw;
create view vw_hides_default as select k, id, v from vw;
create view vw_expr as select k, id, v, v + 1 as more, upper(t) as loud from vw;
create view vw_agg as select k, count(*) as n from vw group by k;
create view vw_distinct as select distinct k, v from vw;
create view vw_join as select vw.k, vw_src.n from vw join vw_src on vw_src.k = vw.k;
create view vw_limit as select k, id from vw limit 3;
create view vw_with as with x as (select k from vw) select k from x;
create view vw_union as select k from vw union all select k from vw_src;
create view vw_window as select k, row_number() over () as r from vw;
create view vw_set as select k, generate_series(1, 2) as g from vw;
create view vw_ref_all as select id, code, n, w from vw_ref;
create view vw_ref_some (a, b) as select id, n from vw_ref;
create view vw_ref_big as select id, n from vw_ref where n > 4 with check option;
create view vw_serial_all as select id, t, n from vw_serial;
create view vw_serial_less as select t, n from vw_serial;
create view vw_ident_all as select id, t, k from vw_ident;
create view vw_regions as select n as x, region as r, id from vw_log where n < 100;
create view vw_own_default as select k, id, v, t, made from vw;
alter view vw_own_default alter column v set default 99;
alter view vw_own_default alter column k set default 5;
create view vw_three as select * from vw_own_default where id > 0;
create view vw_in_ref as select k, id, v from vw where v in (select n from vw_ref);
create view vw_in_dist as select k, id, v from vw where v in (select k from vw_src);
create view vw_over_dist as select k, id from vw_in_dist where v > (select min(k) from vw_src);
create view vw_checked_dist as select k, id, v from vw where v in (select k from vw_src) with check option;
create view vw_over_checked as select * from vw_checked_dist where id > 0;
create view vw_twice as select k, k as again, id from vw;
create view vw_late as select k, id, v from vw where made < now() + interval '1 day';
create view vw_def_all as select t, k from vw_def;
create view vw_const as select id, v, t, made from vw where k = 3;
create view vw_alias as select x.a as one, x.b as two, x.c as three, t, made from vw x (a, b, c);
create view vw_time_all as select * from vw_time;
create view vw_time_less as select v, k from vw_time;
create view vw_checked as select *, v * 3 as triple from vw where v > 5 with check option;
create view vw_with_src as select * from vw where exists (select from vw_src s where s.k = vw.k and s.n < 900) with check option;
create view vw_with_n as select v.k, v.id, v.v, (select n from vw_src s where s.k = v.k) as n from vw v;
--! teardown
drop table if exists vw, vw_src, vw_ref, vw_serial, vw_ident, vw_log, vw_local, vw_def, vw_time cascade;
--! tests
insert into vw_plain (k, id, v, t) values (50, 1, 2, 'x');
insert into vw_plain values (51, 1, 2, 'y', '2020-01-01'), (52, 1, 3, 'z', '2020-01-02'), (53, 2, default, default, '2020-01-02') returning k, id, v, t;
insert into vw_plain (k, id) values (54, 1), (55, 1), (56, 1) returning *, k + 1 as next;
-- params: 57, 1
insert into vw_plain (k, id) values ($1, $2) returning k, v;
-- params: 58, 59
insert into vw_plain (k, id) values ($1, 1), ($2, 1) returning k;
insert into vw_plain (id, v) values (1, 1);
insert into vw_plain (k, id) values (1, 1);
insert into vw_plain values (1, 2, 3, 'a', now(), 6);
insert into vw_plain (nope) values (1);
insert into vw_plain default values;
select k, id, v, t, dbl from vw where k >= 50;
select count(*) from vw where made is null;
update vw_plain set v = v + 100 where k = 3;
update vw_plain set v = v + 100 where k = 4 returning k, id, v;
-- params: 5, 1000
update vw_plain set v = $2 where k = $1;
update vw_plain set t = 'all' where v < 30;
update vw_plain set t = 'some', v = default where k in (1, 2, 7) returning k, id, t, v;
update vw_plain p set v = s.n from vw_src s where s.k = p.k and p.id < 10 returning p.k, p.id, p.v, s.n;
update vw_plain set (v, t) = (1, 'pair') where k = 6;
update vw_plain set (v, t) = (select n, 'sub' from vw_src s where s.k = vw_plain.k) where id > 30;
update vw_plain set k = 77 where k = 3;
update vw_plain set k = k where k = 3;
update vw_plain set nope = 1;
delete from vw_plain where k = 8;
delete from vw_plain where k = 9 returning k, id;
delete from vw_plain using vw_src s where s.k = vw_plain.k and s.n > 600 returning vw_plain.k, vw_plain.id;
delete from vw_plain where v > 50;
-- ordered
select k, id, v, t, dbl from vw order by k, id;
insert into vw_turned values ('w', 101, 1), ('w', 102, 2), ('w', 103, 3) returning *;
insert into vw_turned (key, number) values (60, 1) returning words;
insert into vw_turned (number, words) values (1, 'no key');
-- params: 61
insert into vw_turned values ('param', 1, $1) returning key, number;
update vw_turned set words = 'turned' where key = 2;
update vw_turned as x set words = x.words || '!' where x.key = 2 and x.number > 20 returning *;
update vw_turned set key = 3 where number = 5;
update vw_turned set key = key + 7 where key = 2;
update vw_turned set (words, key) = ('a', 3) where number = 5;
delete from vw_turned where key = 60 returning *;
delete from vw_turned where number between 10 and 14 returning *;
-- ordered
select k, id, v, t from vw order by k, id;
insert into vw_big values (70, 1, 5), (71, 1, 25), (72, 1, 26) returning *;
select k, id, v from vw where k >= 70;
update vw_big set v = 1 where k = 71;
update vw_big set v = v where true returning k, id;
delete from vw_big where k in (1, 2, 3) returning *;
insert into vw_over (kk, id, v) values (73, 1, 1), (74, 1, 25), (75, 1, 40) returning *;
update vw_over set v = v + 1 where kk = 4 returning *;
update vw_over set v = v + 1 returning id, kk, v;
delete from vw_over where kk = 5 returning *;
insert into vw_cascaded (kk, id, v) values (80, 1, 25);
insert into vw_cascaded (kk, id, v) values (81, 1, 5);
insert into vw_cascaded (kk, id, v) values (81, 1, 35);
insert into vw_cascaded (kk, id, v) values (82, 1, 22), (83, 1, 23), (84, 1, 24) returning *;
insert into vw_cascaded (kk, id, v) values (82, 2, 22), (83, 2, 5), (84, 2, 24);
insert into vw_cascaded (kk, id, v) select k + 500, 1, 5 from vw_src where k = 1;
insert into vw_cascaded (kk, id, v) select k + 500, 1, 25 from vw_src;
update vw_cascaded set v = 5 where kk = 80;
update vw_cascaded set v = 29 where kk = 80 returning v;
update vw_cascaded set v = 31;
update vw_cascaded set v = 21 returning kk;
insert into vw_local_check (kk, id, v) values (90, 1, 5);
insert into vw_local_check (kk, id, v) values (91, 1, 35);
insert into vw_local_check (kk, id, v) values (92, 1, 5), (93, 1, 6);
update vw_local_check set v = 40 where kk = 6;
update vw_local_check set v = 1 where kk = 6 returning *;
-- ordered
select k, id, v from vw order by k, id;
update vw_hides_key set v = v + 1 where id = 15 returning *;
update vw_hides_key set v = v + 1 returning id;
delete from vw_hides_key where id in (3, 4, 5);
insert into vw_hides_key (id, v) values (1, 2);
insert into vw_hides_default (k, id) values (100, 1);
update vw_hides_default set v = 3 where k = 7 returning *;
insert into vw_expr (k, id, v) values (110, 1, 4) returning *;
-- plain refuses
insert into vw_expr (k, id, v, more) values (111, 1, 4, 5);
update vw_expr set v = more where k = 7 returning v, more;
-- plain refuses
update vw_expr set more = 1 where k = 7;
update vw_expr set v = 0 where loud = 'T16';
delete from vw_expr where more > 35 returning id;
insert into vw_agg values (1, 2);
update vw_agg set k = 1;
delete from vw_agg where k = 1;
insert into vw_distinct values (1, 2);
update vw_distinct set v = 1 where k = 1;
delete from vw_join where k = 1;
update vw_join set n = 1;
insert into vw_limit values (1, 2);
delete from vw_limit;
update vw_with set k = 1;
delete from vw_union;
insert into vw_union values (1);
update vw_window set k = 2;
delete from vw_set;
insert into vw_set values (1, 1);
-- ordered
select k, id, v from vw order by k, id;
insert into vw_ref_all values (20, 'new', 1, 2) returning *;
insert into vw_ref_all (id, code) values (21, 'a'), (22, 'b');
insert into vw_ref_all (id, code) values (20, 'a');
insert into vw_ref_all (id, code, n) values (20, 'again', 5) on conflict (id) do update set n = excluded.n, code = excluded.code returning *;
insert into vw_ref_all (id, code, n) values (20, 'again', 5), (23, 'c', 1) on conflict (id) do nothing;
insert into vw_ref_all (id, code) select k + 50, 'r' || k from vw_src where k < 4;
insert into vw_ref_all (id, code) select id + 100, code || '+' from vw_ref where id < 3 returning *;
insert into vw_ref_all (id, code, n) values (90, 'rnd', (random() * 0)::int) returning id, n;
update vw_ref_all set n = n + 1;
update vw_ref_all set n = n + 1 where id = 4 returning id, n;
update vw_ref_all set n = (random() * 0)::int where id = 5 returning n;
update vw_ref_all set w = (select count(*) from vw_ref) where id = 6 returning w;
-- params: 7, 70
update vw_ref_all set n = $2 where id = $1;
delete from vw_ref_all where id = 1;
delete from vw_ref_all where n > 8 returning id, code;
update vw_ref_some set b = 12 where a = 2 returning *;
insert into vw_ref_some values (30, 1), (31, 2) returning *;
insert into vw_ref_some (a) values (32);
insert into vw_ref_some (a, b) select k + 200, k from vw_src where k < 3 returning *;
insert into vw_ref_some (a, b) values (33, (random() * 0)::int);
delete from vw_ref_some where a = 3;
update vw_ref_big set n = 1 where id = 7;
update vw_ref_big set n = n + 1;
insert into vw_ref_big values (40, 3);
insert into vw_ref_big values (40, 30) returning *;
-- ordered
select * from vw_ref order by id;
insert into vw_serial_all (t) values ('one') returning id, t, n;
insert into vw_serial_all (t) values ('two'), ('three') returning id;
insert into vw_serial_all (t, n) select 's' || k, k from vw_src where k = 3 returning id > 0, t;
insert into vw_serial_all values (default, 'four') returning t;
insert into vw_serial_less (t) values ('hidden');
update vw_serial_less set n = 5 where t = 'two' returning *;
delete from vw_serial_less where n = 5;
select t, n from vw_serial where n = 1 or id < 0;
insert into vw_ident_all (k, t) values (1, 'a') returning *;
insert into vw_ident_all (k, t) values (2, 'b'), (3, 'c') returning *;
insert into vw_ident_all (k, id, t) values (4, 77, 'd');
insert into vw_ident_all (k, id, t) overriding system value values (4, 77, 'd') returning *;
insert into vw_regions (r, x, id) values ('a', 1, 50), ('b', 2, 51), ('c', 3, 52) returning *;
insert into vw_regions (x, id) values (4, 53) returning *;
update vw_regions set x = x + 1 where r = 'a' returning *;
update vw_regions set x = x + 1 where r is null returning *;
update vw_regions set r = 'b' where id = 2;
delete from vw_regions where r = 'b' and x > 5 returning *;
-- ordered
select region, id, n from vw_log order by id;
insert into vw_own_default (id) values (1001) returning k, id, v, t;
insert into vw_own_default (k, id) values (6, 1002), (7, 1003) returning k, v;
insert into vw_own_default (k, id, v) values (default, 1004, default), (9, 1005, 1) returning k, v;
update vw_own_default set v = default where k = 6 and id = 1002 returning v;
insert into vw_three (id) values (1006) returning k, id, v, t;
insert into vw_three (id) select k + 2000 from vw_src where k < 3;
update vw_three set v = 0 where k = 5 returning id;
delete from vw_three where k = 5 and id > 1000 returning k, id;
insert into vw_time_all (k, v) values (1, 1) returning k, made = now();
insert into vw_time_all (k, v) values (2, 1), (3, 1), (4, 1);
insert into vw_time_all (k, v) select k + 10, 1 from vw_src;
insert into vw_time_all (k, v) select n, 1 from vw_src where n > 500;
insert into vw_time_less (k, v) values (50, 1);
insert into vw_time_less (k, v) values (51, 1), (52, 1);
insert into vw_time_less (k, v) select n + 1, 1 from vw_src;
update vw_time_all set made = default where k = 2;
select count(*), count(made), count(made) filter (where made > now() - interval '1 minute') from vw_time_less join vw_time using (k);
insert into vw_def_all (t) values ('default key') returning *;
insert into vw_def_all (t) values ('a'), ('b') returning *;
insert into vw_def_all (t) select 's' || k from vw_src where k < 2;
insert into vw_def_all (t, k) values ('null key', null) returning *;
select * from vw_def;
update vw_in_ref set v = v + 100 where k = 3 returning *;
update vw_in_ref set v = v + 100 returning *;
update vw_in_dist set v = 0;
update vw_twice set id = id where k = 2;
begin;
update vw_twice set id = id + 500 where again = 2 returning *;
update vw_twice set again = 2, id = id + 1 where again = 2 returning *;
update vw_twice set k = 2, id = id + 1 where k = 2 and again = 2 returning k, id;
update vw_twice set k = again where id = 10 returning *;
insert into vw_twice (k, id) values (901, 1), (902, 2) returning *;
insert into vw_twice (again, id) values (903, 1), (904, 2) returning *;
insert into vw_twice (id, again) values (1, 905) returning again, k;
insert into vw_twice (again, id) select k + 910, id from vw_src s, lateral (select 1 as id) x where k < 4 returning *;
insert into vw_twice (id) values (5);
rollback;
begin;
insert into vw_twice values (906) returning *;
rollback;
begin;
-- params: 907, 3
insert into vw_twice (again, id) values ($1, $2) returning *;
-- params: 907, 3
update vw_twice set id = $2 + 1 where again = $1 returning *;
-- params: 907
select * from vw_twice where again = $1;
delete from vw_twice where again = 907 returning *;
with x as (update vw_twice set id = id + 700 where again = 2 returning *) select * from x;
rollback;
update vw_twice set again = 3 where k = -1;
update vw_twice set k = 3, again = 3 where id = 10;
insert into vw_twice (k, again, id) values (1, 1, 1);
insert into vw_twice values (1, 1, 1);
insert into vw_twice (k, id) values (2, 2) on conflict (k, id) do update set id = 3;
select * from vw where k > 800 or id > 400;
update vw_late set v = 1 where k = 2;
-- Rows that are added through a view are not held against what it shows, unless it says so.
begin;
insert into vw_in_dist values (950, 1, -5), (951, 1, -5) returning *;
insert into vw_in_dist (k, id, v) values (952, 1, 1) returning v, k;
insert into vw_in_dist (k, id, v) select k + 960, 1, -k from vw_src where k < 4 returning *;
insert into vw_in_dist (k, id, v) values (953, 1, (select max(k) from vw_src));
insert into vw_late (k, id, v) values (954, 1, 2) returning *;
insert into vw_over_dist (k, id) values (955, 1) returning *;
-- params: 956, 7
insert into vw_in_dist (k, id, v) values ($1, 1, $2) returning *;
insert into vw_in_dist (k, id, v) values (950, 1, 1);
rollback;
insert into vw_in_dist (k, id, v) values (1, 1, 1) on conflict (k, id) do nothing;
insert into vw_checked_dist (k, id, v) values (957, 1, 1);
insert into vw_over_checked (k, id, v) values (957, 1, 1);
select * from vw where k > 900;
update vw_const set v = v + 1 returning id, v;
delete from vw_const where id = 13;
insert into vw_const (id, v) values (1, 1);
insert into vw_alias (one, two) values (120, 1) returning one, two, three, t;
update vw_alias set three = 8 where one = 120 returning one, two, three;
delete from vw_alias where one = 120;
-- ordered
select k, id, v from vw order by k, id;
insert into vw_plain (k, id, v, t) values (1, 1, 5, 'c') on conflict (k, id) do update set v = excluded.v + vw_plain.v returning k, id, v;
insert into vw_plain (k, id, v) values (1, 11, 5), (2, 12, 6), (140, 1, 7) on conflict (k, id) do update set v = excluded.v, t = 'up' returning k, id, v, t;
insert into vw_plain (k, id) values (1, 11), (141, 1) on conflict do nothing returning k;
insert into vw_plain (k, id) values (1, 11) on conflict on constraint vw_pkey do nothing;
insert into vw_plain (k, id) values (1, 11) on conflict (k, id) do update set k = 5;
insert into vw_turned (key, number) values (1, 11) on conflict (key, number) do update set words = 'conflict' returning *;
insert into vw_cascaded (kk, id, v) values (2, 22, 25) on conflict (kk, id) do update set v = 35;
insert into vw_cascaded (kk, id, v) values (2, 22, 25) on conflict (kk, id) do update set v = 26 returning *;
insert into vw_plain (k, id, v) select k, 600, n from vw_src;
insert into vw_plain (k, id, v) select k + 300, 600, n from vw_src where k < 5 returning k, v;
insert into vw_plain select k + 1000, id, v, t, made from vw_plain where id < 4 returning k, id;
insert into vw_turned (key, number) select k + 400, id from vw_big where v < 25;
insert into vw_plain (k, id) select 700, 1 where false;
insert into vw_plain (k, id, v) select k, 601, n from vw_src on conflict (k, id) do update set v = 0;
with s as (select * from vw_src where k < 4) insert into vw_plain (k, id) select k, 602 from s returning k, id;
with x as (update vw_plain set v = 1 where k = 1 returning id) select count(*) from x;
with x as (insert into vw_turned (key, number) values (1, 900) returning key, number) select * from x;
with x as (delete from vw_plain where k = 2 returning id) insert into vw_plain (k, id) select 2, id + 5000 from x returning id;
-- ordered
select k, id, v from vw order by k, id;
prepare vwi (int, int) as insert into vw_turned (key, number) values ($1, $2) returning *;
execute vwi (800, 1);
execute vwi (801, 1);
prepare vwu (int, text) as update vw_turned set words = $2 where key = $1;
execute vwu (800, 'p');
execute vwu (801, 'q');
create or replace view vw_loose as select id as k, k as id, v from vw where v > 20;
update vw_loose set v = v + 1 where k = 33 returning *;
insert into vw_loose (k, id, v) values (41, 1, 25), (42, 2, 25) returning *;
select k, id, v from vw where id in (41, 42);
prepare vwd (int) as delete from vw_loose where k = $1 returning *;
execute vwd (34);
create or replace view vw_loose as select k, id, v from vw where v > 20;
execute vwd (4);
execute vwd (5);
deallocate all;
begin;
insert into vw_plain (k, id, v) values (900, 1, 1), (901, 1, 1);
update vw_plain set v = 2 where k >= 900;
select k, v from vw_plain where k >= 900;
savepoint a;
delete from vw_turned where key = 900;
rollback to a;
select k, v from vw_plain where k >= 900;
rollback;
select count(*) from vw_plain where k >= 900;
-- rows vary
explain (costs off) update vw_plain set v = 1 where k = 2;
-- rows vary
explain (costs off) update vw_plain set v = 1;
-- simple only
copy vw_plain (k, id) from stdin;
1	1
\.
merge into vw_plain p using vw_src s on p.k = s.k and s.k = 3 and p.k = 3 when matched then update set v = s.n;
update only vw_plain set v = 1 where k = 1;
truncate vw_plain;
-- A key that changes through a view that shows all columns; and a view whose subqueries ask of the row's own node.
update vw_checked set k = 77 where k = 3 returning k, id, v, triple, dbl;
update vw_checked set k = k + 1000, v = 3 where k = 77;
update vw_checked set (k, v) = (select k + 2000, v + 1) where k in (4, 77) returning k, v;
update vw_checked set k = null;
-- plain refuses
update vw_checked set triple = 5, k = 6;
update vw_checked c set k = 300 + s.k from vw_src s where s.n = c.k * 100 and c.k < 3;
insert into vw_checked (k, id) values (1, 11) on conflict (k, id) do update set k = vw_checked.k, v = 50 returning k, id, v;
-- ordered
select * from vw order by k, id;
update vw_regions set r = 'a' where id = 4;
update vw_time_all set k = k + 1 where k < 0;
update vw_with_src set v = v + 1 where k < 11 returning k, v;
update vw_with_src set v = 0 where k = 11 returning k;
insert into vw_with_src (k, id) values (5, 55), (6, 66) returning k, id, v;
insert into vw_with_src (k, id) values (5, 56), (9, 99);
insert into vw_with_src (k, id) select k, 70 from vw_src where n < 300 returning k;
insert into vw_with_src (k, id) values (9, 99);
update vw_with_src set k = 7 where k = 6 and id = 66 returning k, id;
update vw_with_src set k = 10 where id = 66;
delete from vw_with_src where id > 50 returning k, id;
update vw_with_n set v = n where k in (4, 5) returning k, id, v, n;
-- plain refuses
update vw_with_n set n = 5;
delete from vw_with_n where n = 500 returning k;
-- ordered
select * from vw order by k, id;
