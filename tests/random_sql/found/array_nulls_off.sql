-- Rows travelled to nodes as array literals, which this setting reads in another way: NULL became the text NULL.
--! {"setup": true}
create table r (a text, b inet);
--! {"herd_only": true, "setup": true}
select create_reference_table('r');
--! {"setup": true}
create table d (k int, v text, w int[]);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"setup": true}
create table e (k int, v text);
--! {"herd_only": true, "setup": true}
select create_distributed_table('e', 'k', colocate_with => 'none');
--! {"writes": true}
insert into d select n, case n % 3 when 0 then null when 1 then 'NULL' else '"\{},' end, array[n, null] from generate_series(1, 12) n;
--! {}
set array_nulls = off;
--! {"writes": true}
insert into e select k + 1, v from d;
--! {"writes": true}
insert into e select k + 1, v from d on conflict do nothing;
--! {"writes": true}
update e set k = k + 1 where v is null;
--! {"writes": true}
insert into r values (null, '10.0.0.1'), ('NULL', null), ('"\', '::1');
--! {"writes": true}
insert into d select n, case n % 3 when 0 then null when 1 then 'NULL' else '"\{},' end, '{null,1}'::text[]::int[] from generate_series(1, 12) n;
--! {"writes": true}
insert into d select n, case n % 3 when 0 then null when 1 then 'NULL' else '"\{},' end, array[n, null] from generate_series(1, 12) n;
--! {"writes": true}
insert into d select k + 100, v, w from d;
--! {}
select v, count(*) from d group by v;
--! {}
select a.v, b.a from d a join r b on true order by 1, 2;
--! {}
select * from (select v from d order by v, k limit 5) x where v is null;
--! {"writes": true}
update d set k = k + 1 where v is null;
