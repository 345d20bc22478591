-- Types of the source and of the target differ, so the source was planned once more, with casts: by the path pg_catalog, public.
-- What it read was in another schema, was taken for nobody's, and only home's rows came: INSERT 0 0.
--! {"setup": true}
create type mood as enum ('red', 'green');
--! {"setup": true}
create table "from" (a int, v int);
--! {"herd_only": true, "setup": true}
select create_distributed_table('"from"', 'a', colocate_with => 'none');
--! {"setup": true}
create table "to" (k date, n int, m mood);
--! {"herd_only": true, "setup": true}
select create_distributed_table('"to"', 'k');
--! {"writes": true}
insert into "from" select g, g from generate_series(1, 40) g;
--! {"writes": true}
insert into "to" select '2024-01-01'::date + a, v, 'red' from "from";
--! {"writes": true}
insert into "to" select '2024-01-01'::date, v, 'green' from "from" where a = 3;
--! {"writes": true}
insert into "to" select '2024-01-01'::date, v, 'green' from "from" where a = 4;
--! {"writes": true}
insert into "to" select '2024-01-01'::date, v, 'green' from "from" where a = 5;
--! {"writes": true}
insert into "to" select '2024-01-01'::date, v, 'green' from "from" where a = 6;
