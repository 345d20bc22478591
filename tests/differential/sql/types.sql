-- Every common type as a column: the same value, type oid and typmod, in text and in binary.
--! setup
create type mood as enum ('sad', 'ok', 'happy');
create type pair as (a int, b text);
create domain positive as int check (value > 0);
create table types (
    id int primary key, t_bool bool, t_int2 int2, t_int4 int4, t_int8 int8, t_float4 float4, t_float8 float8,
    t_numeric numeric, t_money money, t_numeric_p numeric(12,3), t_text text, t_varchar varchar(30), t_char char(5), t_qchar "char",
    t_name name, t_bytea bytea, t_date date, t_time time, t_timetz timetz, t_ts timestamp, t_tstz timestamptz,
    t_ts3 timestamp(3), t_interval interval, t_uuid uuid, t_json json, t_jsonb jsonb, t_xml text, t_inet inet, t_cidr cidr,
    t_macaddr macaddr, t_macaddr8 macaddr8, t_bit bit(4), t_varbit varbit, t_point point, t_line line, t_lseg lseg,
    t_box box, t_path path, t_polygon polygon, t_circle circle, t_int4range int4range, t_tstzrange tstzrange,
    t_nummultirange nummultirange, t_int_array int[], t_text_array text[], t_2d int[][], t_tsvector tsvector, t_tsquery tsquery,
    t_mood mood, t_mood_array mood[], t_pair pair, t_positive positive, t_pg_lsn pg_lsn, t_jsonpath jsonpath, t_oid oid
);
--! distribute types id
insert into types values (1, true, -32768, -2147483648, -9223372036854775808, 1.5, 2.25, 12345678901234567890.123456789,
    '12.34', 1.5, 'text', 'varchar', 'ab', 'c', 'name', '\x00ff10', '2024-02-29', '12:34:56.789', '12:34:56+02',
    '2024-02-29 12:34:56.123456', '2024-02-29 12:34:56.123456+00', '2024-02-29 12:34:56.1239', '1 year 2 mons 3 days 04:05:06',
    '123e4567-e89b-12d3-a456-426614174000', '{"a": 1,  "b": [1,2]}', '{"b": [1, 2], "a": 1}', '<a/>', '192.168.0.1/24',
    '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05', '1010', '10101', '(1,2)', '{1,2,3}', '[(0,0),(1,1)]',
    '((0,0),(1,1))', '[(0,0),(1,1),(2,0)]', '((0,0),(1,1),(2,0))', '<(0,0),1>', '[1,5)',
    '[2024-01-01 00:00+00,2024-02-01 00:00+00)', '{[1.0,2.0),[3.0,4.0)}', '{1,NULL,3}', '{"a b",c,NULL,"\"q\""}',
    '{{1,2},{3,4}}', 'fat:1 cat:2', 'fat & cat', 'happy', '{sad,ok}', '(1,"x, y")', 7, '16/B374D848', '$.a[*]', 42);
insert into types (id) values (2);
insert into types values (3, false, 32767, 2147483647, 9223372036854775807, 'NaN', 'Infinity', 'NaN', '-0.01', -99.9999, '',
    '', '', '', '', '', 'infinity', '24:00:00', '00:00:00-15:59', '-infinity', 'infinity', '1999-12-31 23:59:59.9996',
    '-1 days', '00000000-0000-0000-0000-000000000000', 'null', 'null', '', '::1', '::/0', 'ff:ff:ff:ff:ff:ff',
    'ff:ff:ff:ff:ff:ff:ff:ff', '0000', '', '(-1.5,1e10)', '{0,1,0}', '[(1,1),(1,1)]', '((1,1),(1,1))', '((0,0))', '((0,0))',
    '<(1,1),0>', 'empty', '(,)', '{}', '{}', '{}', '{}', '', '', 'sad', '{}', '(,)', 1, '0/0', '$', 0);
--! teardown
drop table if exists types;
drop type if exists mood, pair cascade;
drop domain if exists positive;
--! tests
-- notices vary
-- ordered
select * from types order by id;
select * from types where id = 1;
select * from types where id = 2;
select * from types where id = 3;
select * from types where id in (1, 3);
select t_bool, not t_bool as n from types;
select t_int2, t_int2::int4 / 2 as half from types where id <> 3;
select t_float4, t_float8 from types where id = 3;
select t_numeric, t_numeric_p, round(t_numeric_p, 1) as r from types;
select t_money from types;
select t_char, length(t_char), t_varchar, t_qchar, t_name from types;
select t_bytea, length(t_bytea), encode(t_bytea, 'hex') from types;
select t_date, t_time, t_timetz, t_ts, t_ts3 from types;
select t_tstz, t_tstz at time zone 'UTC' as utc from types;
select t_interval, t_interval * 2 as twice from types;
select t_uuid from types;
select t_json, t_jsonb from types;
select t_inet, t_cidr, host(t_inet) from types;
select t_macaddr, t_macaddr8 from types;
select t_bit, t_varbit, t_bit::bit(4) & b'0110' as masked from types;
select t_point, t_line, t_lseg, t_box, t_path, t_polygon, t_circle from types;
select t_int4range, t_tstzrange, t_nummultirange from types where id <> 2;
select t_int_array, t_text_array, t_2d from types;
select t_tsvector, t_tsquery, t_tsvector @@ t_tsquery as found from types;
select t_mood from types;
select t_mood_array from types;
select t_pair, (t_pair).a, (t_pair).b from types;
select t_positive from types;
select t_pg_lsn, t_oid from types;
select id from types where t_mood = 'happy';
-- ordered
select id, t_mood from types order by t_mood nulls last, id;
select max(t_mood), min(t_mood) from types;
select max(t_date), min(t_date), max(t_ts), min(t_ts) from types;
select max(t_text), min(t_text), max(t_char), max(t_varchar) from types;
select max(t_inet), min(t_inet) from types;
select max(t_pg_lsn), min(t_interval) from types;
select max(t_money), min(t_numeric), max(t_numeric) from types;
select sum(t_money), sum(t_int2), sum(t_int4), sum(t_int8) from types where id < 3;
select sum(t_interval), avg(t_interval) from types;
select bit_and(t_bit), bit_or(t_bit) from types;
select array_agg(t_mood order by t_mood) from types;
select array_agg(t_uuid order by id), array_agg(t_inet order by id) from types;
select array_agg(t_int_array order by id) from types where id = 1;
select range_agg(t_int4range), range_intersect_agg(t_int4range) from types where id = 1;
select count(distinct t_uuid), count(distinct t_mood) from types;
select t_mood, count(*) from types group by t_mood;
select t_pair, count(*) from types group by t_pair;
select t_jsonb, count(*) from types group by t_jsonb;
select distinct t_bytea from types;
-- params: 1
select t_int4, t_text from types where id = $1;
-- params: happy
select id from types where t_mood = $1::mood;
-- params: '123e4567-e89b-12d3-a456-426614174000'
select id from types where t_uuid = $1;
-- params: '{1,3}'
select id from types where id = any ($1::int[]);
-- params: 2024-02-29
select id from types where t_date = $1;
-- params: \x00ff10
select id from types where t_bytea = $1;
select pg_typeof(t_mood)::text, pg_typeof(t_pair)::text, pg_typeof(t_positive)::text from types where id = 1;
select null as n, 'unknown' as u, 1 as i, 1.5 as d, true as b;
select id, null as n from types;
select id, 'x' as u, 3::int2 as s from types;
select cast(t_int4 as text), t_text::varchar(2), t_numeric::numeric(30,2) from types where id = 1;
select types from types where id = 2;
select row(id, t_text) from types;
select id::numeric(5,1), id::varchar(3), id::char(4) from types;
