-- INSERT … SELECT … ON CONFLICT or RETURNING that finds no row was sent to no node, so that nobody said it may not be.
--! {"setup": true}
create table a (k int primary key, v int);
--! {"setup": true}
create table b (k int, v int);
--! {"herd_only": true, "setup": true}
select create_distributed_table('a', 'k');
--! {"herd_only": true, "setup": true}
select create_distributed_table('b', 'k', colocate_with => 'none');
--! {"writes": true}
insert into b select n, n from generate_series(1, 9) n;
--! {}
begin read only;
--! {"writes": true}
insert into a select v, k from b where v < 0 on conflict do nothing;
--! {}
rollback;
--! {}
begin read only;
--! {"writes": true}
insert into a select v, k from b where v < 0 returning k;
--! {}
rollback;
--! {"writes": true}
insert into a select v, k from b where v < 0 on conflict (k) do update set v = 1 returning *;
--! {"writes": true}
insert into a select v, k from b on conflict (k) do update set v = 1 returning *;
