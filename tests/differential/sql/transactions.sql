-- Transactions on one and several shards, savepoints, failed transactions, isolation levels.
--! setup
create table tx (id int primary key, v int not null);
create table tx_ref (id int primary key, v int);
--! distribute tx id
--! reference tx_ref
--! reset
delete from tx;
delete from tx_ref;
insert into tx values (1, 1), (2, 2), (3, 3), (4, 4), (5, 5);
--! teardown
drop table if exists tx, tx_ref;
--! tests
begin;
update tx set v = 10 where id = 1;
select v from tx where id = 1;
select count(*), sum(v) from tx;
commit;
select v from tx where id = 1;
begin;
update tx set v = 20 where id = 2;
update tx set v = 30 where id = 3;
update tx set v = 40 where id = 4;
select sum(v) from tx;
rollback;
select sum(v) from tx;
begin transaction isolation level read committed;
insert into tx values (10, 10), (11, 11), (12, 12);
delete from tx where id = 10;
end;
-- ordered
select * from tx order by id;
start transaction;
select 1 / 0;
select v from tx where id = 1;
select 1;
insert into tx values (99, 99);
commit;
select count(*) from tx where id = 99;
begin;
insert into tx values (100, 1);
insert into tx values (1, 1);
select 1;
rollback;
select count(*) from tx where id = 100;
begin;
insert into tx values (101, 1);
savepoint a;
insert into tx values (102, 1);
update tx set v = 0;
select sum(v) from tx;
rollback to savepoint a;
select count(*) from tx where id in (101, 102);
insert into tx values (103, 1);
release savepoint a;
commit;
select count(*) from tx where id in (101, 102, 103);
begin;
savepoint a;
insert into tx values (1, 1);
rollback to a;
insert into tx values (110, 1);
savepoint a;
insert into tx values (111, 1);
savepoint b;
insert into tx values (112, 1);
rollback to a;
insert into tx values (113, 1);
commit;
-- ordered
select id from tx where id >= 110 order by id;
begin;
savepoint a;
rollback to nosuch;
rollback;
begin;
release nosuch;
rollback;
savepoint outside;
rollback to outside;
commit;
rollback;
begin;
begin;
commit;
begin read only;
select count(*) from tx;
insert into tx values (120, 1);
rollback;
begin isolation level repeatable read;
select v from tx where id = 1;
commit;
begin isolation level serializable read only deferrable;
select v from tx where id = 1;
commit;
begin;
set transaction isolation level repeatable read;
show transaction_isolation;
select sum(v) from tx;
commit;
show transaction_isolation;
begin;
select 1;
set transaction isolation level serializable;
rollback;
begin;
commit and chain;
select 1;
rollback and chain;
rollback;
begin;
insert into tx_ref values (1, 1);
insert into tx values (130, 1);
rollback;
select (select count(*) from tx_ref), (select count(*) from tx where id = 130);
begin;
insert into tx_ref values (1, 1);
insert into tx values (130, 1);
commit;
select (select count(*) from tx_ref), (select count(*) from tx where id = 130);
begin;
select v from tx where id = 1 for update;
select id from tx where id in (2, 3) for share;
select id from tx where id = 4 for no key update nowait;
select id from tx where id = 5 for key share skip locked;
commit;
begin;
lock table tx in share mode;
lock tx;
commit;
lock tx;
begin;
create table tx_ddl (a int);
insert into tx_ddl values (1);
rollback;
select * from tx_ddl;
begin;
alter table tx add column extra int default 5;
select sum(extra) from tx;
rollback;
select extra from tx;
begin;
truncate tx;
select count(*) from tx;
rollback;
select count(*) from tx;
-- simple only
select 1; select 2;
-- simple only
begin; insert into tx values (140, 1); commit; select count(*) from tx where id = 140;
-- simple only
insert into tx values (141, 1); insert into tx values (142, 1); select 1 / 0; insert into tx values (143, 1);
select count(*) from tx where id in (141, 142, 143);
-- simple only
insert into tx values (144, 1); begin; insert into tx values (145, 1); rollback; select count(*) from tx where id in (144, 145);
select count(*) from tx where id in (144, 145);
-- simple only
select v from tx where id = 1; select count(*) from tx; update tx set v = 5 where id = 1; select v from tx where id = 1;
-- simple only
;
-- simple only
select 1;;select 2;
select 1; select 2;
abort;
prepare transaction 'x';
