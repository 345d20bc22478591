-- Forms of WHERE: those that prune to shards and those that do not.
--! include events
--! tests
select * from events where id = 7;
select * from events where 7 = id;
select * from events where id = 3 + 4;
select * from events where id + 1 = 8;
select * from events where id = 7 and k = 7;
select * from events where id = 7 and k = 8;
select * from events where id = 7 and id = 8;
select * from events where id = 7 or id = 8;
select id from events where id = 7 or k = 3;
select id from events where (id = 7 and grp = 'c') or (id = 9 and grp = 'x');
select id, note from events where id in (1, 2, 3, 50, 1000);
select id from events where id in (5);
select id from events where id in (5, 5, 5);
select id from events where id in (null, 5);
select id from events where id not in (1, 2) and id < 5;
select id from events where id not in (1, null);
select id from events where id = any (array[1, 2, 3]);
select id from events where id = any ('{4,5,6}');
select id from events where id = any ('{}'::int[]);
select id from events where id = any (null::int[]);
select id from events where id <> all (array[1, 2]) and id < 6;
select id from events where id = some (array[1, 60]);
-- params: '{10,20,30,99}'
select id from events where id = any ($1::int[]);
-- params: 5
select id, grp from events where id = $1;
-- params: 5, 6, 7
select id, grp from events where id in ($1, $2, $3);
-- params: NULL
select id from events where id = $1;
-- params: 3, b
select id, k, grp from events where k = $1 and grp = $2;
-- params: 17
select id from events where $1 = id;
-- params: 16
select id from events where id = $1::int + 1;
select id from events where id = null;
select id from events where id is null;
select id from events where id is not null and id < 4;
select id from events where k is null;
select id from events where grp is null;
select id from events where grp is not distinct from null;
select id from events where id is not distinct from 5;
select id from events where k is distinct from 3 and id < 8;
select id from events where flag;
select id from events where not flag;
select id from events where flag is unknown;
select id from events where flag is true and id < 20;
select id from events where flag is not true and id < 20;
select id from events where id between 10 and 14;
select id from events where id between symmetric 14 and 10;
select id from events where id not between 3 and 58;
select id from events where id < 3;
select id from events where id >= 59;
select id from events where id > 1000;
select id from events where note like 'app%';
select id from events where note ilike 'APP%';
select id from events where note not like '%e%' and id < 20;
select id from events where note similar to '(1|9)%';
select id from events where note ~ '^[A-Z]';
select id from events where note !~* 'a' and id < 25;
select id from events where note = 'äpfel3';
select id from events where amount > 90;
select id from events where amount::int % 10 = 0;
select id from events where at >= '2024-01-02' and at < '2024-01-03';
select id from events where at::date = date '2024-01-02';
select id from events where extract(hour from at) = 5;
select id from events where (k, grp) = (1, 'b');
select id from events where (k, grp) in ((1, 'b'), (2, 'c'));
select id from events where (id, k) = (5, 5);
select id from events where (id, k) in ((5, 5), (6, 5));
select id from events where (id, k) > (55, 3);
select id from events where case when k > 5 then flag else not flag end;
select id from events where coalesce(k, -1) = -1;
select id from events where nullif(k, 3) is null;
select id from events where greatest(k, 5) = 5 and id < 20;
select id from events where true and id < 3;
select id from events where false;
select id from events where id = 5 and false;
select id from events where null;
select id from events where length(note) = 2;
select id from events where f = 2.5;
select id from events where id = 5.0;
select id from events where id = 5.5;
select id from events where id = '5';
select id from events where id = 5::bigint;
select id from events where id::bigint = 5;
select id from events where id::text = '5';
select id from events where id = 99999999999;
select id from events where id = -5;
select id from events where id = - 5 or id = +5;
select id from events where events.id = 5;
select e.id from events e where e.id = 5;
select e.id from events as e (id, kk) where e.kk = 5 and e.id = 15;
select public.events.id from public.events where public.events.id = 5;
select id from only events where id = 5;
select "id" from "events" where "id" = 5;
select id from events where /* a comment = 3 */ id = 5 -- and another
;
select ID, Grp as "Group" from EVENTS where Id = 5;
select 1 from events where id = 5;
select from events where id = 5;
select e from events e where id = 5;
select e.* from events e where e.id = 5;
select id, id, id as id2 from events where id = 5;
select *, 1 as one from events where id in (1, 2);
select count(*) from items where event_id = 7;
select * from items where event_id = 7 and no = 2;
select * from items where no = 2 and event_id in (7, 11);
select tag from items where event_id = 3 and tag is null;
table kinds;
select * from kinds where code = 'a';
select * from kinds where weight is null;
select * from plain_notes where n = 2;
select exists (select 1 from plain_notes where n = 2);
