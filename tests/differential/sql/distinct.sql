-- DISTINCT and DISTINCT ON across shards.
--! include events
--! tests
select distinct grp from events;
select distinct k, grp from events;
select distinct k % 3 from events;
select distinct id from events where id < 5;
-- ordered
select distinct grp from events order by grp;
-- ordered
select distinct grp from events order by grp desc nulls last;
-- ordered
select distinct k from events order by k limit 3;
-- ordered
select distinct k from events order by k offset 8;
-- ordered
select distinct upper(grp) as u, flag from events order by u nulls first, flag nulls first;
select distinct on (grp) grp from events;
-- ordered
select distinct on (grp) grp, id from events order by grp, id;
-- ordered
select distinct on (grp) grp, id, note from events order by grp desc nulls last, id desc;
-- ordered
select distinct on (k % 2, flag) k % 2, flag, id from events order by k % 2, flag, id;
-- ordered
select distinct on (event_id) event_id, no, qty from items order by event_id, no desc;
-- ordered
select distinct on (grp) id from events order by grp, amount desc, id limit 3;
select distinct tag from items where event_id = 7;
select distinct count(*) from events group by grp;
select distinct grp, count(*) from events group by grp, k;
select distinct first_value(id) over (partition by grp order by id) from events;
select distinct 1 from events;
select distinct null from events;
select distinct amount::int % 4 as a, flag from events;
select distinct e.grp, k.label from events e join kinds k on k.code = e.grp;
select distinct (k is null) from events;
select distinct k from events order by grp;
select distinct on (grp) grp, id from events order by id;
select count(*) from (select distinct grp, k from events) s;
