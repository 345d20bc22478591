-- (composite).*, tableoid (as text: object ids are each server's own), keys whose names need quotes.
--! setup
create type place as (k int, v text);
create table com_src (id int primary key, t place, n int);
create table com_dst (k int, v text);
create table "com Quoted" ("Ke y" int primary key, v int);
create table com_ref (a int primary key, v int);
--! distribute com_src id
--! distribute com_dst k
--! reference com_ref
--! setup
-- herd only
select create_distributed_table('"com Quoted"', 'Ke y');
--! reset
delete from com_src;
delete from com_dst;
delete from "com Quoted";
delete from com_ref;
insert into com_src select i, (21 - i, 'v' || i)::place, i % 4 from generate_series(1, 20) i;
insert into com_dst values (1, 'one'), (2, 'two');
insert into "com Quoted" select i, i from generate_series(1, 10) i;
--! tests
-- ordered
select (t).*, id from com_src order by 3;
-- ordered
select (t).*, id from com_src order by id desc limit 4;
select (t).* from com_src;
select (t).v from com_src;
select s.* from (select (t).* from com_src) s;
select (s.t).* from (select t from com_src order by id limit 3) s;
-- ordered
select (s.t).*, s.id from (select t, id from com_src order by id) s;
insert into com_dst select (t).* from com_src where id < 8;
insert into com_dst select (t).* from com_src where id = 9 returning k;
insert into com_dst select id, (t).v from com_src where id > 18;
insert into com_dst select x.* from com_src, lateral (select (t).*) x where id = 3;
insert into com_dst (v, k) select (t).v, (t).k from com_src where id < 4;
select k, v from com_dst;
select tableoid::regclass::text, id from com_src;
select tableoid::regclass::text, count(*) from com_src group by 1;
select tableoid::regclass::text as "table", count(*) from com_src group by tableoid::regclass;
select tableoid::regclass::text || '!', id from com_src where id = 7;
select c.tableoid::regclass::varchar from com_src c where id = 7;
select id from com_src where tableoid = 'com_src'::regclass;
select tableoid = 'com_src'::regclass from com_src where id = 5;
select tableoid::regclass::text, count(*) from com_src group by tableoid;
select tableoid::regclass::text from com_src union select tableoid::regclass::text from com_src where id < 3;
select count(*) from (select tableoid::regclass as p from com_src) s group by p::oid;
select p, count(*) from (select tableoid::regclass::text as p from com_src) s group by p;
select (select c.tableoid::regclass::text from com_src c where c.id = 2), count(*) from com_src;
update com_src set n = n where id < 3 returning tableoid::regclass::text, id;
select * from "com Quoted" where "Ke y" = 7;
update "com Quoted" set v = 0 where "Ke y" in (3, 4);
select count(*), sum(v) from "com Quoted";
prepare com_up as insert into com_ref values ($1, $2) on conflict (a) do update set v = excluded.v;
execute com_up (1, 1);
execute com_up (1, 2);
prepare com_add as insert into com_ref values (5, 5) on conflict (a) do update set v = com_ref.v + 1;
execute com_add;
execute com_add;
select * from com_ref;
deallocate com_up;
deallocate com_add;
--! teardown
drop table if exists com_src;
drop table if exists com_dst;
drop table if exists "com Quoted";
drop table if exists com_ref;
drop type if exists place;
