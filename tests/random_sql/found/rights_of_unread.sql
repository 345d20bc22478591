-- seed 1913, program 29
-- SQLSTATE: expected 42501 (permission denied for table r4), got success (SELECT 1)
--! {}
set default_with.unknown = 'x';
--! {"setup": true}
create type mood as enum ('red', 'Green', 'it''s', '%now%', 'dark blue');
--! {"setup": true}
create type pair_of as (a int, b text);
--! {"setup": true}
create domain small as int check (value between -5 and 100);
--! {"setup": true}
create table "d1" ("r0" bytea, "data" mood, "%e0%" inet, "$1" numeric default 1.00 not null, primary key ("r0", "data"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"d1"', 'r0', colocate_with => 'none');
--! {"setup": true}
create table "d2" ("Mixed" varchar(200), "qu""ote" text generated always as ((left("Mixed", 20) || '%now%')::text) stored, "count" int4[], "%now%" json, "per%cent" int2, "UPPER" int8, primary key ("Mixed"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"d2"', 'Mixed', strategy => 'list', bounds => array['IN ('''', ''A'', NULL)', 'IN (''$1'', ''k10'')', 'DEFAULT']);
--! {"writes": true}
create index on "d2" ("Mixed");
--! {"writes": true}
insert into "d2" ("Mixed", "count", "%now%", "per%cent", "UPPER") values ('back\slash', '{NULL}'::int4[], NULL::json, '1', 6), ('ü'::varchar(200), $q${1,1,3}$q$::int4[], '1.0'::json, 8, NULL), ($q$/*$q$::varchar(200), E'{3,-5}', '{"b": 2, "a": 1}'::json, '5'::int2, 11), ('O''Reilly'::varchar(200), CAST('{3,2}' AS int4[]), $q$1.0$q$::json, 5, 2) on conflict do nothing;
--! {"setup": true}
create table "d3" ("日本" varchar(200), "ünï" text generated always as ((left("日本", 20) || '%now%')::text) stored, "Mixed" int2 default 6, "select" int4, check ("Mixed" is null or "Mixed" <> 11), primary key ("日本", "select"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"d3"', '日本', colocate_with => '"d2"');
--! {"writes": true}
insert into "d3" ("日本", "select") values (''::varchar(200), (-2)) on conflict do nothing;
--! {"setup": true}
create table "r4" ("%r0" varchar(200) generated always as ((left("colon:x", 20) || '%now%')::varchar(200)) virtual, "colon:x" text, "group" float4, "value" int8 default E'0', "v" mood not null, check ("value" is null or "value" <> 11));
--! {"writes": true}
drop table "ctas4";
--! {"writes": true}
grant select on "d1" to random_sql_reader;
--! {"writes": true}
create policy "po5" on "d1" to public using ("r0" = '\xdeadbeef');
--! {"writes": true}
alter table "d1" enable row level security;
--! {"session": 2}
set session authorization random_sql_reader;
--! {"mode": "binary", "session": 2, "params": ["\\x0b27"], "types": ["bytea"], "writes": true}
update "d1" t1 set "$1" = 3, "%e0%" = t1."%e0%" where t1."r0" is distinct from :{0}::bytea returning *;
--! {"session": 2, "writes": true}
update "d1" set "%e0%" = "d1"."%e0%" where "d1"."data" <= CAST('%now%' AS mood) returning *;
--! {"session": 2, "params": ["6", "7", "11", "\\x0427", "2024-02-27", "0044-03-15 BC", "say \"x\"", "\\x0127", "\u00e9", "{2,3,NULL}", "5", "\\x0527", "2024-02-23"], "types": ["int4", "numeric", "numeric", "bytea", "date", "date", "text", "bytea", "text", "int4[]", "numeric", "bytea", "date"], "ordered_by": [2], "any_of_equals": true}
((select ((CAST ('100' AS numeric))), ($q$infinity$q$), (('-infinity')) having count (*) < 2)) union (select '1.0', :{12}::date, '2024-02-23' from "d1" cross join (with w0 as materialized (select "%r0" c1 from (values (6, '*/')) r4 (c0, c1) join "r4" a5 on r4.c1 = "%r0" join (values (10, '日本'), (9, '/* c */')) a6 (c0, c1) on "%r0" = a6.c1), w1 as (select percentile_cont (0.5) within group (order by "select") from w0 t7 join "d2" a8 on t7.c1 = "Mixed" join "d3" on a8. "Mixed" = "日本") select), "d1" t12 where t12. "r0" = :{11}::bytea);
