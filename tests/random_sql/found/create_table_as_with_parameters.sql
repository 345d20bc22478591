-- CREATE TABLE AS over several nodes lost the client's parameters.
--! {"setup": true}
create table d (k int primary key, v text);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"writes": true}
insert into d select n, n from generate_series(1, 20) n;
--! {"mode": "extended", "params": ["7"], "types": ["int4"], "writes": true}
create table c as select * from d where k > :{0};
--! {"mode": "extended", "writes": true}
create table e as select * from d where k > 7;
--! {"mode": "extended", "params": ["7"], "types": ["int4"], "writes": true}
create table f as select :{0}::int4 as n;
--! {"params": ["7"], "types": ["int4"], "writes": true}
create table g as select * from d where k > :{0};
