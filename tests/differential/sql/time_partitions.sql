-- Distributed tables that are partitioned by time, or by a list, before they are by their key.
--! setup
create table tm (device int not null, at timestamptz not null, v int check (v < 1000), note text default 'n', primary key (device, at)) partition by range (at);
create table tm_2026_09 partition of tm for values from ('2026-09-01 00:00+00') to ('2026-10-01 00:00+00');
create table tm_2026_10 partition of tm for values from ('2026-10-01 00:00+00') to ('2026-11-01 00:00+00');
create table tm_2026_11 partition of tm for values from ('2026-11-01 00:00+00') to ('2026-12-01 00:00+00');
create index tm_v on tm (v);
insert into tm values (1, '2026-09-03 00:00+00', 5), (2, '2026-10-03 00:00+00', 6);
create table tl (k int, kind text, x int) partition by list (kind);
create table tl_a partition of tl for values in ('a', 'b');
create table tl_rest partition of tl default;
create table te (k int, at date, x int, primary key (k, at)) partition by range (at);
create table td (device int primary key, name text);
create table tr (x int primary key, label text);
--! distribute tm device
--! distribute tl k
--! distribute te k
--! distribute td device colocate_with => 'tm'
--! reference tr
--! reset
truncate tm, tl, te, td, tr;
insert into tm select g % 9, timestamptz '2026-09-01 00:00+00' + g * interval '5 hours', g % 50, 's' || g % 4 from generate_series(0, 400) g;
insert into tl select g, case when g % 3 = 0 then 'a' when g % 3 = 1 then 'b' end, g % 5 from generate_series(1, 40) g;
insert into td select g, 'd' || g from generate_series(0, 8) g;
insert into tr select g, 'l' || g from generate_series(0, 49) g;
--! tests
select tableoid::regclass::text, count(*) from tm group by 1 order by 1;
select tableoid::regclass::text as part, count(*), min(at) from tm group by tableoid order by part;
select tableoid::regclass::text, device, at from tm where device = 3 order by at limit 5;
select distinct tableoid::regclass::text from tl;
select tableoid::regclass::text, array_agg(x order by x) from tl group by 1 having count(*) > 2;
select max(tableoid::regclass::text), min(tableoid::regclass::text) from tm;
select count(*) from tm where tableoid = 'tm_2026_10'::regclass;
select count(*) from tm where tableoid::regclass <> 'tm_2026_10'::regclass and device = 2;
select t.tableoid::regclass::text, d.tableoid::regclass::text, count(*) from tm t join td d using (device) group by 1, 2 order by 1;
select t.tableoid::regclass::text, d.tableoid::regclass::text, d.device from td d left join tm_2026_11 t on t.device = d.device and t.v = 7 order by 3, 1;
select rank() over (order by x), tableoid::regclass::text from tl where k < 9;
with p as (select tableoid::regclass::text as part from tm) select part, count(*) from p group by part order by part;
update tm set v = v + 1 where device = 1 and at < '2026-09-03' returning tableoid::regclass::text, at;
insert into tm values (1, '2026-10-31 01:00+00', 1), (2, '2026-11-02 02:00+00', 2) returning tableoid::regclass::text, device;
delete from tm where tableoid = 'tm_2026_11'::regclass and device = 2 returning tableoid::regclass::text, at;
select count(*) from tm where exists (select from td where td.device = tm.device and tm.tableoid = 'tm_2026_09'::regclass);
select count(*), min(at), max(at), sum(v) from tm;
select count(*), min(at), max(at), sum(v) from tm_2026_10;
select * from tm where device = 3 and at < '2026-09-05 00:00+00' order by at;
select * from tm where at >= '2026-11-20 00:00+00' and v > 40 order by device, at;
select count(*) from tm where device in (1, 2) and at between '2026-10-20 00:00+00' and '2026-11-10 00:00+00';
select count(*) from only tm;
select count(*) from only tm_2026_10;
select device, count(*), avg(v) from tm group by device order by device;
select date_trunc('month', at at time zone 'UTC') as month, count(*) from tm group by 1 order by 1;
select d.name, count(*) from tm t join td d using (device) group by d.name order by 1;
select d.name, max(t.at) from td d left join tm_2026_11 t on t.device = d.device and t.v = 7 group by d.name order by 1;
select r.label, count(*) from tm t join tr r on r.x = t.v where t.device = 4 group by r.label order by 1 limit 5;
select a.device, count(*) from tm a join tm b on a.device = b.device and a.at = b.at and a.v = b.v group by 1 order by 1;
select a.v, count(*) from tm_2026_09 a join tm_2026_11 b on a.v = b.v group by 1 order by 1 limit 5;
-- ordered
select device, at from tm order by at desc limit 7;
-- ordered
select device, at, row_number() over (partition by device order by at) from tm where at >= '2026-11-20 00:00+00' order by device, at;
select count(*) from tm t where exists (select 1 from td d where d.device = t.device and d.name = 'd3');
with x as (select device, max(at) as last from tm group by device) select t.device, t.v from tm t join x on x.device = t.device and x.last = t.at order by 1;
-- params: 3, '2026-10-01 00:00+00'
select count(*), sum(v) from tm where device = $1 and at >= $2;
-- params: 3, '2026-10-01 00:00+00', 5
insert into tm values ($1, $2, $3) returning *;
insert into tm values (100, '2026-09-10 00:00+00', 1), (101, '2026-10-10 00:00+00', 2), (102, '2026-11-10 00:00+00', 3) returning *;
insert into tm (at, device) select at + interval '1 minute', device + 200 from tm where v = 3;
select count(*), count(distinct device) from tm where device > 99;
insert into tm values (1, '2030-01-01 00:00+00', 1);
insert into tm values (1, '2026-10-10 00:00+00', 1), (2, '2030-01-01 00:00+00', 1);
insert into tm values (100, '2026-09-10 00:00+00', 2);
insert into tm values (100, '2026-09-10 12:00+00', 1000);
insert into tm (device, v) values (1, 1);
insert into tm_2026_10 values (1, '2026-11-10 00:00+00', 1);
insert into tm_2026_10 values (103, '2026-10-10 00:00+00', 1) returning *;
insert into tm_2026_10 values (103, '2026-10-10 00:00+00', 1);
insert into tm values (100, '2026-09-10 00:00+00', 9) on conflict (device, at) do update set v = excluded.v + tm.v returning *;
insert into tm values (100, '2026-09-10 00:00+00', 9), (300, '2026-11-10 00:00+00', 4) on conflict do nothing returning *;
insert into tm_2026_09 values (100, '2026-09-10 00:00+00', 9) on conflict (device, at) do update set note = 'again' returning *;
copy tm from stdin;
400	2026-09-11 00:00:00+00	1	c
401	2026-10-11 00:00:00+00	2	c
402	2026-11-11 00:00:00+00	3	c
\.
copy tm (device, at) from stdin with (format csv);
403,2026-11-12 00:00:00+00
404,2029-11-12 00:00:00+00
\.
copy tm_2026_11 (device, at) from stdin with (format csv);
405,2026-11-12 00:00:00+00
\.
select * from tm where device >= 400 order by device;
copy (select device, at, v from tm where device >= 400 order by device) to stdout;
update tm set v = v + 1 where device = 3 and at < '2026-10-01 00:00+00';
update tm set note = 'all' where v % 2 = 0;
update tm set at = at + interval '31 days' where device = 100 returning *;
update tm set at = '2031-01-01 00:00+00' where device = 101;
update tm_2026_10 set v = 77 where device = 100 returning *;
update tm_2026_10 set at = '2026-11-11 00:00+00' where device = 103;
update tm set device = 500 where device = 102;
update tm t set note = d.name from td d where d.device = t.device and t.at >= '2026-11-20 00:00+00';
select note, count(*) from tm group by note order by note;
delete from tm where at < '2026-09-02 00:00+00' returning device, at, v;
delete from tm where device = 3;
delete from tm_2026_11 where v > 40;
delete from tm using td d where d.device = tm.device and d.name = 'd4';
select count(*), sum(v) from tm;
merge into tm t using (values (1, timestamptz '2026-10-20 00:00+00', 3), (600, '2026-11-20 00:00+00', 4)) s (device, at, v) on t.device = s.device and t.at = s.at when matched then update set v = s.v when not matched then insert values (s.device, s.at, s.v);
select * from tm where device = 600;
begin;
insert into tm values (700, '2026-09-20 00:00+00', 1);
truncate tm_2026_10;
select count(*) from tm_2026_10;
select count(*) from tm where device = 700;
rollback;
select count(*) from tm where device = 700;
truncate only tm;
truncate tm_2026_11;
select count(*) from tm;
select kind, count(*), sum(x) from tl group by kind order by kind;
select count(*) from tl_rest;
insert into tl values (50, 'a', 1), (51, 'z', 2), (52, null, 3);
select * from tl where k > 49 order by k;
update tl set kind = 'b' where k = 51 returning *;
select count(*) from tl_a;
select count(*) from te;
insert into te values (1, '2026-01-01', 1);
create table te_2026 partition of te for values from ('2026-01-01') to ('2027-01-01');
insert into te values (1, '2026-01-01', 1), (2, '2026-05-01', 2), (3, '2026-09-01', 3);
create table if not exists te_2026 partition of te for values from ('2026-01-01') to ('2027-01-01');
create table te_more partition of te for values from ('2026-06-01') to ('2027-06-01');
create table te_rest partition of te default;
insert into te values (4, '2030-01-01', 4);
select k, x from te order by k;
select k, x from te_rest order by k;
create table te_2030 partition of te for values from ('2030-01-01') to ('2031-01-01');
alter table te add column y int default 8;
create index te_x on te (x);
select * from te where k = 4;
select count(*) from pg_indexes where tablename like 'te%' and schemaname = 'public' and indexname like '%x%';
alter table te detach partition te_2026;
select count(*) from te;
select count(*) from te_2026;
insert into te_2026 values (9, '1999-01-01', 9);
alter table te attach partition te_2026 for values from ('2026-01-01') to ('2027-01-01');
delete from te_2026 where k = 9;
alter table te attach partition te_2026 for values from ('2026-01-01') to ('2027-01-01');
select count(*) from te;
create table te_own (k int not null, at date not null, x int, y int default 8);
insert into te_own values (20, '2040-01-01', 1), (21, '2040-02-01', 2);
alter table te attach partition te_own for values from ('2040-01-01') to ('2041-01-01');
insert into te values (22, '2040-03-01', 3);
select k, x from te_own order by k;
select k, x from te where at >= '2040-01-01' order by k;
alter table te drop column y;
alter table te rename column x to z;
select sum(z) from te;
select sum(z) from te_own;
copy te to stdout;
copy te (z) to stdout (format csv, force_quote *);
copy (select sum(z) from te) to stdout;
copy te (nothing) to stdout;
alter table te enable row level security;
copy te to stdout;
create role tp_ann;
set role tp_ann;
copy te to stdout;
copy te (nothing) to stdout;
reset role;
grant select (z) on te to tp_ann;
set role tp_ann;
copy te to stdout;
copy te (z) to stdout;
reset role;
create policy te_all on te to tp_ann using (z < 0);
set role tp_ann;
copy te (z) to stdout;
set row_security = off;
copy te (z) to stdout;
reset row_security;
reset role;
alter table te disable row level security;
set role tp_ann;
copy te (z) to stdout;
copy te to stdout;
reset role;
drop policy te_all on te;
revoke all on te from tp_ann;
drop role tp_ann;
alter table te rename column z to x;
alter table te_own rename to te_renamed;
select count(*) from te_renamed;
drop table te_renamed;
select count(*) from te;
drop table te_2026, te_rest;
select count(*) from te;
drop index te_x;
create table plain_at (device int not null, at timestamptz not null, v int check (v < 1000), note text default 'n');
alter table tm attach partition plain_at for values from ('2027-01-01 00:00+00') to ('2027-02-01 00:00+00');
insert into tm values (1, '2027-01-05 00:00+00', 1);
select device, v from plain_at;
begin;
create table tm_2027_02 partition of tm for values from ('2027-02-01 00:00+00') to ('2027-03-01 00:00+00');
insert into tm values (1, '2027-02-05 00:00+00', 1), (2, '2027-02-06 00:00+00', 1), (3, '2027-02-06 00:00+00', 1);
select count(*) from tm_2027_02;
rollback;
insert into tm values (1, '2027-02-05 00:00+00', 1);
begin;
alter table tm detach partition plain_at;
insert into tm values (1, '2027-01-06 00:00+00', 1);
rollback;
insert into tm values (1, '2027-01-06 00:00+00', 1);
drop table plain_at;
-- The default partition takes what no other does.
insert into tl_rest select g, 'z' || g, 0 from generate_series(1, 40) g;
create table tl_z partition of tl for values in ('zz');
update tl_rest set kind = 'zz' where k = 7;
insert into tl_rest values (7, 'zz', 1);
insert into tl_rest select g, 'zz', 1 from generate_series(1, 40) g;
drop table tl_z;
insert into tl_rest select g, 'zz', 1 from generate_series(1, 40) g;
select count(*) from tl where kind = 'zz';
delete from tl where kind like 'z%';
--! teardown
drop table tm, tl, te, td, tr;
