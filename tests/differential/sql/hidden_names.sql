-- Names that the search path gives another meaning than PostgreSQL's own: types, the time, schemas with long and odd names.
--! setup
create schema hid;
create table hid_k (k text primary key, v int);
create table hid_n (id int primary key, v int);
create schema ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1;
create table ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1.hid_n (id int, v int);
create schema " ";
create table " ".hid_n (id int primary key, v int);
create domain hid.text as char(3);
create type hid.int4 as enum ('7', '8');
create function hid.other(hid.int4) returns pg_catalog.int4 language sql immutable as $$ select 8 $$;
create cast (hid.int4 as pg_catalog.int4) with function hid.other(hid.int4) as implicit;
create function hid.now() returns timestamptz language sql stable as $$ select '2000-01-01 00:00+00'::pg_catalog.timestamptz $$;
--! distribute hid_k k
--! distribute hid_n id
--! distribute ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1.hid_n v
--! reset
delete from hid_k;
delete from hid_n;
delete from ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1.hid_n;
delete from " ".hid_n;
insert into hid_k select 'k' || i, i from generate_series(1, 20) i;
insert into hid_k values ('abc', 100), ('abcdef', 200);
insert into hid_n select i, i from generate_series(1, 20) i;
insert into ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1.hid_n select i, i * 10 from generate_series(1, 5) i;
insert into " ".hid_n values (1, 1000);
--! tests
set search_path = hid, pg_catalog, public;
select * from hid_k where k = 'abcdef'::text;
select * from hid_k where k = 'abc    '::text;
select * from hid_k where k in ('abcdef'::text, 'abcde'::text);
select * from hid_k where k = any (array['abcdef']::text[]);
select * from hid_k where k = 'abcdef'::pg_catalog.text;
insert into hid_k values ('xyzzy'::text, 5);
select * from hid_k where k = 'xyz';
update hid_k set v = 6 where k = 'xyzuv'::text;
select v from hid_k where k = 'xyz';
select * from hid_n where id = '7'::int4;
update hid_n set v = 99 where id = '7'::int4;
select * from hid_n where v = 99;
delete from hid_n where id = '7'::int4;
select count(*) from hid_n;
select count(*) from hid_n where now() < '2001-01-01';
select now() from hid_n where id = 3;
select * from hid_n where id = '7'::int;
reset search_path;
set search_path = ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1, public;
select v from hid_n where id = 1;
select count(*) from hid_n;
reset search_path;
set search_path = ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1andmore, public;
select v from hid_n where id = 1;
select count(*) from hid_n;
insert into hid_n values (77, 77);
select count(*) from ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1.hid_n;
reset search_path;
select set_config('search_path', 'ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1andmore, public', false) is not null;
select v from hid_n where id = 1;
reset search_path;
select set_config('search_path', U&'\00a0, public', false) is not null;
select v from hid_n where id = 1;
select count(*) from hid_n;
reset search_path;
--! teardown
drop table if exists hid_k;
drop table if exists hid_n;
drop schema if exists hid cascade;
drop schema if exists ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss1 cascade;
drop schema if exists " " cascade;
