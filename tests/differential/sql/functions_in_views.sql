-- Views whose queries call functions that use distributed tables.
--! teardown
drop table if exists fv_a, fv_r, fv_l cascade;
drop function if exists fv_count(integer), fv_rows(integer), fv_steps(integer), fv_table(integer), fv_write(integer) cascade;
--! setup
create table fv_a (k integer primary key, v integer, t text);
create table fv_r (id integer primary key, n text);
create table fv_l (id integer primary key, m text);
--! distribute fv_a k
--! reference fv_r
insert into fv_a select i, i % 7, 't' || i % 5 from generate_series(1, 40) i;
insert into fv_l select i, 'm' || i from generate_series(0, 5) i;
create function fv_count(x integer) returns bigint stable language sql as 'select count(*) from fv_a where v = x';
create function fv_rows(x integer) returns setof fv_a stable language sql as 'select * from fv_a where v = x';
create function fv_steps(x integer) returns bigint stable language plpgsql as 'begin return (select count(*) from fv_a where v = x); end';
create function fv_table(x integer) returns table (key integer, word text) stable language plpgsql as 'begin return query select k, t from fv_a where v = x; end';
create function fv_write(x integer) returns integer language plpgsql as 'begin update fv_r set n = ''written'' where id = x; return x; end';
--! reset
drop view if exists fv_one, fv_of_rows, fv_each, fv_stepped, fv_called, fv_stepped_each, fv_writes, fv_with_local, fv_over, fv_lateral, fv_where cascade;
drop view if exists pg_temp.fv_own;
delete from fv_r;
insert into fv_r select i, 'n' || i from generate_series(0, 9) i;
--! tests
create view fv_one as select fv_count(1) as c;
select * from fv_one;
select c + 1 from fv_one;
create view fv_of_rows as select * from fv_rows(2);
select count(*) from fv_of_rows;
select o.k, o.t, r.n from fv_of_rows o join fv_r r on r.id = o.v;
-- params: 2
select * from fv_of_rows where k = $1;
create view fv_each (id, how_many) as select id, fv_count(id) from fv_r;
select * from fv_each;
create view fv_with_local as select m, fv_count(id) as c from fv_l;
select * from fv_with_local;
select count(*) from fv_with_local where c > 5;
create view fv_stepped as select fv_steps(1) as c;
select * from fv_stepped;
select c from fv_stepped;
create view fv_called as select * from fv_table(3);
select * from fv_called;
-- params: 10
select count(*) from fv_called where key > $1;
select c.word, r.n from fv_called c join fv_r r on r.id = c.key;
create view fv_stepped_each as select id, fv_steps(id) as c from fv_r where id < 5;
select * from fv_stepped_each;
create view fv_over as select o.*, c from fv_of_rows o, fv_one;
select * from fv_over where k > 5;
create temp view fv_own as select * from fv_called;
select * from fv_own;
create view fv_writes as select fv_write(id) as w from fv_r where id in (5, 6);
select * from fv_writes;
select id, n from fv_r where n = 'written';
insert into fv_r select key + 100, word from fv_called;
select count(*) from fv_r;
-- as calls in such places are in the statement itself
create view fv_lateral as select a.k, x.word from fv_a a, lateral fv_table(a.v) x;
select count(*) from fv_lateral;
create view fv_where as select * from fv_a where fv_count(v) > 5;
select count(*) from fv_where;
begin;
update fv_where set t = 'x' where k = 1;
rollback;
