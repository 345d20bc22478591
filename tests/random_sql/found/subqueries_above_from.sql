-- Subqueries of LIMIT, OFFSET, VALUES, windows, DISTINCT ON and functions in FROM read home's part of a distributed table alone;
-- equal ones in DISTINCT ON, GROUP BY and ORDER BY were no longer equal.
--! {"setup": true}
create table d (k int, v text);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"writes": true}
insert into d select n, n from generate_series(1, 20) n;
--! {}
(select distinct on ((select max(v) from d where k = 1)) (select v from d where k = 1) c0 order by (select max(v) from d where k = 1)) except all (select v from d where k = 3);
--! {}
select distinct on (k = (select max(v)::int from d)) k from generate_series(8,10) k order by k = (select max(v)::int from d), k;
--! {}
select distinct (select max(v) from d) || k::text from generate_series(1,3) k order by (select max(v) from d) || k::text;
--! {}
select (select max(v) from d) || k::text, count(*) from generate_series(1,3) k group by (select max(v) from d) || k::text order by (select max(v) from d) || k::text;
--! {}
select distinct on (k > (select count(*) from d)) k > (select count(*) from d) from generate_series(18,22) k;
--! {}
select k from generate_series(1,30) k limit (select count(*) from d);
--! {}
select k from generate_series(1,30) k offset (select count(*) from d);
--! {}
select 1 union select 2 order by 1 limit (select count(*) - 19 from d);
--! {}
(select k from d) union all (select k from d where k < 3) order by 1 offset (select count(*) from d) limit 5;
--! {}
select count(*) from ((select k from d) union all (select k from d where k < 3) limit (select count(*) from d)) q;
--! {}
with c as (select 1 a union select 2 limit (select count(*) - 18 from d)) select count(*) from c;
--! {}
values ((select count(*) from d)), (1);
--! {}
values (1), (2), (3) order by 1 limit (select count(*) - 18 from d);
--! {}
select x from (values ((select max(k) from d)), (4)) q(x) order by 1;
--! {}
select count(*) from generate_series(1, (select count(*) from d)) g;
--! {}
select * from rows from (generate_series(1, (select max(k) - 17 from d)), unnest(array(select k from d order by k limit 2))) x(a, b) order by 1;
--! {}
select k, sum(k) over w from generate_series(18,22) k window w as (partition by k > (select count(*) from d)) order by k;
