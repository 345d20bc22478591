-- Names in the texts of views were taken for places in the statement, and partitions named there.
--! {"setup": true}
create table "d1" ("c" varchar(200), "%now%" jsonb, "b" float4 default 'Infinity'::float4, "a.b" text not null, "group" int4[] not null, "t0_0" timetz);
--! {"herd_only": true, "setup": true}
select create_distributed_table('"d1"', 'c', colocate_with => 'none');
--! {"setup": true}
create table "key2" ("name" varchar(200), "val" inet default '10.0.0.0/8'::inet not null, "count" time, "colon:x" int4);
--! {"herd_only": true, "setup": true}
select create_distributed_table('"key2"', 'name', colocate_with => '"d1"');
--! {"writes": true}
create view "Oddv3" as select "name", "val", "count" from "key2" where "name" is not null;
--! {"mode": "binary", "params": ["{\"k\": \"%now%\"}", "$1", "3", "{\"b\": 2, \"a\": 1}", "{\";\",\"ABC\"}", "3", "{\"back\\\\slash\",\"%s\"}", "1.0", "{3}", "{3}", "13:00:00+01"], "types": ["jsonb", "text", "int4", "jsonb", "text[]", "int4", "text[]", "jsonb", "int4[]", "int4[]", "timetz"], "any_of_equals": true, "writes": true}
insert into "d1" ("c", "%now%", "a.b", "group", "t0_0") select r1."name" as c0, case when t3."val" = '10.0.0.7'::inet then $q${"k": "%now%"}$q$::jsonb else coalesce(:{0}::jsonb, ('{"a": {"b": [1, 2]}}')::jsonb) end as c1, substr(:{1}::text, 1, 3) as c2, coalesce(greatest(:{8}::int4[], '{1}'::int4[]), :{9}::int4[]) as c3, :{10}::timetz as c4 from "Oddv3" r1 left join "Oddv3" t2 on r1."name" = t2."name" join "Oddv3" t3 on r1."name" = t3."name" where t3."name" = 'a ' on conflict do nothing;
