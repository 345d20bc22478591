-- Window functions, partitioned by the key and not.
--! include events
--! tests
select id, row_number() over (order by id) from events;
select id, row_number() over (order by id desc) from events;
select id, grp, row_number() over (partition by grp order by id) from events;
select id, rank() over (order by k), dense_rank() over (order by k) from events;
select id, percent_rank() over (order by k), cume_dist() over (order by k), ntile(4) over (order by id) from events;
select id, lag(id) over (order by id), lead(id, 2, -1) over (order by id) from events;
select id, first_value(id) over w, last_value(id) over w, nth_value(id, 2) over w from events window w as (partition by grp order by id);
select id, sum(k) over () from events;
select id, sum(k) over (order by id) from events;
select id, sum(k) over (order by id rows between 2 preceding and current row) from events;
select id, avg(k) over (order by id rows between unbounded preceding and 1 following) from events;
select id, count(*) over (order by k range between 1 preceding and 1 following) from events;
select id, sum(id) over (order by k groups between 1 preceding and current row) from events;
select id, sum(id) over (order by id rows between 1 preceding and 1 following exclude current row) from events;
select id, count(*) filter (where flag) over (partition by grp) from events;
select id, max(amount) over (partition by grp) - amount as below from events;
-- ordered
select id, sum(k) over (order by id) as run from events order by run desc nulls last, id desc limit 5;
-- ordered
select id, row_number() over (order by note, id) as rn from events order by rn limit 10;
select * from (select id, grp, row_number() over (partition by grp order by amount desc, id) as rn from events) s where rn <= 2;
select grp, count(*), rank() over (order by count(*) desc, grp) from events group by grp;
select grp, sum(sum(k)) over (order by grp) from events group by grp;
select event_id, no, sum(qty) over (partition by event_id order by no) from items;
select event_id, no, row_number() over (partition by event_id order by qty desc) from items where event_id = 7;
select event_id, no, lag(tag) over (partition by event_id order by no) from items where event_id in (7, 11);
select id, sum(k) over w1, count(*) over w2 from events window w1 as (partition by flag), w2 as (w1 order by id);
select id, string_agg(grp, '') over (order by id) from events where id < 8;
select distinct grp, count(*) over (partition by grp) from events;
select id, row_number() over (order by id) from events where id = 5;
select id, count(*) over () from events where k = 1;
-- ordered
select id, count(*) over () from events where k < 5 order by id limit 3;
select code, row_number() over (order by code) from kinds;
select id, row_number() over (order by nosuch) from events;
select id from events where row_number() over () = 1;
select id, lag(id) over (partition by id % 2 order by id) as prev from events where id between 20 and 30;
select count(*) over (partition by k, flag), k, flag from events;
