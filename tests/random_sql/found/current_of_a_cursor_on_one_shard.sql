-- A cursor that reads one shard has locked rows in that partition alone: 24000 where the change named the whole table.
--! {"setup": true}
create table "$12" ("x-y" int2, v int, primary key ("x-y"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"$12"', 'x-y', colocate_with => 'none');
--! {"writes": true}
insert into "$12" values (9, 1), (1, 1), (2, 1), (3, 1);
--! {}
begin;
--! {}
declare c3 cursor for select * from "$12" where "x-y" = 9::int2 for update;
--! {}
fetch c3;
--! {"writes": true}
update "$12" set v = v + 1 where current of c3 returning *;
--! {"writes": true}
update "$12" set v = v + 1 where current of nobody;
--! {"writes": true}
rollback;
--! {}
begin;
--! {}
declare c3 cursor for select "x-y" from "$12" where "x-y" = 9::int2;
--! {}
fetch c3;
--! {"writes": true}
delete from "$12" where current of c3;
--! {"writes": true}
commit;
--! {}
select * from "$12" order by 1;
