--! setup
create type lit_mood as enum ('sad', 'ok');
create table lit_keyed (k int primary key, m lit_mood, f float8);
--! distribute lit_keyed k
create table lit_moments (k timestamptz primary key, v int);
--! distribute lit_moments k colocate_with => 'none'
create table lit_null (k int, v int);
--! distribute lit_null k colocate_with => 'none'
create table lit_home (id int);
create function lit_empty(x int) returns bool language sql stable as 'select count(*) = 0 and x > 0 from lit_home';
create domain lit_code as int check (lit_empty(value));
--! reset
truncate lit_keyed, lit_moments, lit_null, lit_home;
insert into lit_keyed select g, case when g % 2 = 0 then 'ok'::lit_mood end, g from generate_series(1, 20) g;
insert into lit_home values (1);
insert into lit_null values (null, 1), (2, 2);
--! tests
-- statements of one template, of which each has a plan of its own
select pg_input_is_valid('1', 'int4');
select pg_input_is_valid('1', 'lit_code');
select pg_input_is_valid('1', 'int4');
select current_setting('transaction_isolation');
select current_setting('client_encoding');
set client_encoding = latin1;
select current_setting('transaction_isolation');
select current_setting('client_encoding');
reset client_encoding;
select current_setting('client_encoding');
select pg_total_relation_size('lit_home') > 0;
select pg_total_relation_size('lit_keyed') > 0;
select pg_relation_size('lit_keyed', 'init') > 0;
select pg_relation_size('lit_keyed', 'main') > 0;
insert into lit_moments values ('2024-01-01', 1);
insert into lit_moments values ('now', 2);
insert into lit_moments values ('2024-01-03', 3);
insert into lit_moments values ('today', 4);
select v from lit_moments;
-- a node's types have numbers of its own, and home is asked for those alone
select m, 1::float(24) from lit_keyed where k = 1;
select m, 1::float(53) from lit_keyed where k = 2;
select m, 1::numeric(5,1) from lit_keyed where k = 3;
select m, 1::numeric(5,2) from lit_keyed where k = 4;
select m, 1::numeric(7,2) from lit_keyed where k = 5;
select m, 'x'::varchar(3) from lit_keyed where k = 6;
select m, 'x'::varchar(4) from lit_keyed where k = 7;
select m, 'x'::varchar(5) from lit_keyed where k = 8;
-- zero has no sign, unless it is a text
update lit_keyed set f = -1 where k = 1;
update lit_keyed set f = -0 where k = 2;
update lit_keyed set f = -0.0 where k = 3;
update lit_keyed set f = '-0' where k = 4;
select k, f::text from lit_keyed where k < 6;
-- what is NULL, by a setting
update lit_null set k = 7 where k = null;
set transform_null_equals = on;
update lit_null set k = 7 where k = null;
select * from lit_null;
select r.k, d.v from lit_keyed r left join lit_null d on d.k = r.k where d.k = null;
select count(*) from lit_keyed r left join lit_null d on d.k = r.k where d.k = null or d.k = 2;
select count(*) from lit_null where k = null;
select count(*) from lit_null where null = k;
delete from lit_null where k = null;
insert into lit_null values (null, 1);
select count(*) from lit_null where k = null or k = 2;
reset transform_null_equals;
select r.k, d.v from lit_keyed r left join lit_null d on d.k = r.k where d.k = null;
select count(*) from lit_null where k = null or k = 2;
--! teardown
drop table if exists lit_keyed, lit_moments, lit_null;
drop domain if exists lit_code;
drop function if exists lit_empty;
drop table if exists lit_home;
drop type if exists lit_mood;
