--! setup
create table odd (k int primary key, s text, n int, "%r0" text default '%now%', "%t0_0" int, "%s0" int);
--! distribute odd k
create table odd_by_s (k int, s text, primary key (k, s));
--! distribute odd_by_s s colocate_with => 'none'
create table odd_ref (k int primary key, s text, at timestamptz default now());
--! reference odd_ref
create table odd_local (k int primary key, s text);
--! reset
truncate odd, odd_by_s, odd_ref, odd_local;
insert into odd (k, s, n, "%r0", "%t0_0", "%s0") select g, 's' || g, g % 4, '%r' || g, g % 3, -g from generate_series(1, 12) g;
insert into odd_by_s select g, 's' || g from generate_series(1, 8) g;
--! tests
-- data that looks like a place in a text, in each kind of statement
insert into odd (k, s) values (101, '%now%'), (102, '%e0%'), (103, '''%e1%'''), (104, '"%r0"'), (105, '"%t0_0"'), (106, '$1'), (107, '%source%');
insert into odd (k, s) values (201, '%now%');
insert into odd (k, s, n) values (abs(-301), '%e0%', 1), (abs(-302), '%now%', 2);
insert into odd (k, s) values (abs(-303), 'herd_now________________________________________________________'), (abs(-304), 'x');
insert into odd (k, s) values (401, $$%now% $1$$), (402, E'\'%e0%\''), (403, U&'\0025r0');
insert into odd (k, s, n) values (501, '%now%', 1), (502, 'b', 2) returning s, '%now%' as "%now%", '"%r0"' as "%r0", "%r0";
select k, s, n, "%r0", "%t0_0", "%s0" from odd where k > 100 order by k;
-- params: %now%, "%r0"
insert into odd (k, s) values (601, $1), (602, $2), (603, '$1') returning k, s;
-- params: %e0%, 700
insert into odd (k, s) values ($2::int + 1, $1), ($2::int + 2, '%e0%') returning k, s;
-- params: 710, x
insert into odd (s, k) values ($2, $1::int + 1) returning k, s;
select '%now%' as a, '"%r0"' as b, '"%t0_0"' as c, s from odd where s like '%now%%' or s = '"%r0"' order by s, k;
-- ordered
select s, '%now%', "%r0" from odd order by "%r0", s, k;
select '%now%' as x, count(*), max('"%r0"') from odd;
select "%t0_0", sum(n), '"%t0_0"' as y from odd group by "%t0_0";
select sum(n), sum("%s0"), max("%r0") from odd;
-- ordered
select n, "%s0" from odd order by n, "%s0";
-- ordered
select k from odd order by n, "%s0", k;
-- ordered
select k as "%s1", n from odd order by n, "%s1";
-- ordered
select "%r0".k, "%t0_0".s from odd "%r0" join odd "%t0_0" on "%r0".k = "%t0_0".k order by "%r0".k;
select "%r0".n, count(*) from odd "%r0" group by "%r0".n;
with "%r0" as (select n, sum(k) as "%t0_0" from odd group by n) select "%r0".n, "%r0"."%t0_0" from "%r0";
with "%r0" as (select n, sum(k) as x from odd group by n), "%r1" as (select max(s) as y from odd) select * from "%r0", "%r1";
update odd set s = '%now% "%r0" %e0%' where n = 1;
update odd set s = '%now%', "%r0" = '"%r0"' where n = 2 returning k, s, '%e0%' as "%e0%", "%r0";
select k, s, "%r0" from odd where n in (1, 2) order by k;
delete from odd where s = '%now%' returning s, '"%t0_0"' as t, k;
delete from odd where s like '%"\%r0"%';
select count(*) from odd;
-- the tail of an INSERT … SELECT, and of an UPDATE that moves rows
insert into odd (k, s) select k, s from odd_by_s on conflict (k) do update set s = '%now%' || excluded.s || '"%r0"';
select k, s from odd where k < 9 order by k;
insert into odd (k, s) select k + 1000, '"%r0"' from odd_by_s returning k, s, '%now%' as a, '"%t0_0"' as b;
insert into odd_by_s select k, '%now%' || s from odd where k < 4 returning *;
-- params: 4, new, other
insert into odd (k, s) select k, s from odd_by_s where k > $1 on conflict (k) do update set s = $2 || odd.n, n = 9 returning k, s, n, $3::text as third;
-- params: new, 4
insert into odd (k, s) select k, s from odd_by_s on conflict (k) do update set s = $1 where odd.k < $2;
-- params: last
insert into odd (k, s) select k, s from odd_by_s on conflict (k) do update set s = $1;
select k, s, n from odd order by k;
-- params: moved, 2, x
update odd_by_s set s = $1 || k where k > $2 returning k, s, $3 || s as y, 'a"%r0"%now%' as z;
update odd_by_s set s = '%now%' || k where k < 3 returning *, '%now%' as now;
-- params: 7
update odd_by_s set s = 'seven' where k = $1 returning k, $1::int + 1 as eight;
select * from odd_by_s order by k, s;
-- params: %e0%, 5
insert into odd_ref (k, s) select k, $1 || s from odd where k < $2 returning k, s, $2::int as five, '"%r0"' as r;
-- params: %now%, 51, tail
insert into odd_ref as r (k, s) values ($2, $1), ($2::int + 1, '%now%') returning r.k, s, $3::text as t;
update odd_ref set s = '%now%' || s returning s, '"%r0"' as r;
select k, s from odd_ref order by k;
insert into odd_local select k, '"%r0"' || s from odd where k < 4 returning *, '%now%' as x;
-- params: 2, "%t0_0"
insert into odd_local select k, s from odd where k >= $1 on conflict (k) do update set s = $2 returning *;
select * from odd_local order by k;
-- constants of a select list are no positions
-- ordered
select distinct n, 1, s from odd order by 2, 3, 1;
-- ordered
select distinct 3, n, "%t0_0" from odd order by 1, 3, 2;
select 4, count(*) from odd group by 1;
select 4 as four, count(*) from odd group by four;
select true, n, count(*) from odd group by 1, 2;
select null, n, sum(k) from odd group by 1, 2;
select 'x', n, sum(k) from odd group by 1, 2 having count(*) > 1;
select 2 as a, n, sum(k) as b from odd group by a, n order by a, 3, 2;
select 2, n, "%t0_0", count(*) from odd group by rollup (1, 2), 3;
select n, 1, array_agg(k order by k) from odd group by 2, 1;
-- ordered
select distinct on (2) 1, n, k from odd order by 2, 3 desc;
-- ordered
select distinct on (m) n % 2 as m, 1 as k1, k from odd order by m, 3;
-- ordered
select 7, k, 1 from odd order by 1, 3, 2 desc;
-- ordered
select 1 as one, k, row_number() over (order by k) from odd order by one, 3;
select count(*), 5 from odd group by 2;
select 1, count(*) from odd where k < 0 group by 1;
select n, count(*) from odd group by 3;
select n from odd order by 2;
--! teardown
drop table if exists odd, odd_by_s, odd_ref, odd_local;
