-- seed 1, program 11
-- SQLSTATE: expected success (SELECT 0), got 42803 (column "p.c0" must appear in the GROUP BY clause or be used in an aggregate function)
--! {"setup": true}
create table "user1" ("value" date, primary key ("value"));
--! {"herd_only": true, "setup": true}
select create_distributed_table('"user1"', 'value', colocate_with => 'none');
--! {"session": 1, "params": ["0044-03-15 BC", "-32768", "/*"], "types": ["date", "int4", "text"], "ordered_by": [0], "any_of_equals": true}
select a4.c0 from ((select from "user1") cross join generate_series (1, 4) r3 (c0)) a4 group by c0;
