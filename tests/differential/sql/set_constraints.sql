-- SET CONSTRAINTS reaches every node of the transaction, those that join later too, and is undone with its savepoint.
--! setup
create schema sc_front;
create table sc_parent (k int primary key, n int);
create table sc_child (k int, id int, primary key (k, id));
create table sc_unique (k int, n int, constraint sc_unique_n unique (k, n) deferrable);
create table sc_ref (id int primary key, up int);
create table sc_plain (id int primary key);
create table sc_local (id int primary key, up int constraint sc_local_up references sc_plain (id) deferrable);
create table sc_front.sc_own (id int primary key, up int constraint sc_twice references sc_plain (id) deferrable);
create table sc_told (id int primary key, v int);
create function sc_tells() returns trigger language plpgsql as $$ begin if new.v < 0 then raise exception 'sc_told has %', new.v using errcode = 'P0009'; end if; return null; end $$;
create table sc_strict (id int primary key, up int constraint sc_strict_up references sc_plain (id));
create table sc_late (id int unique deferrable initially deferred);
create function sc_adds(id int) returns int language plpgsql as $$ begin insert into sc_late values (id); return id; end $$;
--! distribute sc_parent k
--! distribute sc_child k
--! distribute sc_unique k
--! distribute sc_told id
--! reference sc_ref
alter table sc_child add constraint sc_child_k foreign key (k) references sc_parent (k) deferrable;
alter table sc_ref add constraint sc_ref_up foreign key (up) references sc_ref (id) deferrable initially immediate;
alter table sc_child add constraint sc_twice foreign key (id) references sc_ref (id) deferrable;
create constraint trigger sc_told_of after insert or update on sc_told deferrable initially immediate for each row execute function sc_tells();
--! reset
delete from sc_late;
insert into sc_late values (1);
delete from sc_told;
delete from sc_child;
delete from sc_parent;
delete from sc_unique;
delete from sc_local;
delete from sc_front.sc_own;
update sc_ref set up = null;
delete from sc_ref;
insert into sc_ref values (1, null), (2, 1);
insert into sc_unique select k, n from generate_series(1, 8) k, generate_series(1, 2) n;
--! teardown
drop table if exists sc_child, sc_parent, sc_unique, sc_ref, sc_local, sc_strict, sc_plain, sc_told, sc_late cascade;
drop function if exists sc_tells, sc_adds;
drop schema if exists sc_front cascade;
--! tests
-- all, before any node but home takes part
begin;
set constraints all deferred;
insert into sc_child values (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1);
insert into sc_parent values (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (8, 0);
commit;
select count(*), sum(k) from sc_child;
-- one by one, nodes that have taken part before and nodes that join later
begin;
insert into sc_parent values (11, 0);
set constraints sc_child_k deferred;
insert into sc_child values (12, 1);
insert into sc_child values (13, 1);
insert into sc_child values (14, 1);
insert into sc_child values (15, 1);
insert into sc_parent values (12, 0), (13, 0), (14, 0), (15, 0);
commit;
select count(*), sum(k) from sc_child;
-- at once without it
insert into sc_child values (20, 1);
insert into sc_child values (21, 1);
insert into sc_child values (22, 1);
-- the next transaction knows nothing of it
begin;
set constraints all deferred;
commit;
begin;
insert into sc_child values (20, 1);
rollback;
begin;
insert into sc_child values (21, 1);
rollback;
begin;
insert into sc_child values (22, 1);
rollback;
-- a check that fails at the end
begin;
set constraints all deferred;
insert into sc_child values (20, 1);
commit;
begin;
set constraints all deferred;
insert into sc_child values (21, 1);
commit;
begin;
set constraints all deferred;
insert into sc_child values (22, 1);
insert into sc_parent values (20, 0), (21, 0), (23, 0);
commit;
select count(*), sum(k) from sc_parent;
-- a check that fails when it is asked for
begin;
set constraints all deferred;
insert into sc_child values (20, 1);
set constraints all immediate;
select 1;
rollback;
begin;
set constraints all deferred;
insert into sc_child values (21, 1);
set constraints sc_child_k immediate;
select 1;
rollback;
begin;
set constraints all deferred;
insert into sc_child values (22, 1);
set constraints sc_child_k immediate;
rollback;
begin;
set constraints all deferred;
insert into sc_child values (20, 1), (21, 1), (22, 1);
insert into sc_parent values (20, 0), (21, 0), (22, 0);
set constraints all immediate;
insert into sc_child values (20, 2);
insert into sc_child values (24, 1);
rollback;
-- savepoints
begin;
savepoint a;
set constraints all deferred;
insert into sc_child values (20, 1), (21, 1), (22, 1);
rollback to savepoint a;
insert into sc_child values (21, 1);
rollback;
begin;
savepoint a;
set constraints all deferred;
rollback to savepoint a;
insert into sc_child values (20, 1);
rollback;
begin;
savepoint a;
set constraints all deferred;
rollback to savepoint a;
insert into sc_child values (22, 1);
rollback;
begin;
savepoint a;
set constraints all deferred;
release savepoint a;
insert into sc_child values (20, 1), (21, 1), (22, 1);
insert into sc_parent values (20, 0), (21, 0), (22, 0);
rollback;
begin;
set constraints all deferred;
savepoint a;
set constraints all immediate;
rollback to savepoint a;
insert into sc_child values (20, 1), (21, 1), (22, 1);
insert into sc_parent values (20, 0), (21, 0), (22, 0);
rollback;
-- unique keys
begin;
set constraints sc_unique_n deferred;
update sc_unique set n = 2 where n = 1 and k = 1;
update sc_unique set n = 2 where n = 1;
-- ordered
select k, n from sc_unique order by k, n;
update sc_unique set n = 7 where n = 2;
rollback;
begin;
update sc_unique set n = 2 where n = 1 and k = 1;
rollback;
begin;
update sc_unique set n = 2 where n = 1 and k = 2;
rollback;
begin;
update sc_unique set n = 2 where n = 1 and k = 3;
rollback;
begin;
set constraints all deferred;
insert into sc_unique values (3, 1);
delete from sc_unique where k = 3 and n = 1;
insert into sc_unique values (3, 1);
commit;
-- constraint triggers, whose shards have their own
insert into sc_told values (1, 1), (2, -2);
begin;
set constraints sc_told_of deferred;
insert into sc_told select g, 1 from generate_series(1, 20) g;
insert into sc_told values (100, -1);
update sc_told set v = v - 1 where id < 100;
savepoint a;
insert into sc_told values (101, -1);
set constraints public.sc_told_of immediate;
rollback to savepoint a;
set constraints all immediate;
rollback;
begin;
savepoint a;
set constraints sc_told_of deferred;
rollback to savepoint a;
insert into sc_told values (7, -1);
rollback;
begin isolation level repeatable read;
set constraints sc_told_of, sc_child_k deferred;
insert into sc_told values (7, -1);
commit;
select count(*) from sc_told;
-- reference tables
begin;
set constraints sc_ref_up deferred;
insert into sc_ref values (5, 6);
insert into sc_ref values (6, 1);
commit;
insert into sc_ref values (8, 9);
begin;
set constraints sc_ref_up deferred;
insert into sc_ref values (8, 9);
commit;
-- ordered
select * from sc_ref order by id;
-- names of local tables, and names that are there twice
begin;
set constraints sc_local_up deferred;
insert into sc_local values (1, 77);
delete from sc_local;
insert into sc_child values (1, 2), (2, 2), (3, 2);
insert into sc_child values (21, 2);
rollback;
begin;
set search_path = sc_front, public;
set constraints sc_twice deferred;
insert into sc_own values (1, 77);
insert into sc_child values (3, 99);
rollback;
begin;
set search_path = sc_front, public;
set constraints public.sc_twice, sc_local_up deferred;
insert into sc_child values (1, 99), (2, 99), (3, 99), (4, 99);
insert into sc_ref values (99, 1);
insert into sc_local values (1, 77);
insert into sc_own values (1, 77);
rollback;
-- what is wrong with a name
begin;
set constraints sc_nobodys deferred;
rollback;
begin;
set constraints sc_strict_up deferred;
rollback;
begin;
set constraints sc_nowhere.sc_child_k deferred;
rollback;
-- by itself
set constraints all deferred;
set constraints sc_child_k deferred;
-- notices vary
set constraints sc_nobodys deferred;
insert into sc_child values (21, 1);
-- a string of several statements
-- simple only
set constraints all deferred; insert into sc_child values (30, 1), (31, 1), (32, 1); insert into sc_parent values (30, 0), (31, 0), (32, 0);
select count(*), sum(k) from sc_child;
-- made by the same transaction
begin;
create table sc_made (id int primary key, up int, constraint sc_made_up foreign key (up) references sc_made (id) deferrable);
set constraints sc_made_up deferred;
insert into sc_made values (1, 2);
insert into sc_made values (2, 1);
set constraints sc_made_up immediate;
rollback;
-- what a node finds out at its COMMIT of what it has written, by whatever statement, is found out before another has committed
begin;
-- rows vary
explain (analyze, costs off) insert into sc_late values (1);
insert into sc_parent values (50, 1);
insert into sc_parent values (51, 1);
insert into sc_parent values (52, 1);
commit;
begin;
-- rows vary
explain (analyze, costs off, format json) insert into sc_late values (1);
insert into sc_parent values (50, 1), (51, 1), (52, 1);
commit;
begin;
declare sc_c cursor for select sc_adds(1);
fetch all from sc_c;
insert into sc_parent values (50, 1);
insert into sc_parent values (51, 1);
insert into sc_parent values (52, 1);
commit;
begin;
-- rows vary
explain (analyze, costs off) update sc_parent set n = 7 where k = 1;
-- rows vary
explain (analyze, costs off, format json) update sc_parent set n = 7 where k = 2;
insert into sc_parent values (50, 1);
commit;
select count(*) from sc_parent where k between 50 and 52;
