-- INSERT: one row, many rows over shards, defaults, RETURNING, from SELECT.
--! setup
create table ins (
    id int primary key, a int default 7, b text not null default 'dflt', c timestamp default '2024-01-01',
    d int generated always as (id * 2) stored, check (a < 1000)
);
create table ins_src (id int primary key, v int);
create table ins_pair (x int, y int, v text, primary key (x, y));
create table ins_nopk (x int, y text);
create table ins_ref (id int primary key, t text);
create table ins_at (at timestamp(2) primary key, n int);
create table ins_local (id int primary key, t text);
--! distribute ins id
--! distribute ins_src id colocate_with => 'ins'
--! distribute ins_pair x
--! distribute ins_nopk x
--! distribute ins_at at colocate_with => 'none'
--! reference ins_ref
--! reset
delete from ins;
delete from ins_src;
delete from ins_pair;
delete from ins_nopk;
delete from ins_ref;
delete from ins_local;
delete from ins_at;
insert into ins_src values (1, 10), (2, 20), (3, 30), (4, 40), (5, 50), (6, null);
--! teardown
drop table if exists ins_at, ins, ins_src, ins_pair, ins_nopk, ins_ref, ins_local;
--! tests
-- A key of several rows that reads the clock.
insert into ins_at values (now(), 1), (now() + '1 hour', 2);
insert into ins_at (at, n) values (current_timestamp - interval '1 day', 3), (localtimestamp - interval '2 days', 4), (current_date, 5);
select n, at > now() - interval '3 days' from ins_at order by n;
delete from ins_at;
insert into ins (id, a, b) values (1, 1, 'one');
insert into ins values (2, 2, 'two');
insert into ins (id) values (3);
insert into ins (b, id) values ('four', 4);
insert into ins (id, a) values (5, default);
insert into ins values (6, default, default, default);
insert into ins (id, a) values (7, 1 + 2 * 3);
insert into ins (id, b) values (8, upper('eight') || '!');
insert into ins (id) values (4 + 5);
insert into ins (id) values ('10');
insert into ins (id) values (11.4);
insert into ins as i (id) values (12) returning i.id, i.a;
insert into ins (id) values (13) returning *;
insert into ins (id, a) values (14, 5) returning id, a * 2 as twice, b, d;
insert into ins (id) values (15) returning id + 1, 'x' as x;
insert into ins (id) values (20), (21), (22), (23), (24), (25), (26), (27);
insert into ins (id, a) values (30, 1), (31, default), (32, null), (33, 4);
insert into ins (id, b) values (40, 'a'), (41, 'b'), (42, 'c') returning id, b;
insert into ins values (50), (51, 2), (52, 3);
insert into ins (id, a) values (60, 1), (61, (select 5));
-- params: 70, 3, seventy
insert into ins (id, a, b) values ($1, $2, $3);
-- params: 71, NULL
insert into ins (id, a) values ($1, $2) returning *;
-- params: 72, 73, 74, 'a, ''quoted'''
insert into ins (id, b) values ($1, $4), ($2, $4), ($3, 'z') returning id, b;
-- params: 75
insert into ins (id, a) values ($1, $1) returning id, a;
-- ordered
select * from ins order by id;
insert into ins (id, a) select id + 100, v from ins_src;
insert into ins (id, a) select id, v from ins_src where id = 1000;
insert into ins (id, a) select generate_series(200, 210), 1;
insert into ins (id, a) select id + 300, v from ins_src order by v limit 2;
insert into ins (id, a) select count(*)::int + 400, sum(v)::int from ins_src;
insert into ins (id, a) select id + 500, v from ins_src where v > 20 returning id, a;
insert into ins (id, b) select n, 'fn' from (values (601), (602)) v (n);
with s as (select 700 as n) insert into ins (id) select n from s;
with moved as (insert into ins (id, a) values (710, 3) returning id, a) select * from moved;
-- ordered
select id, a, b from ins where id > 99 order by id;
insert into ins (id) values (1);
insert into ins (id) values (800), (1), (801);
select count(*) from ins where id in (800, 801);
insert into ins (id) values (810), (810);
insert into ins (id, a) values (820, 1000);
insert into ins (id, a) values (821, 1), (822, 2000), (823, 3);
select count(*) from ins where id between 820 and 830;
insert into ins (id, b) values (830, null);
insert into ins (id) values (null);
insert into ins (a) values (1);
insert into ins default values;
insert into ins (id) values (99999999999);
insert into ins (id) values ('abc');
insert into ins (id, d) values (840, 1);
insert into ins (id, nosuch) values (840, 1);
insert into ins (id, a) values (840);
insert into ins (id, a) values (840, 1, 2);
insert into ins (id, id) values (1, 2);
insert into ins (id, a) values (840, 'x');
insert into nosuch values (1);
insert into ins (id, a) values (840, 1 / 0);
insert into ins_pair values (1, 1, 'a'), (1, 2, 'b'), (2, 1, 'c');
insert into ins_pair values (1, 2, 'again');
insert into ins_pair (y, x) values (5, 6) returning x, y;
-- ordered
select * from ins_pair order by x, y;
insert into ins_nopk values (1, 'a'), (1, 'a'), (2, 'b');
insert into ins_nopk values (1, 'a');
insert into ins_nopk (y) values ('no key');
insert into ins_nopk values (null, 'null key');
select * from ins_nopk;
insert into ins_ref values (1, 'r'), (2, 's') returning *;
insert into ins_ref values (1, 'again');
insert into ins_ref select id + 10, 'src' from ins_src where id < 3;
select * from ins_ref;
insert into ins_local values (1, 'l') returning *;
insert into ins_local select id, 'x' from ins where id = 2;
insert into ins_local select id + 10000, b from ins where id < 5;
select * from ins_local;
insert into ins (id, b) select id + 20000, t from ins_local;
select count(*) from ins where id > 20000;
-- Functions that return sets make several rows of one.
insert into ins (id) values (generate_series(201, 205));
insert into ins values (generate_series(211, 214), 5);
insert into ins (a, id) values (generate_series(1, 3), generate_series(221, 223)) returning id, a;
insert into ins (id, a) values (unnest(array[231, 232]), '7');
-- params: 240, 243
insert into ins (id) values (generate_series($1::int, $2::int));
insert into ins (id, a) values (251, generate_series(1, 0));
insert into ins (id) values (generate_series(201, 206)) on conflict do nothing;
insert into ins_pair values (generate_series(81, 83), 1, upper('x'));
insert into ins_nopk values (90, unnest(array['a', 'b', 'c']));
insert into ins_ref values (generate_series(91, 93), 'set');
insert into ins_local values (generate_series(91, 93), default);
select id, a from ins where id > 200;
select * from ins_pair where x > 80;
select * from ins_nopk where x = 90;
select * from ins_ref where id > 90;
select * from ins_local where id > 90;
-- Keys that name a moment are read once.
insert into ins_at values ('now', 2);
insert into ins_at values ('2024-01-01 10:00', 1);
insert into ins_at values ('2024-01-01 11:00', 3);
insert into ins_at values ('today', 4), ('2024-01-02', 5), ('tomorrow', 6);
insert into ins_at values (timestamp 'yesterday', 7) on conflict do nothing;
select n from ins_at;
select n from ins_at where at = 'today';
