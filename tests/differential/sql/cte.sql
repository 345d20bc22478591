-- WITH, plain, chained, recursive and data-modifying; LATERAL.
--! include events
--! tests
with a as (select id, k from events where id = 7) select * from a;
with a as (select id, k from events) select * from a where id = 7;
with a as (select id, k from events where k = 3) select count(*), sum(id) from a;
with a as materialized (select id, k from events where k = 3) select * from a where id > 20;
with a as not materialized (select id, k from events) select * from a where k = 3;
with a as (select grp, count(*) as n from events group by grp) select * from a where n > 11;
with a as (select grp, count(*) as n from events group by grp) select max(n), min(n) from a;
with a as (select id from events where flag), b as (select id from a where id > 30) select count(*) from b;
with a as (select id, grp from events), b as (select event_id, qty from items) select a.grp, sum(b.qty) from a join b on a.id = b.event_id group by a.grp;
with a as (select id from events where id < 3) select * from a union all select * from a;
with a (x, y) as (select id, k from events where id < 4) select x + y as s from a;
with recursive r (n) as (select 1 union all select n + 1 from r where n < 5) select * from r;
with recursive r (n) as (select 1 union all select n + 1 from r where n < 5) select e.id from events e join r on r.n = e.id;
with k as (select code from kinds) select id from events where grp in (select code from k);
with top as (select id, amount from events order by amount desc, id limit 3) select sum(amount) from top;
-- ordered
with top as (select id, amount from events order by amount desc, id limit 5) select id from top order by id;
with v (n) as (values (1), (2)) select e.id, e.note from events e join v on v.n = e.id;
with unused as (select 1 / 0) select id from events where id = 5;
-- params: 7
with a as (select id, k from events where id = $1) select * from a;
with a as (select count(*) as n from events) select e.id from events e, a where e.id = a.n;
select e.id, l.no from events e, lateral (select no from items i where i.event_id = e.id order by no desc limit 1) l;
select e.id, l.s from events e left join lateral (select sum(qty) as s from items i where i.event_id = e.id) l on true;
select e.id, l.label from events e join lateral (select label from kinds k where k.code = e.grp) l on true where e.id < 10;
select e.id, x from events e, lateral generate_series(1, e.k) x where e.id < 5;
select e.id, l.no from events e cross join lateral (select no from items i where i.event_id = e.id) l where e.id = 7;
select k.code, l.id from kinds k, lateral (select id from events e where e.grp = k.code order by id limit 1) l;
with a as (select nosuch from events) select * from a;
with a as (select 1), a as (select 2) select * from a;
-- What nobody names is not run, and need not be where the rest is.
with w as (select n from plain_notes) select id from events where id < 4;
with w as (select n from plain_notes), x as (select n + 1 from w) select count(*) from events;
with w as (select n from plain_notes) select id from events where id = 5;
with recursive w as (select n from plain_notes union all select n + 1 from w where n < 5) select max(id) from events;
select count(*) from (with w as (select remark from plain_notes) select id from events) s;
select id, (with w as (select n from plain_notes) select 5) as five from events where id < 3;
with w as (select n from plain_notes) update events set k = k where id < 4;
with w as (select n from plain_notes) select count(*) from events, w;
-- A mistake in it is one all the same, wherever the rest runs.
with w as (select nosuch from plain_notes) select id from events where id = 5;
with w as (select nosuch from plain_notes) select code from kinds;
with w as (select n from plain_notes a, plain_notes b join plain_notes c on a.n = c.n) select n from plain_notes;
with w as (select n + nosuch(n) from plain_notes), x as (select * from w) select id from events where id = 5;
with w as (select 'x'::int from plain_notes) update events set k = k where id = 5;
with w as (select nosuch from plain_notes) insert into plain_notes (n) values (1);
with w as (select nosuch from plain_notes), x as (delete from plain_notes where n = -1 returning n) select n from x;
select id, (with w as (select nosuch from plain_notes) select 5) as five from events where id = 3;
copy (with w as (select nosuch from plain_notes) select id from events where id = 5) to stdout;
explain with w as (select nosuch from plain_notes) select code from kinds;
explain with w as (select nosuch from plain_notes) select id from events where id = 5;
begin;
declare c cursor for with w as (select nosuch from plain_notes) select id from events where id = 5;
rollback;
-- params: 5
with w as (select nosuch from plain_notes where n = $1) select id from events where id = $1;
