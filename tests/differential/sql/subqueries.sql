-- Subqueries in FROM, WHERE and the select list; correlated by the key.
--! include events
--! tests
select * from (select id, k from events where id = 7) s;
select s.id from (select id, k from events) s where s.k = 3;
select s.id from (select id, k from events) s where s.id = 7;
select count(*) from (select id from events where k = 3) s;
select g, n from (select grp as g, count(*) as n from events group by grp) s where n > 11;
select avg(n) from (select grp, count(*) as n from events group by grp) s;
select max(n) from (select event_id, count(*) as n from items group by event_id) s;
select id from events e where exists (select 1 from items i where i.event_id = e.id and i.no = 3);
select id from events e where not exists (select 1 from items i where i.event_id = e.id);
select id from events e where e.id = 7 and exists (select 1 from items i where i.event_id = e.id);
select id from events where id in (select event_id from items where no = 3);
select id from events where id not in (select event_id from items where event_id is not null);
select event_id, no from items where event_id in (select id from events where flag);
select id from events where grp in (select code from kinds where weight > 1);
select id from events where grp not in (select code from kinds);
select id from events where k = any (select weight from kinds);
select id from events where k > all (select weight from kinds where weight is not null);
select id, (select label from kinds where code = grp) as label from events;
select id, (select count(*) from items i where i.event_id = e.id) as n from events e;
select id, (select max(qty) from items i where i.event_id = e.id) as m from events e where id = 7;
select id, (select 1) as one from events where id = 7;
select (select count(*) from events), (select count(*) from items);
select (select note from events where id = 7);
select (select note from events where id = 7001);
select (select id from events);
select (select max(id) from events) + 1;
select id from events where id = (select max(id) from events);
select id from events where amount > (select avg(amount) from events);
select id from events where id = (select min(n) from plain_notes);
select id from events where id in (select n from plain_notes);
select n from plain_notes where n in (select id from events);
select n, (select note from events where id = n) from plain_notes;
select id from events where exists (select 1 from plain_notes where n = 2) and id < 3;
select e.id, s.n from events e join (select event_id, count(*) as n from items group by event_id) s on s.event_id = e.id;
select e.id, s.n from events e left join (select event_id, count(*) as n from items group by event_id) s on s.event_id = e.id;
select e.id from events e join (select event_id from items where no = 3) s on s.event_id = e.id;
select s.grp, sum(s.n) from (select e.grp, i.no as n from events e join items i on i.event_id = e.id) s group by s.grp;
select * from (select id from events order by id desc limit 3) s;
-- ordered
select * from (select id, k from events order by id limit 5) s order by k desc nulls last, id;
select count(*) from (select distinct k from events) s;
select count(*) from (select id from events where id = 7 union all select id from events where id = 7) s;
select array(select id from events where id < 4 order by id);
select array(select no from items i where i.event_id = e.id order by no) from events e where e.id < 8;
-- params: 7
select * from (select id, note from events where id = $1) s;
-- params: 3
select s.id from (select id, k from events) s where s.k = $1;
select id from events where (id, k) in (select event_id, no from items);
select id from events e where k = (select count(*) from items i where i.event_id = e.id);
select case when exists (select 1 from events where id = 7) then 'yes' else 'no' end;
select x.id from (select id from (select id, k from events) y where y.k = 2) x;
select id from events where id in (select event_id from items group by event_id having count(*) = 3);
select (select nosuch from events where id = 1);
select * from (select count(*) as n, sum(k) as s from events) t;
select t.n * 2 from (select count(*) as n from events where id = 7) t;
select 1 where exists (select 1 from events where id = 99999);
