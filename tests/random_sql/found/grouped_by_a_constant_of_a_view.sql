-- seed 501, program 5
-- SQLSTATE: expected success (SELECT 0), got 42803 (column "p.c0" must appear in the GROUP BY clause or be used in an aggregate function)
--! {"setup": true}
create table "qu""ote1" ("val" int8, "per%cent" json not null, "oid" int4, "/*c*/" float4, "data" jsonb not null, "v" int8, "group" int4 not null, primary key ("val"));
--! {"herd_only": true, "setup": true}
select create_reference_table('"qu""ote1"');
--! {"setup": true}
create table "d2" ("1st" char(6), "val" int4, "x-y" inet default '192.168.1.1/24'::inet, "data" bool default $q$false$q$::bool, "n" int8 references "qu""ote1" ("val"), "per%cent" bool default false, primary key ("1st", "val"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"d2"', '1st', colocate_with => 'none');
--! {"setup": true}
create table "d3" ("$1" char(6), "a" text, "/*c*/" int4, "back\s" json, "oid" int4 default '10'::int4, primary key ("$1", "/*c*/"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"d3"', '$1', colocate_with => '"d2"');
--! {"params": [null], "types": ["text"], "writes": true}
create view "v4" as select q1. "back\s" as c0, ('abc')::bytea as c2, q1. "/*c*/" as c3 from "d3" q1;
--! {"params": ["A", "\\x0527", "1", "3", "b\\", "abc", "3", "3", "10", "\\x61", "{}", "-1"], "types": ["text", "bytea", "numeric", "int8", "text", "bytea", "numeric", "numeric", "int8", "bytea", "int4[]", "numeric"], "any_of_equals": true}
(select a1. "c2" c0 from "v4" a1 group by "c2" having ('%r0') is null);
