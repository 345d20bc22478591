-- INSERT of elements and fields of columns, where the router adds columns to the statement or cuts it into rows.
--! setup
create domain ip_number as int check (value < 1000);
create type ip_place as (street text, number ip_number);
create table ip (id bigserial, k int not null, at timestamptz default now(), list int[], words text[], doc jsonb, place ip_place);
create type ip_range as range (subtype = int8);
create type ip_moment as (at timestamptz);
create table ip_places (k int, place ip_place, span ip_range, list int[]);
create table ip_moments (k int, m ip_moment);
create table ip_of (k int primary key, words text[]);
create table ip_uuids (id uuid default gen_random_uuid(), v int);
create table ip_five (k int default 2 + 3, v int);
create table ip_times (at timestamptz default now(), v int);
create table ip_clocks (k int primary key, at timestamptz default now());
create table ip_clocks_ref (k int primary key, at timestamptz default now());
create table ip_defaults (k serial, at timestamptz default now());
--! distribute ip k
--! distribute ip_of k
--! distribute ip_defaults k
--! distribute ip_clocks k
--! distribute ip_uuids id
--! distribute ip_five k
--! distribute ip_times at
--! reference ip_clocks_ref
--! distribute ip_moments k
--! distribute ip_places k
create view ip_view as select id, k, words, doc, list from ip;
alter view ip_view alter column list set default '{9}';
--! reset
truncate ip, ip_of, ip_moments, ip_places, ip_defaults, ip_clocks, ip_clocks_ref, ip_uuids, ip_five, ip_times;
insert into ip_of values (70, '{a}'), (71, '{b}');
--! teardown
drop view if exists ip_view;
drop table if exists ip, ip_of, ip_moments, ip_places, ip_defaults, ip_clocks, ip_clocks_ref, ip_uuids, ip_five, ip_times;
drop type if exists ip_place, ip_range, ip_moment;
drop domain if exists ip_number;
--! tests
insert into ip (k, list[1], list[2], words[1]) values (1, 5, 6, '{a}');
insert into ip (k, doc['a'], doc['b']['c']) values (2, '1', '"x"');
insert into ip (k, doc['a']) values (3, '{"z": 1}'), (4, '2'), (5, null), (6, '[1]');
insert into ip (place.street, k, place.number) values ('Höhe', 7, 7), ('\', 8, 8);
insert into ip (k, words[2]) values (9, '{b}') returning k, words;
insert into ip (k, words[2:3]) values (10, '{x,y}'), (11, '{z,z}') returning words;
insert into ip (words[2], k, list) values ('(1,2)', 12, default), ('x', 13, '{1}');
-- params: 14, '{p}', 15, 'q'
insert into ip (k, words[1]) values ($1, $2), ($3, $4) returning k, words;
insert into ip_view (k, words[1], doc['d'], words[2]) values (16, 'a', '3', 'b');
insert into ip (k, list[1], list) values (17, 1, '{1}');
insert into ip (k, list.x) values (18, 1);
insert into ip (k, list[1]) values (19, 'x');
with w as (select 'W' as v) insert into ip (k, words[1]) values (20, (select v from w));
insert into ip_of (k, words[1]) values (1, '{a}'), (2, 'b') on conflict (k) do update set words[2] = excluded.words[1];
insert into ip_of (k, words[1]) values (1, 'c'), (3, 'd') on conflict (k) do update set words[2] = excluded.words[1] returning k, words;
-- ordered
select k, list, words, doc, place, id is not null as numbered from ip order by k;
insert into ip (k, list[(select count(*) from ip_of)]) values (21, 1);
insert into ip (k, list[(select count(*) from ip_of)]) select k, 1 from ip_of;
insert into ip (k, list[abs(-2)]) select k + 900, 1 from ip_of returning k, list;
-- ordered
select * from ip_of order by k;
insert into ip (k, words[1]) select k, words[1] from ip_of where k >= 70;
-- Types of users' own, under settings that change the texts of some types they could be made of.
set datestyle = 'German, DMY';
set extra_float_digits = 0;
insert into ip_places values (30, row('a', 1)::ip_place, '[1,3)', '{1,2}'), (31, null, null, null);
insert into ip_places select k + 100, place, span, list from ip_places;
prepare ip_p (ip_place, ip_range) as select ($1).street, upper($2);
execute ip_p (row('a' || 'b', 2), '[1,7)');
deallocate ip_p;
-- ordered
select * from ip_places order by k;
insert into ip_moments select k + 1, m from ip_moments;
reset datestyle;
reset extra_float_digits;
-- From a query, whose rows have types of their own.
insert into ip (k, list[1], list[2]) select 7, 7, 8;
insert into ip (k, list[1], list[2]) select k + 100, k, k::bigint from ip_of;
insert into ip (k, words[1], words[2]) select k + 200, 'bear', words[1] from ip_of order by k returning k, words;
insert into ip (k, words[2:3]) select 300, '{x,y}';
insert into ip (k, place.street, place.number) select 301, 'Weg', 12;
insert into ip (k, place.number) select 302, 12000;
insert into ip (k, doc['a']['b'], doc['c']) select k + 400, to_jsonb(k), '"x"' from ip_of;
insert into ip (k, doc['a']) select k, words from ip_of;
insert into ip (k, list[1]) select k, words[1] from ip_of;
insert into ip (k, list[1]) select k, 'y' from ip_of;
insert into ip (k, list[1]) select k, null from ip_of returning list;
insert into ip (k, list[1]) select k from ip_of;
insert into ip (k, list[1]) select k, 1, 2 from ip_of;
insert into ip (k, list[1], list) select k, 1, '{2}' from ip_of;
insert into ip (k, list.x) select k, 1 from ip_of;
-- params: 2, 5, z
insert into ip (k, list[$1], words[3]) select k + 500, $2, $3 from ip_of returning k, list, words;
insert into ip_of (k, words[1]) select k, 'again' from ip_of on conflict (k) do update set words[2] = excluded.words[1] returning k, words;
insert into ip (at, place.street, k) select '2020-01-01', 'late', k + 700 from ip_of;
with w as (select k, words from ip_of) insert into ip (k, words[1]) select k + 800, words[1] from w;
select k, list, words, doc, place, at = '2020-01-01' as late, id is not null as numbered from ip order by k;
-- A SELECT without columns gives its rows nothing but defaults.
insert into ip_defaults select;
insert into ip_defaults select from ip_of;
insert into ip_defaults select from generate_series(1, 3) returning at = now() as begun;
insert into ip_defaults (k) select;
insert into ip_defaults select union all select;
insert into ip_defaults select from ip_of where k = 70 returning at = now() as begun;
select count(*), count(distinct at) > 1 as moments, count(at), count(distinct k) from ip_defaults;
-- What is stored and what is returned, or set where a row was there, is one moment.
insert into ip_defaults select 1001 returning at = now();
insert into ip_defaults (k, at) select g, now() from generate_series(1002, 1004) g returning at = now(), current_timestamp = at;
insert into ip_defaults (k, at) select k + 1000, now() from ip_defaults where k > 1000 returning at = now();
insert into ip_defaults (k) select k + 5000 from ip_of returning at = now();
insert into ip_clocks (k) select k from ip_of returning at = now();
insert into ip_clocks (k, at) select k, '2000-01-01' from ip_of on conflict (k) do update set at = now() returning at = now();
insert into ip_clocks (k, at) select k, now() from ip_of on conflict (k) do update set at = excluded.at returning at = now();
insert into ip_clocks_ref (k, at) select k, now() from ip_of returning at = now();
insert into ip_clocks_ref (k) select k + 10 from ip_of returning at = now();
with w as (insert into ip_clocks (k) select g from generate_series(501, 505) g returning at) select at = now() from w;
merge into ip_clocks c using ip_of o on c.k = o.k when matched then update set at = now() when not matched then insert (k, at) values (o.k, now());
select count(*), count(distinct at) from ip_clocks where k < 500;
-- The same of temporary tables, in a transaction and out of one.
create temp table ip_temp (k int primary key, at timestamptz default now());
insert into ip_temp select k, now() from ip_of returning k, at = now();
insert into ip_temp (k) select k + 10 from ip_of returning k, at = now();
insert into ip_temp (k) select k + 20 from ip_of where k = 70 returning k, at = now();
insert into ip_temp select k, now() from ip_of on conflict (k) do update set at = now() returning k, at = now();
begin;
insert into ip_temp (k) select k + 30 from ip_of returning k, at = now();
create temp table ip_temp_made as select k, now() as at from ip_of;
select k, at = now() from ip_temp_made;
select k into temp ip_temp_into from ip_of where now() > '2000-01-01';
select * from ip_temp_into;
insert into ip_temp select k + 40, now() from ip_of where k = 71;
commit;
select count(*), count(distinct at) from ip_temp;
drop table ip_temp, ip_temp_made, ip_temp_into;
-- Keys by a default.
insert into ip_uuids (v) select g from generate_series(1, 20) g;
insert into ip_uuids (v) select v + 20 from ip_uuids returning v, id is not null as has;
insert into ip_uuids (v) values (41), (42), (43);
copy ip_uuids (v) from stdin;
44
45
46
\.
select count(*), count(distinct id), sum(v), count(*) filter (where id = any (select id from ip_uuids)) from ip_uuids;
select count(*) from ip_uuids a join ip_uuids b on a.id = b.id;
insert into ip_five (v) select g from generate_series(1, 3) g returning k, v;
insert into ip_five select from ip_of;
copy ip_five (v) from stdin;
7
\.
select k, count(*), sum(v) from ip_five where k = 5 group by k;
insert into ip_times (v) select g from generate_series(1, 3) g returning at = now(), v;
insert into ip_times (v) select k from ip_of returning at = now(), v;
insert into ip_times select from ip_of returning at = now(), v;
select count(*), count(distinct at) from ip_times;
