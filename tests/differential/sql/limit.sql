-- LIMIT, OFFSET and FETCH, always on a total order.
--! include events
--! tests
-- ordered
select id from events order by id limit 5;
-- ordered
select id from events order by id desc limit 5;
-- ordered
select id from events order by id offset 55;
-- ordered
select id from events order by id limit 5 offset 10;
-- ordered
select id from events order by id offset 10 limit 5;
-- ordered
select id from events order by k nulls first, id limit 7 offset 3;
-- ordered
select note from events order by note, id limit 5 offset 20;
-- ordered
select id from events order by amount desc, id limit 3;
select id from events order by id limit 0;
-- ordered
select id from events order by id limit all;
-- ordered
select id from events order by id limit null offset 57;
-- ordered
select id from events order by id limit 1000;
select id from events order by id offset 1000;
-- ordered
select id from events order by id limit 2 + 1 offset 1 * 2;
-- params: 4, 2
-- ordered
select id from events order by id limit $1 offset $2;
-- params: 9223372036854775807, 58
-- ordered
select id from events order by id limit $1 offset $2;
-- params: 9223372036854775807, 9223372036854775807
select id from events order by id limit $1 offset $2;
-- params: NULL, 58
-- ordered
select id from events order by id limit $1 offset $2;
-- ordered
select id from events order by id fetch first 3 rows only;
-- ordered
select id from events order by id offset 2 rows fetch next row only;
-- ordered
select k from events order by k fetch first 3 rows with ties;
-- ordered
select k from events order by k desc nulls last offset 1 fetch first 2 rows with ties;
select k, count(*) from events group by k order by count(*) desc fetch first 1 row with ties;
-- ordered
select id from events where id in (3, 30, 44) order by id limit 2;
-- ordered
select id from events where id = 3 order by id limit 2;
select id from events order by id limit -1;
select id from events order by id offset -1;
-- params: -1
select id from events order by id limit $1;
select id from events order by id limit 'x';
select count(*) from (select id from events limit 10) s;
select count(*) from (select id from events limit 10 offset 55) s;
select count(*) from events limit 1;
select count(*) from events offset 1;
-- ordered
select max(s.id) from (select id from events order by id limit 10) s;
-- ordered
select id from events order by id limit (select 2);
-- ordered
select event_id, no from items order by qty desc, event_id limit 4;
-- ordered
select * from (select id from events order by id limit 3) s order by id desc;
select * from events where id > 1000 order by id limit 5;
