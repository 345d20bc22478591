-- A WITH query that nobody names and that reads a view was left out of the text for nodes, and with it the place that says what type a parameter has.
--! {"setup": true}
create type mood as enum ('red', 'Green');
--! {"setup": true}
create table d2 (k int, a text);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d2', 'k');
--! {"setup": true}
create table r4 (u text, n mood);
--! {"herd_only": true, "setup": true}
select create_reference_table('r4');
--! {"setup": true}
create view v2 as select k, a from d2;
--! {"setup": true}
create view v3 (c0) as select k from d2 group by k;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from v2 where exists (select from r4 where n = :{0}::mood)) select 1 from d2 where k = 10;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select c0 k from v3 where exists (select from r4 where n = :{0}::mood)) select 1 from d2 where k = 10;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k c0 from d2 join v3 on k = c0 and exists (select from r4 join v2 on u = a and n = :{0}::mood) group by k) select 1 from d2 where k = 10;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from d2 where exists (select from r4 where n = :{0}::mood) group by k) select 1 from v2 where k = 10;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from v2 where exists (select from r4 where n = :{0}::mood) group by k), w1 as (select from w0) select 1 from v2 where k = 10;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from v2 where exists (select from r4 where n = :{0}::mood) group by k), w1 as (select from w0) select 1 from v2 where k = 11;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from v2 where exists (select from r4 where n = :{0}::mood) group by k), w1 as (select from w0) select 1 from v2 where k = 12;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from d2 where exists (select from r4 join d2 on u = a and n = :{0}::mood) group by k), w1 as (select from w0) select 1 from d2 where k = 12;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from d2 where exists (select from r4 join d2 on u = a and n = :{0}::mood) group by k), w1 as (select from w0) select 1 from d2 where k = 10;
--! {"mode": "binary", "params": ["Green"], "types": ["mood"]}
with w0 as (select k from d2 where exists (select from r4 join d2 on u = a and n = :{0}::mood) group by k), w1 as (select from w0) select 1 from d2 where k = 11;
--! {"setup": true}
create table l (a int);
--! {"setup": true}
create view v5 as select u, a from r4 left join l on true;
--! {}
with w0 as (select d2.a from d2 left join v5 on true) select n from r4 where u = 'x';
--! {}
with w0 as (select v5.a from d2 left join v5 on true) select a from d2 where k = 3;
