-- A user's own operator = in front of pg_catalog's: what = means says nothing of shards.
--! setup
create schema ops;
create function ops.eq(text, text) returns boolean language sql immutable as
    'select lower($1) operator(pg_catalog.=) lower($2)';
create operator ops.= (leftarg = text, rightarg = text, function = ops.eq, commutator = operator(ops.=));
create table op_a (k text, v int);
create table op_b (k text, v int);
--! distribute op_a k
--! distribute op_b k colocate_with => 'op_a'
--! reset
delete from op_a;
delete from op_b;
insert into op_a select chr(97 + i), i from generate_series(0, 9) i;
insert into op_b select chr(65 + i), i from generate_series(0, 9) i;
insert into op_b select chr(97 + i), i from generate_series(0, 9) i;
--! tests
set search_path = ops, pg_catalog, public;
select * from op_b where k = 'a';
select * from op_b where 'a' = k;
-- params: 'a'
select * from op_b where k = $1;
select * from op_b where k in ('a', 'b');
select * from op_b where k = any (array['a', 'b']);
select * from op_b where k = 'a' or k = 'b';
select * from op_b where k operator(pg_catalog.=) 'a';
select * from op_b where k in (select k from op_a);
select count(*) from op_a join op_b using (k);
select count(*) from op_a natural join op_b;
select count(*) from op_a join op_b on op_a.k = op_b.k;
select count(*) from op_a join op_b on op_a.k operator(pg_catalog.=) op_b.k;
select k, count(*) from op_b group by k;
select distinct k from op_b;
update op_b set v = 100 where k = 'c';
delete from op_b where k = 'd';
select k, v from op_b;
reset search_path;
select * from op_b where k = 'a';
--! teardown
drop table if exists op_b;
drop table if exists op_a;
drop schema if exists ops cascade;
