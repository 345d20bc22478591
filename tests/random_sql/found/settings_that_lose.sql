-- Rows between nodes are text, which these settings shorten or write in a way that is read as something else.
--! {"setup": true}
create table a (k int, f float8, t timestamptz, w text[]);
--! {"herd_only": true, "setup": true}
select create_distributed_table('a', 'k');
--! {"setup": true}
create table b (k int, f float8, t timestamptz, w text[]);
--! {"herd_only": true, "setup": true}
select create_distributed_table('b', 'k', colocate_with => 'none');
--! {"writes": true}
insert into a select n, 0.1::float8 + n / 7.0, '2024-07-01 12:00+00', array[null, 'NULL'] from generate_series(1, 12) n;
--! {"herd_only": false}
set extra_float_digits = 0;
--! {"writes": true}
insert into b select k + 1, f, t, w from a;
--! {"writes": true}
update a set k = k + 1;
--! {}
select f, count(*) from a group by f;
--! {}
select k, count(*) from a group by k;
--! {}
select * from a where k = 3;
--! {}
select * from a order by f;
--! {}
reset extra_float_digits;
--! {}
set datestyle = 'SQL, DMY';
--! {}
set timezone = 'Asia/Shanghai';
--! {"writes": true}
insert into b select k + 1, f, t, w from a;
--! {}
select t from a union select t from b;
--! {}
select * from a order by t, k;
--! {}
reset datestyle;
--! {}
begin;
--! {}
set local array_nulls = off;
--! {}
select distinct w from a;
--! {}
rollback;
--! {"writes": true}
insert into b select k + 1, f, t, w from a;
