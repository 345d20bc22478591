-- Colocated joins (on the key) and joins with reference tables; those that are not colocated are listed as unsupported.
--! include events
--! tests
select e.id, i.no from events e join items i on i.event_id = e.id where e.id = 7;
select e.id, i.no from events e, items i where i.event_id = e.id and e.id = 7;
select e.id, i.no from events e join items i on i.event_id = e.id where i.event_id = 7;
select e.id, i.no from events e join items i on i.event_id = e.id;
select e.id, i.no from events e left join items i on i.event_id = e.id;
select e.id, i.event_id, i.no from events e right join items i on i.event_id = e.id;
select e.id, i.event_id, i.no from events e full join items i on i.event_id = e.id;
select e.id, i.no from events e left join items i on i.event_id = e.id and i.no = 1;
select e.id from events e left join items i on i.event_id = e.id where i.no is null;
select count(*) from events e join items i on i.event_id = e.id;
select count(*), sum(i.qty), count(distinct e.grp) from events e join items i on e.id = i.event_id where e.k > 3;
select e.grp, count(*), sum(i.qty) from events e join items i on e.id = i.event_id group by e.grp;
-- ordered
select e.id, i.no, e.note from events e join items i on e.id = i.event_id order by e.note, e.id, i.no limit 10;
select e.id, i.no from events e join items i on e.id = i.event_id and i.qty > e.k * 10;
select e.id, i.no, j.no from events e join items i on e.id = i.event_id join items j on j.event_id = i.event_id where i.no < j.no;
select a.id, b.id from events a join events b on a.id = b.id where a.k = 3;
select a.id from events a join events b using (id) where b.k = 3;
select id, e.k from events e natural join (select id from events where flag) f;
select e.id, i.no from events e join items i on i.event_id = e.id where e.id in (3, 7, 11);
-- params: 7
select e.note, i.qty from events e join items i on i.event_id = e.id where e.id = $1;
-- params: 7
select e.note, i.qty from events e, items i where e.id = $1 and i.event_id = $1;
select e.id, k.label from events e join kinds k on k.code = e.grp;
select e.id, k.label from events e join kinds k on k.code = e.grp where e.id = 7;
select e.id, k.label from events e left join kinds k on k.code = e.grp;
select e.id, k.label from kinds k left join events e on k.code = e.grp;
select e.id, k.label from events e right join kinds k on k.code = e.grp;
select e.id, k.label from events e full join kinds k on k.code = e.grp;
select e.id, k.label from kinds k left join events e on k.code = e.grp and e.id = 7;
select count(*) from kinds k left join events e on k.code = e.grp;
select k.label, count(e.id) from kinds k left join events e on k.code = e.grp group by k.label;
select k.label, sum(i.qty) from events e join items i on i.event_id = e.id join kinds k on k.code = e.grp group by k.label;
select e.id, k.label from events e cross join kinds k where e.id < 3;
select k.code, l.code from kinds k join kinds l on k.weight < l.weight;
select k.label, p.remark from kinds k join plain_notes p on p.n = k.weight;
select e.id, p.remark from events e join plain_notes p on p.n = e.id;
select p.n, p.remark, e.note from plain_notes p left join events e on e.id = p.n;
select e.id, p.remark from events e join plain_notes p on p.n = e.k where e.id = 12;
select e.id, i.event_id from events e join items i on i.no = e.k;
select count(*) from events a join events b on a.k = b.id;
select a.id, b.id from events a join events b on b.id = a.id + 1 where a.id < 5;
select count(*) from events a, events b;
select e.id, i.event_id from events e join items i on i.qty = e.id;
select e.id from events e join items i on e.id = i.event_id where i.tag = 'tag1' and e.flag;
select e.id, i.no from events e join items i on e.id = i.event_id and e.id = 12;
select e.id, x.n from events e join generate_series(1, 3) x(n) on x.n = e.id;
select e.id, x from events e, unnest(array[1, 2]) x where e.id = 5;
select e.id, v.t from events e join (values (1, 'a'), (5, 'b')) v (n, t) on v.n = e.id;
select e.* from events e join items i on i.event_id = e.id and i.no = 3;
select e.id, nosuch.no from events e join items i on i.event_id = e.id;
select id from events e join events f on e.id = f.id;
