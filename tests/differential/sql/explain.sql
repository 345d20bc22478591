-- EXPLAIN: that it runs and gives the columns a client expects; the text is the golden tests' business.
--! include events
--! tests
-- rows vary
explain select * from events where id = 7;
-- rows vary
explain select count(*) from events;
-- rows vary
explain (costs off) select grp, count(*) from events group by grp order by 1;
-- rows vary
explain analyze select * from events where id = 7;
-- rows vary
explain (analyze, costs off) select count(*) from events;
-- rows vary
explain (verbose, costs off) select * from events e join items i on i.event_id = e.id;
-- rows vary
explain (format json) select * from events where id = 7;
-- rows vary
explain (format yaml) select * from events;
-- rows vary
explain (format xml, costs off) select grp, count(*) from events group by grp;
-- rows vary
explain (analyze, format json) select * from events order by k limit 3;
-- rows vary
explain insert into events (id) values (1000);
-- rows vary
explain update events set k = 1;
-- rows vary
explain delete from events where id = 7;
-- rows vary
explain select * from kinds;
-- rows vary
explain select * from plain_notes;
-- rows vary
explain select 1;
begin;
-- rows vary
explain (analyze, costs off) update events set k = 1 where id = 7;
-- rows vary
explain (analyze, costs off) insert into events (id) values (1000), (1001);
select count(*) from events where id >= 1000;
rollback;
select count(*) from events where id >= 1000;
explain (nosuch) select 1;
explain selec 1;
