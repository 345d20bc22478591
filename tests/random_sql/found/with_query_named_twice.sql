-- A WITH query finished by itself was read on the nodes of the last that named it: where that one asked for a key, rows were missing.
--! {"setup": true}
create table d (k int, v text);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"writes": true}
insert into d select n, n from generate_series(1, 40) n;
--! {}
with c as (select k, v from d order by k desc) select (select count(*) from c where k = 1), (select string_agg(v, ',') from c);
--! {}
with c as (select k, v from d order by k desc) select (select string_agg(v, ',') from c), (select count(*) from c where k = 1);
--! {}
with c as (select k, v from d order by k desc) select * from (select string_agg(v, ',') from c) q, (select count(*) from c x join c y on x.k = y.k) p;
--! {}
with c as (select k, v from d order by k desc) select array_agg(k) from c union all select array[count(*)::int] from c;
