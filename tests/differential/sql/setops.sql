-- UNION, INTERSECT and EXCEPT.
--! include events
--! tests
select id from events where id < 4 union select id from events where id < 6;
select id from events where id < 4 union all select id from events where id < 6;
select id from events intersect select event_id from items;
select event_id from items except select id from events;
select event_id from items except all select id from events;
select event_id from items intersect all select id from events;
select grp from events union select code from kinds;
select grp from events intersect select code from kinds;
select code from kinds except select grp from events;
-- ordered
select id from events where id < 4 union all select event_id from items where event_id > 64 order by 1;
-- ordered
select id, note from events where id < 4 union all select n, remark from plain_notes order by id desc, note nulls first;
-- ordered
(select id from events order by id limit 2) union all (select id from events order by id desc limit 2) order by 1;
(select id from events order by id limit 2) union all (select id from events order by id desc limit 2);
select id from events where id = 3 union select event_id from items where event_id = 3;
select id from events where id = 3 union select id from events where id = 4;
select 1 union select id from events where id < 3;
select 1 as a union all select 2;
select count(*) from events union all select count(*) from items;
select 'events' as t, count(*) from events union all select 'items', count(*) from items;
select grp, count(*) from events group by grp union all select tag, count(*) from items group by tag;
select k from events union select no from items except select 1;
select count(*) from (select id from events union select event_id from items) s;
select id::int8 from events where id < 3 union select qty from items where event_id < 3;
select k, grp from events where id < 10 union select weight, code from kinds;
select null union select 1;
select id from events union select note from events;
select id from events union select id, k from events;
values (1, 'a'), (2, 'b');
-- ordered
values (2), (1), (3) order by 1;
select * from (values (1, 'one'), (2, 'two')) v (n, w);
select v.w, e.note from (values (1, 'one'), (2, 'two')) v (n, w) join events e on e.id = v.n;
select * from events where id in (values (1), (2));
