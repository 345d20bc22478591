-- Errors carry PostgreSQL's own SQLSTATE, text and fields, with the table's name and not a partition's; the session goes on.
--! setup
create table err_parent (id int primary key);
--! distribute err_parent id
create table err (
    id int primary key, a int constraint err_a_positive check (a > 0), b text not null, c int,
    p int, constraint err_unique unique (id, c), constraint err_fk foreign key (id) references err_parent (id)
);
--! distribute err id colocate_with => 'err_parent'
create table err_ref (id int primary key);
--! reference err_ref
create table err_points (id int primary key, ref int references err_ref (id));
--! distribute err_points id
--! reset
delete from err;
delete from err_parent;
delete from err_points;
delete from err_ref;
insert into err_parent values (1), (2), (3), (4), (5);
insert into err values (1, 1, 'b', 1);
insert into err_ref values (1);
--! teardown
drop table if exists err_points, err_ref, err, err_parent;
--! tests
insert into err values (1, 1, 'b', 1);
select 1;
insert into err values (2, 0, 'b', 1);
insert into err values (2, 1, null, 1);
insert into err values (77, 1, 'b', 1);
delete from err_parent where id = 1;
update err_parent set id = 9 where id = 1;
update err set a = -1 where id = 1;
update err set b = null where id = 1;
update err set b = null;
insert into err values (2, 1, 'b', 1), (3, 0, 'b', 1), (4, 1, 'b', 1);
select count(*) from err;
insert into err_points values (1, 1);
insert into err_points values (2, 2);
delete from err_ref where id = 1;
insert into err_ref values (1);
selec 1;
-- message varies
select 1 from;
select from where;
select (1;
select 'open;
select * from nosuch;
select * from nosuchschema.t;
select nosuch from err;
select nosuch from err where id = 1;
select err.nosuch from err where id = 1;
select x.id from err where id = 1;
select nosuch(1);
select nosuch(id) from err where id = 1;
select sum(b) from err;
select b + 1 from err where id = 1;
select 1 / 0;
select id / 0 from err where id = 1;
select id / 0 from err;
select a / (a - 1) from err;
select 'x'::int;
select b::int from err where id = 1;
select b::int from err;
select '2024-02-30'::date;
select 'x'::uuid;
select '{'::json;
select '{1,2'::int[];
select 99999999999::int;
select 200::int2 * 200::int2;
select 1e400::float8;
select 'a'::nosuchtype;
select * from err where id = 'x';
select * from err where id = 1.5::nosuch;
select * from err where id in (1, 'x');
select id from err where b;
select id, count(*) from err;
select id from err group by b;
select count(count(*)) from err;
select sum(id) from err where sum(id) > 1;
select id from err limit 'x';
select (select 1, 2);
select (select id from err_parent);
select 1 union select 'x';
select * from err e join err f on e.id = f.id where id = 1;
select * from err, err;
select substring('a' from -1 for -1);
select sqrt(-1);
select ln(0);
select repeat('x', 3)::varchar(2), 'abc'::char(2);
select 'abc'::bit(3);
select array[1, 2]::int[] || 'x';
select to_date('x', 'YYYY');
select chr(0);
select E'\xff';
select current_setting('nosuch.setting');
select set_config('nosuch_setting', '1', false);
-- params: x
select * from err where id = $1;
-- params: 99999999999
-- message varies
select * from err where id = $1;
-- params: 0
select 1 / $1::int;
insert into err (id, a, b) values (2, 1, repeat('x', 10)::varchar(5)) returning b;
create table err (id int);
create table err_new (id nosuchtype);
create table err_new (id int, id int);
drop table nosuch;
drop table if exists nosuch;
alter table err add column a int;
alter table nosuch add column a int;
alter table err drop column nosuch;
create index on nosuch (a);
create index on err (nosuch);
drop index nosuch;
drop function nosuch();
drop schema nosuch;
create view err_view as select nosuch;
call nosuch();
grant select on nosuch to postgres;
comment on table nosuch is 'x';
declare c cursor for select 1;
fetch c;
-- simple only
execute nosuch;
deallocate nosuch;
release savepoint x;
set nosuch_setting = 1;
set work_mem = 'x';
show nosuch_setting;
set role nosuch;
do $$ begin raise exception 'my own %', 'error' using errcode = 'P1234', hint = 'a hint'; end $$;
do $$ begin raise exception using errcode = 'unique_violation', message = 'made up', constraint = 'c'; end $$;
do $$ begin perform 1 / 0; end $$;
do language nosuch 'x';
-- message varies
explain select * from nosuch;
vacuum nosuch;
begin;
vacuum err;
rollback;
begin;
create index concurrently err_c on err (c);
rollback;
select count(*) from err;
