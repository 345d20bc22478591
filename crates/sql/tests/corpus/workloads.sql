-- Statements of the workloads the product is measured on (W1 to W6), as sysbench, pgbench and psql send them.

CREATE TABLE sbtest1 (id integer NOT NULL, k integer NOT NULL DEFAULT 0,
  c character(120) NOT NULL DEFAULT '', pad character(60) NOT NULL DEFAULT '', PRIMARY KEY (id));
CREATE INDEX k_1 ON sbtest1(k);
set citus.shard_count = 128; set citus.shard_replication_factor = 1;
select create_distributed_table('sbtest1','id');

-- W1: sysbench oltp_insert, oltp_read_write
INSERT INTO sbtest1 (id, k, c, pad) VALUES (4989, 2479, '83868641912-28773972837-60736120486-75162659906-27563526494-20381887404-41576422241-93426793964-56405065102-33518432330', '67847967377-48000963322-62604785301-91415491898-96926520291');
INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, -17, '', 'x'), (1, +17, DEFAULT, 'it''s');
SELECT c FROM sbtest1 WHERE id=5012;
SELECT c FROM sbtest1 WHERE id BETWEEN 2500 AND 2599;
SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 2500 AND 2599;
SELECT c FROM sbtest1 WHERE id BETWEEN 2500 AND 2599 ORDER BY c;
SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 2500 AND 2599 ORDER BY c;
UPDATE sbtest1 SET k=k+1 WHERE id=5021;
UPDATE sbtest1 SET c='10254002895-96428838700-29459431131-68117053462-93108743254-57498427943-37838208024-56155120302-60311423104-07178119093' WHERE id=4991;
DELETE FROM sbtest1 WHERE id=5003;

-- W2
select count(1) from sbtest1;
select count(1),min(k),max(k),sum(k) from sbtest1;
select count(1),min(k),max(k),sum(k) from sbtest1 where c like '1%';
select id,k,c,pad from sbtest1 where c like '1%' order by c offset 100 limit 10;
select id,k,c,pad from sbtest1 where c like '1%' order by id offset 100 limit 10;

-- W3
create table test(id int, info text, typeid int, crt_time timestamp, mod_time timestamp);
create index idx_test_typeid on test(typeid);
insert into test select id, md5(random()::text), random()*500, clock_timestamp(), now() from generate_series(1,5000000) t(id);
prepare by_type(int) as select * from test where typeid = $1;
execute by_type(42);
select typeid, jsonb_agg(jsonb_build_object('id',id,'t',crt_time) order by id desc) filter (where info not like '%\_x%' escape '\') from test group by typeid;

-- W4
create table demo (id int primary key, a int, b int, c int, d int);
set yb_disable_transactional_writes = off;
set yb_enable_upsert_mode = off;
set ysql_session_max_batch_size = 0;
set ysql_max_in_flight_ops = 10000;
explain (costs off, analyze) insert into demo select generate_series(1,1000000),0,0,0,0;

-- W5
/*{"full_export":true}*/ select id, amount::numeric(10,2), -1.5e-3, .5, 1. from orders where day >= date '2026-01-01' and day < date '2026-01-01' + interval '1 month';
alter table orders add column note varchar(20) default 'n/a';
insert into orders (a,b) values (1,'x') on conflict (a) do update set b = excluded.b || E'\n' || $tag$it's $1$tag$ returning *;

-- W6: pgbench
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + -4011 WHERE aid = 95321;
SELECT abalance FROM pgbench_accounts WHERE aid = 95321;
UPDATE pgbench_tellers SET tbalance = tbalance + -4011 WHERE tid = 7;
UPDATE pgbench_branches SET bbalance = bbalance + -4011 WHERE bid = 1;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (7, 1, 95321, -4011, CURRENT_TIMESTAMP);
END;
SELECT abalance FROM pgbench_accounts WHERE aid = $1;
copy sbtest1 from stdin with (format csv, delimiter E'\t', null '\N');
