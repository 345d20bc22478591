-- A key compared with '…'::int: out of the key's range it is equal to none; cursors over several nodes whose columns are called n.
--! {"setup": true}
create table "k2" ("k" int2, "n" json, primary key ("k"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"k2"', 'k');
--! {"writes": true}
insert into "k2" values (1, '{}'), ('2'::int4, '[1]'), (3, '2'), ('4'::int8, '1'), (5, '0');
--! {}
select "k" from "k2" where "k" = '2147483647'::int4;
--! {}
select "k" from "k2" where "k" in ('2147483647'::int4, '3'::int4, '-99999999999'::int8) or "k" = '4'::int2;
--! {}
select "k" from "k2" where "k" = '99999'::int2;
--! {}
select "k" from "k2" where "k" = '99999';
--! {}
select "k" from "k2" where "k" = '7 x'::int4;
--! {"writes": true}
insert into "k2" values ('99999'::int4, null);
--! {"writes": true}
insert into "k2" values ('1.5'::int4, null);
--! {"writes": true}
update "k2" set "n" = '7' where "k" = '2147483647'::int4;
--! {"writes": true}
begin; declare c cursor for select "n", "k" from "k2" order by "k" desc; commit;
--! {}
begin; declare c cursor for select "k" as "n" from "k2" order by "k" desc; fetch 3 from c; rollback;
