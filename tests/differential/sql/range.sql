-- Tables distributed by range, of one column and of two, NULLs and edges of bounds included. The bounds leave no gap: plain
-- PostgreSQL has none.
--! setup
create table rng (id int primary key, v int, t text);
create table rng_log (device int, day date, value numeric(8,2), primary key (device, day));
create table rng_alarm (device int, day date, what text);
create table rng_text (name text, v int);
create table rng_ref (code int primary key, label text);
create table rng_hash (id int primary key, v int);
--! distribute rng id strategy => 'range', bounds => array['FROM (MINVALUE) TO (-5)', 'FROM (-5) TO (10)', 'FROM (10) TO (20)', 'FROM (20) TO (MAXVALUE)']
create table rng_note (rng_id int, no int, note text, primary key (rng_id, no), foreign key (rng_id) references rng (id));
--! distribute rng_note rng_id colocate_with => 'rng'
--! distribute rng_log device,day strategy => 'range', bounds => array['FROM (MINVALUE, MINVALUE) TO (3, MINVALUE)', 'FROM (3, MINVALUE) TO (3, ''2024-02-01'')', 'FROM (3, ''2024-02-01'') TO (4, MINVALUE)', 'FROM (4, MINVALUE) TO (MAXVALUE, MAXVALUE)']
--! distribute rng_alarm device,day colocate_with => 'rng_log'
--! distribute rng_text name strategy => 'range', bounds => array['FROM (MINVALUE) TO (''M'')', 'FROM (''M'') TO (''a'')', 'FROM (''a'') TO (''n'')', 'DEFAULT']
--! reference rng_ref
--! distribute rng_hash id
--! reset
delete from rng_note;
delete from rng;
delete from rng_log;
delete from rng_alarm;
delete from rng_text;
delete from rng_ref;
delete from rng_hash;
insert into rng select i, i % 4, 't' || i from generate_series(-20, 30) i where i <> 0;
insert into rng_note select i, n, 'note ' || n from generate_series(-20, 30) i, generate_series(1, 2) n where i % 5 = 0 and i <> 0;
insert into rng_log select d, date '2024-01-01' + n * 10, d * 10 + n from generate_series(1, 5) d, generate_series(0, 5) n;
insert into rng_alarm select d, date '2024-01-01' + n * 20, 'alarm ' || n from generate_series(1, 6) d, generate_series(0, 2) n;
insert into rng_text values ('Apple', 1), ('M', 2), ('Zebra', 3), ('a', 4), ('melon', 5), ('n', 6), ('äpfel', 7), ('', 8), (null, 9);
insert into rng_ref values (0, 'zero'), (1, 'one'), (2, 'two');
insert into rng_hash select i, i % 3 from generate_series(1, 30) i;
--! teardown
drop table if exists rng_note;
drop table if exists rng, rng_alarm, rng_log, rng_text, rng_ref, rng_hash;
--! tests
select * from rng where id = 10;
select * from rng where id = 9;
select * from rng where id = -5;
select * from rng where id = -6;
select * from rng where id = -2147483648;
select * from rng where id = 2147483648;
select * from rng where id is null;
select * from rng where id = null;
-- params: 20
select t from rng where id = $1;
-- params: 19
select t from rng where id = $1 and v = 3;
select id from rng where id in (-20, -5, 10, 20, 99);
-- params: {-20,10,20}
select id from rng where id = any ($1::int[]);
select id from rng where id > 25;
select id from rng where id between 8 and 12;
-- params: 11, 19
select t from rng where id between $1 and $2 order by t;
-- params: 10, 20
select count(*), sum(v), min(t) from rng where id >= $1 and id < $2;
-- params: 19, 20
select id from rng where id > $1 and id <= $2;
-- params: -5, 9
select distinct v from rng where $1 <= id and $2 >= id order by v;
-- params: 15, 12
select count(*), max(id) from rng where id between $1 and $2;
-- params: 12, null
select count(*) from rng where id between $1 and $2;
-- params: -99999999999, 99999999999
select count(*) from rng where id between $1::bigint and $2::bigint;
select count(*) from rng where id between 11 and 19 and id > 13 and id < 17 and 18 > id;
-- params: 11
select t from rng where id >= $1 and id < $1 + 8 order by t;
-- params: 21
select t from rng where id between $1 - 3 and 2 + $1 order by t;
-- params: 2147483640
select count(*) from rng where id between $1 - 2147483640 and $1 + 7;
-- params: 9223372036854775807
select count(*) from rng where id between $1::bigint - 1 and $1::bigint + 1;
-- params: 9223372036854775807
select count(*) from rng where id between -5 and $1::bigint - 9223372036854775800;
-- params: 11.5
select count(*) from rng where id between $1::numeric - 1 and $1::numeric + 8;
-- params: 12, 19
select id from rng where id between $1::int + 1 and $2::smallint - 1;
-- params: null
select count(*) from rng where id between $1::int and $1::int + 3;
select id from rng where id in (-20, 11, 20, 25) and id < 20;
select id from rng where id = 11 and id > 20;
select id from rng where id between 18.5 and '21' order by id;
select id from rng where id not between 9 and 29;
select id from rng where id between symmetric 12 and 8;
select id from rng where (id > 28 or id < -18) and id > 0;
select r.id, n.no from rng r join rng_note n on n.rng_id = r.id where n.rng_id between 10 and 19;
select r.id, n.no from rng r left join rng_note n on n.rng_id = r.id and n.rng_id > 19 where r.id between 14 and 21;
select r.id, n.no from rng r left join rng_note n on n.rng_id = r.id where n.rng_id > 19 and r.v = 1;
select r.id, (select count(*) from rng_note n where n.rng_id = r.id and n.rng_id < 20) from rng r where r.id between 19 and 21;
select id from rng where id < 0 and not exists (select 1 from rng_note n where n.rng_id between 10 and 15 and n.no = rng.v);
select a.id, b.id from rng a, rng b where a.id between 11 and 12 and b.id between 26 and 27;
select r.id, h.v from rng r join rng_hash h on h.id = r.id where h.id between 18 and 20;
select id from rng where id between 11 and 12 union all select id from rng where id between -7 and -6;
with s as (select id, v from rng where id > 20) select s.id, r.id from s join rng r on r.id = s.id where r.id < 23;
-- ordered
select id from rng where id > 18 order by id limit 3;
-- ordered
select id from rng where id < -4 order by id desc limit 3 for update;
select count(*), sum(id), min(t), max(t) from rng;
select v, count(*) from rng group by v;
-- ordered
select id, t from rng order by id limit 5;
-- ordered
select id, t from rng order by t desc, id limit 3 offset 4;
select count(*) from rng where id = 15;
-- ordered
select v, count(*), avg(id) from rng group by v having count(*) > 1 order by v;
select r.id, n.no from rng r join rng_note n on n.rng_id = r.id;
select r.id, n.no from rng r left join rng_note n on n.rng_id = r.id where r.v = 0;
select r.id, n.note from rng r join rng_note n on n.rng_id = r.id where r.id = 10;
-- params: -5
select r.id, n.note from rng r join rng_note n on n.rng_id = r.id where n.rng_id = $1;
select count(*) from rng r full join rng_note n on n.rng_id = r.id;
select id from rng where exists (select 1 from rng_note n where n.rng_id = rng.id and no = 2);
select id from rng where id not in (select rng_id from rng_note);
select r.id, f.label from rng r join rng_ref f on f.code = r.v;
select f.label, count(*) from rng r left join rng_ref f on f.code = r.v group by f.label;
select r.id, h.v from rng r join rng_hash h on h.id = r.id;
select r.id, h.v from rng r join rng_hash h on h.id = r.id where r.id = 10;
select id from rng union select id from rng_hash;
-- ordered
select id, row_number() over (partition by id order by t), sum(id) over (order by id) from rng order by id;
insert into rng values (0, 1, 'zero') returning *;
insert into rng values (100, 1, 'a'), (-100, 2, 'b'), (15000, 3, 'c') returning id;
insert into rng values (100, 1, 'a');
insert into rng values (101, 1, 'a'), (10, 1, 'b');
select count(*) from rng where id = 101;
insert into rng values (10, 9, 'x') on conflict (id) do update set v = excluded.v returning *;
insert into rng values (10, 9, 'x'), (-7, 9, 'y'), (5000, 9, 'z') on conflict do nothing returning id;
insert into rng values (null, 1, 'a');
insert into rng_note values (77777, 1, 'no parent');
insert into rng_note select id, 7, t from rng where id > 28 returning *;
insert into rng_hash select id + 1000, v from rng where id between 1 and 4 returning *;
update rng set v = v + 1 where id = 20 returning *;
update rng set v = -1 where id between 9 and 11 returning id;
update rng set v = 70 where id > 12 and id < 15 returning id;
delete from rng where id between 29 and 29 and v is not null returning id;
merge into rng r using (values (-19, 5), (13, 6), (60, 7)) s(id, v) on r.id = s.id and r.id < 0 when matched then update set v = s.v when not matched and s.id > 30 then insert values (s.id, s.v, 'merged');
select id, v from rng where id in (-19, 13, 60);
update rng set t = n.note from rng_note n where n.rng_id = rng.id and n.no = 1 returning id, t;
update rng set t = f.label from rng_ref f where f.code = rng.v and rng.id = 5 returning rng.*;
delete from rng where id = 10;
delete from rng_note where rng_id = 10 returning no;
delete from rng where id = 10 returning t;
delete from rng where id > 10000;
-- params: 3, 2024-01-31
select * from rng_log where device = $1 and day = $2;
select * from rng_log where device = 3 and day = '2024-02-10';
select * from rng_log where device = 3;
select * from rng_log where device = 3 and day > '2024-01-15';
select * from rng_log where device between 3 and 3 and day < '2024-02-01';
select count(*) from rng_log where device > 3 and device <= 4;
select count(*) from rng_log where device < 3;
select count(*) from rng_log where day >= '2024-01-21' and day < '2024-02-01';
select l.device, count(*) from rng_log l join rng_alarm a using (device, day) where a.device >= 4 group by l.device;
select * from rng_log where day = '2024-01-21';
-- ordered
select * from rng_log where device in (2, 3) and day in ('2024-01-01', '2024-02-20') order by device, day;
select device, sum(value) from rng_log group by device;
select device, day, sum(value) from rng_log group by device, day;
select l.device, l.day, a.what from rng_log l join rng_alarm a on a.device = l.device and a.day = l.day;
select l.device, l.day, a.what from rng_log l join rng_alarm a using (device, day) where device = 3;
-- params: 3
select l.day, a.what from rng_log l left join rng_alarm a using (device, day) where l.device = $1 and l.day = '2024-01-21';
select l.day, a.what from rng_log l join rng_alarm a on a.device = l.device where l.device = 1;
select l.device, count(*) from rng_log l join rng_alarm a on a.device = l.device group by l.device;
insert into rng_log values (3, '2024-02-01', 1), (3, '2024-01-30', 2), (9, '1999-01-01', 3) returning *;
insert into rng_log values (3, '2024-02-01', 1);
insert into rng_log (day, device) values ('2024-03-01', 4) returning value;
insert into rng_log values (null, '2024-02-01', 1);
insert into rng_alarm select device, day, 'copied' from rng_log where device = 5 returning day;
update rng_log set value = value + 1 where device = 3 returning day, value;
update rng_log set value = 0 where device = 3 and day = '2024-02-10' returning value;
delete from rng_log where device = 1 and day = '2024-01-01' returning *;
update rng_alarm set device = device + 3 where device between 2 and 3 and day > '2024-01-01' returning device, day, what;
delete from rng_alarm where device = 6;
select count(*) from rng_alarm;
-- ordered
select name, v from rng_text order by name;
-- ordered
select name, v from rng_text order by name desc nulls last;
select v from rng_text where name = 'M';
select v from rng_text where name = 'n';
select v from rng_text where name = '';
select v from rng_text where name = 'äpfel';
select v from rng_text where name is null;
-- params: melon
select v from rng_text where name = $1;
select v from rng_text where name >= 'M' and name < 'a';
select v from rng_text where name > 'm';
select v from rng_text where name between 'N' and 'Z';
select count(*) from rng_text where name < 'A';
-- params: a, n
select v from rng_text where name >= $1 and name < $2;
insert into rng_text values (null, 10), ('z', 11) returning v;
delete from rng_text where name is null returning v;
begin;
update rng set v = 50;
savepoint s;
insert into rng values (10, 1, 'x');
insert into rng values (-20, 1, 'x');
rollback to s;
select count(*), sum(v) from rng;
rollback;
select max(v) < 50 from rng;
copy rng (id, v, t) from stdin;
-1000	1	first
1000	2	last
12345	3	\N
\.
select * from rng where id in (-1000, 1000, 12345);
copy rng_log from stdin (format csv);
3,2025-01-01,1.5
1,2025-01-01,2.5
\.
select * from rng_log where day = '2025-01-01';
truncate rng_alarm, rng_text;
select (select count(*) from rng_alarm), (select count(*) from rng_text);
