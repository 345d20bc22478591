-- Aggregates of SQL/JSON are no function calls in a statement's tree: they were taken for something that does not notice how often a row comes.
--! {"herd_only": true, "setup": true}
set herd.columns = on;
--! {"setup": true}
create table j (k int primary key, x int, y int);
--! {"setup": true, "herd_only": true}
select create_distributed_table('j', 'k');
--! {"writes": true}
insert into j select g, g % 4, g % 3 from generate_series(1, 60) g;
--! {"setup": true, "herd_only": true}
select herd.add_column_copy('j');
--! {}
select x, json_arrayagg(y order by y) from j group by x;
--! {}
select json_arrayagg(y order by y), max(x) from j having count(distinct y) > 1;
