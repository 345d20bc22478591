-- W2's queries on a small sbtest1, and W1's table as the workloads create it.
--! setup
create table sbtest1 (id integer not null, k integer not null default 0, c character(120) not null default '',
    pad character(60) not null default '', primary key (id));
create index k_1 on sbtest1 (k);
insert into sbtest1 select i, (i * 7919) % 1000, md5(i::text) || '-' || md5((i * 2)::text), md5((i * 3)::text) from generate_series(1, 2000) i;
--! distribute sbtest1 id
--! teardown
drop table if exists sbtest1;
--! tests
select count(1) from sbtest1;
select count(1), min(k), max(k), sum(k) from sbtest1;
select count(1), min(k), max(k), sum(k) from sbtest1 where c like '1%';
-- ordered
select id, k, c, pad from sbtest1 where c like '1%' order by c offset 10 limit 10;
-- ordered
select id, k, c, pad from sbtest1 where c like '1%' order by id offset 10 limit 10;
select c from sbtest1 where id = 77;
select c from sbtest1 where id between 100 and 199;
select sum(k) from sbtest1 where id between 100 and 199;
-- ordered
select c from sbtest1 where id between 100 and 199 order by c, id;
-- ordered
select distinct c from sbtest1 where id between 100 and 199 order by c;
-- params: 77
select c from sbtest1 where id = $1;
-- params: 100, 199
select c from sbtest1 where id between $1 and $2;
-- params: 100, 199
select sum(k) from sbtest1 where id between $1 and $2;
-- params: 100, 199
-- ordered
select distinct c from sbtest1 where id between $1 and $2 order by c;
begin;
-- params: 77
update sbtest1 set k = k + 1 where id = $1;
-- params: new, 78
update sbtest1 set c = $1 where id = $2;
-- params: 79
delete from sbtest1 where id = $1;
-- params: 79, 5, ccc, ppp
insert into sbtest1 (id, k, c, pad) values ($1, $2, $3, $4);
select id, k, c, pad from sbtest1 where id in (77, 78, 79);
rollback;
insert into sbtest1 (id, k, c, pad) values (100001, 1, 'a', 'b'), (100002, 2, 'c', 'd');
delete from sbtest1 where id > 100000;
select k, count(*) from sbtest1 group by k having count(*) > 2;
select k from sbtest1 where k = 500;
select count(*) from sbtest1 where k in (1, 2, 3);
