-- A cursor on one node was declared by the client's text, not by the one the query was planned as: ONLY a table that is
-- distributed found no rows, and a WITH query of home's that nobody names was not found.
--! {"setup": true}
create table d (k int, v text);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"setup": true}
create table l (a int);
--! {"writes": true}
insert into d select n, n from generate_series(1, 12) n;
--! {}
begin;
--! {}
declare a cursor for select * from only d where k = 5;
--! {}
declare b cursor for select k, tableoid::regclass::text from d where k = 6;
--! {"mode": "extended", "params": ["7"], "types": ["int4"]}
declare c cursor for with w as (select a from l) select k from only d where k = :{0};
--! {}
declare e cursor for with w as (select a from l) select k from d where k = 8;
--! {}
fetch all from a;
--! {}
fetch all from b;
--! {}
fetch all from c;
--! {}
fetch all from e;
--! {}
rollback;
