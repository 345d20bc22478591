-- Each of these tables is distributed by another type: a row is found again by its key, and only there.
--! setup
create type key_color as enum ('red', 'green', 'blue');
create table key_int2 (key int2 primary key, v int);
create table key_int8 (key int8 primary key, v int);
create table key_text (key text primary key, v int);
create table key_varchar (key varchar(20) primary key, v int);
create table key_char (key char(8) primary key, v int);
create table key_uuid (key uuid primary key, v int);
create table key_date (key date primary key, v int);
create table key_ts (key timestamp primary key, v int);
create table key_tstz (key timestamptz primary key, v int);
create table key_numeric (key numeric primary key, v int);
create table key_bool (key bool primary key, v int);
create table key_bytea (key bytea primary key, v int);
create table key_inet (key inet primary key, v int);
create table key_enum (key key_color primary key, v int);
create table key_float8 (key float8 primary key, v int);
create table key_array (key int[] primary key, v int);
create table key_jsonb (key jsonb primary key, v int);
create table key_interval (key interval primary key, v int);
--! distribute key_int2 key
--! distribute key_int8 key
--! distribute key_text key
--! distribute key_varchar key
--! distribute key_char key
--! distribute key_uuid key
--! distribute key_date key
--! distribute key_ts key
--! distribute key_tstz key
--! distribute key_numeric key
--! distribute key_bool key
--! distribute key_bytea key
--! distribute key_inet key
--! distribute key_float8 key
--! distribute key_array key
--! distribute key_jsonb key
--! distribute key_interval key
insert into key_int2 values (1, 1), (-1, 2), (32767, 3);
insert into key_int8 values (1, 1), (-1, 2), (9223372036854775807, 3), (4294967296, 4);
insert into key_text values ('', 1), ('a', 2), ('A', 3), ('äöü', 4), ('it''s', 5), ('a b', 6);
insert into key_varchar values ('', 1), ('a', 2), ('b ', 3);
insert into key_char values ('', 1), ('a', 2), ('b', 3);
insert into key_uuid values ('123e4567-e89b-12d3-a456-426614174000', 1), ('00000000-0000-0000-0000-000000000000', 2);
insert into key_date values ('2024-02-29', 1), ('infinity', 2), ('1900-01-01', 3);
insert into key_ts values ('2024-02-29 12:00', 1), ('-infinity', 2), ('1900-01-01', 3);
insert into key_tstz values ('2024-02-29 12:00+00', 1), ('2024-02-29 12:00+05', 2);
insert into key_numeric values (1, 1), (1.50, 2), ('NaN', 3), (1e20, 4), (-0.001, 5), (0, 6);
insert into key_bool values (true, 1), (false, 2);
insert into key_bytea values ('\x', 1), ('\x00', 2), ('\xdeadbeef', 3);
insert into key_inet values ('10.0.0.1', 1), ('10.0.0.1/8', 2), ('::1', 3);
insert into key_enum values ('red', 1), ('green', 2), ('blue', 3);
insert into key_float8 values (0, 1), (1.5, 2), ('NaN', 3), ('-Infinity', 4);
insert into key_array values ('{}', 1), ('{1,2}', 2), ('{1,NULL}', 3);
insert into key_jsonb values ('{"a": 1}', 1), ('[]', 2), ('"a"', 3), ('1.0', 4);
insert into key_interval values ('1 day', 1), ('1 month', 2), ('00:00', 3);
--! teardown
drop table if exists key_int2, key_int8, key_text, key_varchar, key_char, key_uuid, key_date, key_ts, key_tstz;
drop table if exists key_numeric, key_bool, key_bytea, key_inet, key_enum, key_float8, key_array, key_jsonb, key_interval;
drop type if exists key_color;
--! tests
select * from key_int2 where key = 1;
select * from key_int2 where key = -1;
select * from key_int2 where key = 32767;
select * from key_int2 where key = 32768;
select * from key_int2 where key = 1::int8;
select * from key_int2 where key = 1.0;
select * from key_int2;
select * from key_int8 where key = 4294967296;
select * from key_int8 where key = 1::int2;
select * from key_int8 where key = '1';
select * from key_int8 where key = 9223372036854775807;
select * from key_int8 where key = 9223372036854775808;
-- params: 4294967296
select * from key_int8 where key = $1;
select * from key_text where key = '';
select * from key_text where key = 'a';
select * from key_text where key = 'A';
select * from key_text where key = 'äöü';
select * from key_text where key = U&'\00e4\00f6\00fc';
select * from key_text where key = E'it\'s';
select * from key_text where key = $$a b$$;
select * from key_text where key = 'a'::varchar;
select * from key_text where key = 'a'::char(3);
select * from key_text where key in ('a', 'A', 'nope');
-- params: äöü
select * from key_text where key = $1;
select * from key_varchar where key = 'a';
select * from key_varchar where key = 'b';
select * from key_varchar where key = 'b ';
select * from key_char where key = 'a';
select * from key_char where key = 'a   ';
select * from key_char where key = 'a'::text;
select * from key_uuid where key = '123E4567-E89B-12D3-A456-426614174000';
select * from key_uuid where key = '{00000000000000000000000000000000}';
select * from key_date where key = '2024-02-29';
select * from key_date where key = date 'Feb 29, 2024';
select * from key_date where key = 'infinity';
select * from key_date where key = timestamp '2024-02-29 00:00';
select * from key_ts where key = '2024-02-29T12:00:00';
select * from key_ts where key = '-infinity';
select * from key_tstz where key = '2024-02-29 12:00+00';
select * from key_tstz where key = '2024-02-29 07:00+00';
select * from key_tstz where key = '2024-02-29 14:00+02';
select * from key_numeric where key = 1;
select * from key_numeric where key = 1.0;
select * from key_numeric where key = 1.5;
select * from key_numeric where key = 1.500;
select * from key_numeric where key = 'NaN';
select * from key_numeric where key = 1e20;
select * from key_numeric where key = 100000000000000000000.000;
select * from key_numeric where key = -0.0010;
select * from key_numeric where key = -0.0;
select * from key_bool where key;
select * from key_bool where key = true;
select * from key_bool where not key;
select * from key_bytea where key = '\xdeadbeef';
select * from key_bytea where key = '\336\255\276\357';
select * from key_bytea where key = '';
select * from key_inet where key = '10.0.0.1';
select * from key_inet where key = '10.0.0.1/8';
select * from key_enum where key = 'green';
-- params: blue
select * from key_enum where key = $1;
select * from key_enum where key = 'no such color';
select * from key_float8 where key = 1.5;
select * from key_float8 where key = 'NaN';
select * from key_float8 where key = -0.0;
select * from key_array where key = '{1,2}';
select * from key_array where key = array[1, 2];
select * from key_array where key = '{}';
select * from key_jsonb where key = '{"a":1}';
select * from key_jsonb where key = '1.0';
select * from key_interval where key = '24:00:00';
select * from key_interval where key = '30 days';
update key_numeric set v = v + 10 where key = 1.50 returning *;
delete from key_text where key = 'a b' returning v;
insert into key_uuid values (null, 1);
insert into key_uuid values ('not a uuid', 1);
insert into key_int2 values (70000, 1);
insert into key_varchar values ('this is much too long for it', 1);
insert into key_enum values ('no such color', 1);
select count(*), sum(v) from key_text;
