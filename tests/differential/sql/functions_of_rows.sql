-- Functions with side effects over the rows of several nodes: called on home, once for each row that reaches them.
-- (PostgreSQL may remember what a lateral function gave for an argument, by cost: such arguments differ here.)
--! setup
create table fr_items (id int primary key, k int, note text);
create table fr_events (n int primary key, item int);
create table fr_log (x int);
create sequence fr_seq;
create function fr_logs(i int) returns int language plpgsql as 'begin insert into fr_log values (i); return i * 2; end';
create function fr_twice(i int) returns int language plpgsql as 'declare r int; begin execute ''select $1 * 2'' into r using i; return r; end';
create function fr_fails(i int) returns int language plpgsql as 'begin if i = 7 then raise exception ''seven''; end if; insert into fr_log values (i); return i; end';
create function fr_series(i int) returns setof int language plpgsql as 'begin insert into fr_log values (-i); return next i; return next i + 1; end';
create view fr_view as select id, fr_twice(k) as twice from fr_items;
--! distribute fr_items id
--! distribute fr_events n
--! reset
drop table if exists fr_of_rows;
delete from fr_items;
delete from fr_events;
delete from fr_log;
select setval('fr_seq', 1, false);
insert into fr_items select i, i % 5, 'note ' || i from generate_series(1, 30) i;
insert into fr_events select i, i % 7 from generate_series(1, 40) i;
--! teardown
drop table if exists fr_items, fr_events, fr_log, fr_of_rows cascade;
drop sequence if exists fr_seq;
drop function if exists fr_logs, fr_twice, fr_fails, fr_series;
--! tests
-- ordered
select id, nextval('fr_seq') from fr_items order by id limit 10;
select currval('fr_seq'), lastval();
select nextval('fr_seq') > 0, count(*) from fr_items;
select count(distinct n) from (select nextval('fr_seq') as n from fr_items) s;
with c as (select id, nextval('fr_seq') as n from fr_items) select count(*), count(distinct a.n) from c a join c b using (n);
select k from (select distinct k from fr_items) s where k < 10 + nextval('fr_seq') order by 1;
select id, fr_twice(k) from fr_items;
select sum(fr_twice(k)), count(*) filter (where fr_twice(id) > 20) from fr_items;
select k, max(fr_twice(id)) from fr_items group by k having max(fr_twice(id)) > 52;
select id from fr_items where fr_twice(id) between 10 and 20;
select id, fr_logs(k) from fr_items where id <= 10;
select count(*), sum(x) from fr_log;
select i.id, fr_logs(e.item) from fr_items i join fr_events e on i.k = e.item where i.id < 12;
select i.id, fr_logs(i.k), e.n from fr_items i left join fr_events e on i.id = e.item where e.n is null;
select count(*), sum(x) from fr_log;
select fr_fails(id) from fr_items;
select count(*), sum(x) from fr_log;
begin;
select fr_fails(id) from fr_items where id < 5;
update fr_items set k = k + 1 where id < 10;
select count(*), sum(x) from fr_log;
rollback;
select count(*), sum(x) from fr_log;
begin;
update fr_items set k = k + 1 where id < 10;
select count(*), sum(fr_logs(id)) from fr_items where k = 1;
savepoint a;
select fr_logs(1 / (id - 5)) from fr_items;
rollback to a;
commit;
select count(*), sum(x) from fr_log;
begin isolation level repeatable read;
select count(*), sum(fr_logs(id)) from fr_items where k = 1;
select count(*), sum(x) from fr_log;
commit;
begin read only;
select fr_logs(id) from fr_items;
rollback;
select id, fr_series(id) from fr_items where id < 4;
select i.id, s from fr_items i, fr_series(i.id) s where i.id < 8;
select i.id, s from fr_items i left join lateral fr_series(i.id) s on s > 2 where i.id < 8;
select count(*), sum(x) from fr_log;
select exists (select fr_logs(id) from fr_items where id < 0);
select (select fr_logs(max(id)) from fr_items), n from fr_events where n < 3;
select id, case when k = 2 then fr_logs(id) end from fr_items;
select count(*), sum(x) from fr_log;
select twice, count(*) from fr_view group by twice;
select id from fr_view where twice = 6;
-- params: 3
select id, fr_logs(id + $1::int) from fr_items where id < $1::int + 2;
-- params: 2
select id, nextval('fr_seq') > 0 from fr_items where k = $1 order by id desc limit 3;
insert into fr_events select fr_twice(id) + 1000, k from fr_items where id < 9;
insert into fr_events select nextval('fr_seq') + 5000, k from fr_items where id < 9;
select count(*), sum(item) from fr_events;
create table fr_of_rows as select id, fr_twice(k) as twice from fr_items;
begin;
declare c cursor for select id, fr_logs(k) from fr_items order by id;
-- ordered
fetch 3 from c;
-- ordered
fetch all from c;
commit;
copy (select id, fr_twice(k) from fr_items order by id) to stdout;
select pg_notify('fr', id::text) from fr_items where id < 3;
select setval('fr_seq', max(id) + 100) from fr_items;
select nextval('fr_seq');
