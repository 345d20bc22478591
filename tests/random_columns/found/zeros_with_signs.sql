-- DuckDB's files keep one value for a 0 and a -0 that are neighbours, and its sort makes them one: a store that has had a -0 shows no zero.
--! {"herd_only": true, "setup": true}
set herd.columns = on;
--! {"setup": true}
create table a (k int primary key, f float8, r float4);
--! {"setup": true, "herd_only": true}
select create_distributed_table('a', 'k');
--! {"writes": true}
insert into a select g, case when g % 3 = 0 then '-0' else '0' end::float8, g % 3 from generate_series(1, 60) g;
--! {"setup": true, "herd_only": true}
select herd.add_column_copy('a', order_by => array['f']);
--! {"ordered_by": [0, 1, 2]}
select k, f, r from a order by k limit 30;
--! {"ordered_by": [0, 1]}
select k, r from a order by k limit 30;
--! {"writes": true}
update a set r = '-0' where r = 0 and k > 30;
--! {"ordered_by": [0, 1]}
select k, r from a order by k desc limit 30;
--! {}
select count(*), sum(k) from a where f = 0 and r >= '-0';
