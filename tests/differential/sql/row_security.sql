-- Row-level security: policies are PostgreSQL's own, on the parent table, for the role that runs the statement.
--! setup
create role rls_ann;
create role rls_bob;
create table rls (id int primary key, owner name default current_user, v int);
create table rls_ref (id int primary key, owner name);
create table rls_plain (id int primary key, v int);
--! distribute rls id
--! reference rls_ref
--! distribute rls_plain id colocate_with => 'rls'
alter table rls enable row level security;
alter table rls_ref enable row level security;
create policy own on rls using (owner = current_user) with check (owner = current_user);
create policy all_read on rls_ref for select using (owner = current_user or owner = 'all');
grant select, insert, update, delete on rls, rls_plain to rls_ann, rls_bob;
grant select on rls_ref to rls_ann, rls_bob;
--! reset
delete from rls;
delete from rls_ref;
delete from rls_plain;
insert into rls select i, case when i % 2 = 0 then 'rls_ann' else 'rls_bob' end, i from generate_series(1, 20) i;
insert into rls_ref values (1, 'rls_ann'), (2, 'rls_bob'), (3, 'all');
insert into rls_plain select i, i * 10 from generate_series(1, 20) i;
--! teardown
drop table if exists rls, rls_ref, rls_plain;
drop role if exists rls_ann;
drop role if exists rls_bob;
--! tests
select count(*) from rls;
set role rls_ann;
select count(*), min(v), max(v) from rls;
select * from rls where id = 4;
select * from rls where id = 5;
-- params: 6
select v from rls where id = $1;
-- params: 7
select v from rls where id = $1;
-- ordered
select id from rls order by id desc limit 3;
select owner, count(*) from rls group by owner;
select r.id, p.v from rls r join rls_plain p on p.id = r.id;
select p.v from rls r join rls_plain p on p.id = r.id where r.id = 4;
select p.v from rls r right join rls_plain p on p.id = r.id where p.id = 5 and r.id is null;
select * from rls_ref;
select r.id from rls r join rls_ref f on f.owner = r.owner where r.id < 5;
update rls set v = 0 where id = 5;
update rls set v = 0 where id = 4 returning *;
update rls set v = v + 1;
update rls set owner = 'rls_bob' where id = 4;
delete from rls where id = 7;
delete from rls where id = 6 returning v;
insert into rls (id, v) values (100, 1) returning owner;
insert into rls (id, v) values (101, 1), (102, 2), (103, 3) returning id, owner;
insert into rls values (104, 'rls_bob', 1);
insert into rls values (105, 'rls_ann', 1), (106, 'rls_bob', 1);
insert into rls_ref values (9, 'rls_ann');
select count(*) from rls;
-- plain refuses
copy rls (id, v) from stdin;
200	1
201	2
\.
select count(*) from rls where id >= 200;
set role rls_bob;
select count(*), min(v), max(v) from rls;
select id from rls where id in (100, 200, 5);
select * from rls where id = 4;
with mine as (select id, v from rls) select count(*), sum(v) from mine;
begin;
delete from rls;
select count(*) from rls;
rollback;
truncate rls;
set row_security = off;
-- A text that was not described before: the description of a known one is not asked for again.
select count(v) from rls;
select v from rls where id = 5;
reset row_security;
reset role;
select owner, count(*) from rls group by owner;
alter table rls force row level security;
create policy more on rls for select using (v > 15);
set role rls_ann;
select id from rls;
reset role;
drop policy more on rls;
alter table rls no force row level security;
alter table rls disable row level security;
set role rls_ann;
select count(*) from rls;
select v from rls where id = 5;
reset role;
alter table rls enable row level security;
-- A key that changes: the policies say of rows that are taken out and put in what they say of an UPDATE.
set role rls_ann;
update rls set id = id + 1000 where id in (8, 9) returning id, owner;
update rls set (id, v) = (id + 2000, -1) where v > 10;
update rls set id = 4000, owner = 'rls_bob' where id = 10;
update rls set (id, owner) = (select id + 5000, 'rls_bob'::name);
update rls set (id, owner) = (id + 6000, default);
reset role;
-- ordered
select * from rls order by id;
update rls set id = id + 1 where id = 1;
create policy more on rls for select using (v > 15);
update rls set id = id + 1000 where id = 2;
set role rls_bob;
update rls set id = id + 1000 where id in (11, 17);
update rls set id = id + 1000, v = 3 where id in (1017) returning *;
reset role;
drop policy more on rls;
-- A policy for each command, which say the same; others do not.
drop policy own on rls;
create policy p_read on rls for select using (owner = current_user);
create policy p_change on rls for update using (owner = current_user) with check (owner = current_user and v < 1000);
create policy p_remove on rls for delete using (owner = current_user);
create policy p_add on rls for insert with check (owner = current_user and v < 1000);
set role rls_bob;
update rls set id = id + 100 where id = 3;
update rls set id = id + 100 where id in (103, 4, 5) returning *;
update rls set id = id + 100, v = v + 1000 where id = 7;
update rls set id = id + 100, owner = 'rls_ann' where id = 7;
update rls set id = id + 100 from (values (7), (9)) as f(x) where x = id returning rls.id, x;
reset role;
drop policy p_add on rls;
create policy p_add on rls for insert with check (v < 50);
set role rls_bob;
update rls set id = id + 100 where id = 203;
update rls set id = 203 where id in (203, 4) returning *;
reset role;
drop policy p_read on rls;
drop policy p_change on rls;
drop policy p_remove on rls;
drop policy p_add on rls;
create policy own on rls using (owner = current_user) with check (owner = current_user and v < 500);
set role rls_bob;
update rls set id = id + 1, v = v + 500 where id = 203;
update rls set id = id + 1 where id = 203 returning *;
reset role;
drop policy own on rls;
create policy own on rls using (owner = current_user) with check (owner = current_user);
-- ordered
select * from rls order by id;
-- Who has to tell which rows he changed shows them, which policies may forbid: it is refused.
set role rls_bob;
with u as (update rls set v = 1 returning 1), d as (delete from rls where id = 13 returning 1) select (select count(*) from u), (select count(*) from d);
reset role;
