-- W3's table (many rows a key, no primary key) and W4's script as it is.
--! setup
create table test (id int, info text, typeid int, crt_time timestamp, mod_time timestamp);
create index idx_test_typeid on test (typeid);
insert into test select i, 'info' || i, i % 10, '2024-01-01', null from generate_series(1, 500) i;
create table demo (id int primary key, a int, b int, c int, d int);
--! distribute test typeid
--! distribute demo id
--! reset
delete from demo;
--! teardown
drop table if exists test, demo;
--! tests
select * from test where typeid = 3;
-- params: 3
select * from test where typeid = $1;
-- params: 11
select * from test where typeid = $1;
select typeid, count(*) from test group by typeid;
-- ordered
select id from test where typeid in (3, 4) order by id limit 5;
select id from test where id = 17;
-- herd only
set yb_disable_transactional_writes = off;
-- herd only
set yb_enable_upsert_mode = off;
-- herd only
set ysql_session_max_batch_size = 0;
-- herd only
set ysql_max_in_flight_ops = 10000;
-- rows vary
explain (costs off, analyze) insert into demo select generate_series(1,1000),0,0,0,0;
select count(*), min(id), max(id), sum(a) from demo;
-- herd only
set citus.shard_count = 128;
-- herd only
set citus.shard_replication_factor = 1;
