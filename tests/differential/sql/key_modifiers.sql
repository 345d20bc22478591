-- Keys that are rounded or cut as their column's type says: a row is where its key is once it is stored. What is read beside an INSERT is
-- compared, not stored.
--! setup
create table km_num (k numeric(6, 2), v int, primary key (k, v));
create table km_ts (k timestamp(0), v int);
create table km_tz (k timestamptz(3), v int);
create table km_time (k time(0), v int);
create table km_text (k varchar(3), v int);
create table km_pair (k numeric(5, 1), t timestamp(0), v int);
create table km_range (k numeric(6, 2), v int);
create table km_src (k numeric, v int);
create table km_dst (k numeric, v int);
create table km_int (k int, v int);
create table km_into (k int, v int);
create table km_at (k timestamptz, v int);
--! distribute km_num k
--! distribute km_ts k
--! distribute km_tz k
--! distribute km_time k
--! distribute km_text k
--! distribute km_pair k,t
--! distribute km_range k strategy => 'range', bounds => array['FROM (MINVALUE) TO (-5.5)', 'FROM (-5.5) TO (1.23)', 'FROM (1.23) TO (MAXVALUE)']
--! distribute km_src k
--! distribute km_dst k colocate_with => 'km_src'
--! distribute km_int k
--! distribute km_into k colocate_with => 'km_int'
--! distribute km_at k
--! reset
truncate km_num, km_ts, km_tz, km_time, km_text, km_pair, km_range, km_src, km_dst, km_int, km_into, km_at;
insert into km_src select ('0.1' || repeat('0', 20 + g) || '1')::numeric, g from generate_series(1, 20) g;
insert into km_src values (0.1, 0);
insert into km_int values (1, 1), (2, 2);
insert into km_at values ('2024-01-01 00:00:00+00', 1);
--! teardown
drop table if exists km_num, km_ts, km_tz, km_time, km_text, km_pair, km_range, km_src, km_dst, km_int, km_into, km_at;
--! tests
insert into km_num values (1.234, 1);
insert into km_num values (1.235, 2) returning *;
insert into km_num values (-7.996, 3) on conflict do nothing;
-- params: 7.787
insert into km_num values ($1, 4);
-- params: 7.7851
insert into km_num values ($1::numeric, 5) returning k;
insert into km_num values (99999.999, 6);
insert into km_num values ('nan', 7);
-- ordered
select * from km_num order by v;
select v from km_num where k = 1.23;
select v from km_num where k = 1.234;
insert into km_ts values ('2024-01-01 10:00:00.6', 1);
-- params: 2024-01-01 10:00:00.5
insert into km_ts values ($1, 2);
insert into km_ts values ('infinity', 3);
select v from km_ts where k = '2024-01-01 10:00:01';
select v from km_ts where k = '2024-01-01 10:00:00.6';
insert into km_tz values ('2024-01-01 10:00:00.0006+02', 1);
insert into km_tz values ('2024-01-01 10:00:00.0006', 2);
-- ordered
select v from km_tz where k = '2024-01-01 10:00:00.001+02' or v = 2 order by v;
insert into km_time values ('10:00:00.6', 1);
insert into km_time values ('23:59:59.7', 2);
-- ordered
select * from km_time order by v;
insert into km_text values ('abc   ', 1);
-- params: ab     
insert into km_text values ($1, 2);
insert into km_text values ('abcd', 3);
-- ordered
select k, length(k), v from km_text order by v;
select v from km_text where k = 'abc';
insert into km_pair values (1.26, '2024-01-01 00:00:00.7', 1);
select v from km_pair where k = 1.3 and t = '2024-01-01 00:00:01';
insert into km_range values (-5.501, 1);
insert into km_range values (1.2299, 2);
insert into km_range values (1.2249, 3);
-- ordered
select * from km_range order by v;
select v from km_range where k >= 1.23;
-- params: 0.1
insert into km_dst select k, v from km_src where k = $1::float8;
-- ordered
select v from km_dst order by v;
-- params: 3000000000
insert into km_into select k, v from km_int where k = $1::int8;
-- params: 3000000000
insert into km_into select k, v from km_int where k = $1::int8 or k in (1, 2) returning v;
insert into km_at select k, 2 from km_at where k = 'now';
insert into km_at select k, 3 from km_at where k in ('now', '2024-01-01 00:00:00+00') returning v;
