-- An output column without a name has the one that PostgreSQL makes of its expression: ORDER BY means that, and not the table's column.
--! {"setup": true}
create table a (k int primary key, s int);
--! {"setup": true, "herd_only": true}
select create_distributed_table('a', 'k');
--! {"writes": true}
insert into a select g, (g * 7) % 13 from generate_series(1, 40) g;
--! {"ordered_by": [0, 1]}
select case when k > 5 then k else s end, k from a order by s, k limit 7;
--! {"ordered_by": [0, 1]}
select case when k > 5 then k else s end, k from a order by s desc, k;
--! {"ordered_by": [0, 1]}
select s::text, k from a order by s, k limit 12;
--! {"ordered_by": [0, 1]}
select abs(k - 20), k from a order by abs, k limit 5;
--! {"ordered_by": [0]}
select distinct on (s) s::text, k % 2 from a where k < 9 order by s;
--! {"ordered_by": [0, 1]}
select * from (select s::text, k from a order by s, k limit 12) x order by 1, 2;
--! {}
select case when k > 5 then k % 3 else s end, count(*) from a group by 1 order by s limit 5;
--! {"ordered_by": [0, 1]}
select s, k from a order by s, k limit 5;
