-- Cursors in a transaction.
--! include events
--! tests
begin;
declare c cursor for select id, note from events order by id;
-- ordered
fetch c;
-- ordered
fetch 3 from c;
-- ordered
fetch next from c;
-- ordered
fetch forward 2 from c;
move 5 in c;
move c;
-- ordered
fetch 2 c;
move forward all in c;
fetch c;
close c;
fetch c;
rollback;
begin;
declare c scroll cursor for select id from events order by id;
fetch last from c;
fetch prior from c;
fetch first from c;
fetch absolute 10 from c;
fetch relative -2 from c;
-- ordered
fetch backward 3 from c;
fetch backward all from c;
-- ordered
fetch all from c;
close c;
commit;
begin;
declare c no scroll cursor for select id from events order by id;
fetch 2 from c;
fetch backward 1 from c;
rollback;
begin;
declare one cursor for select note from events where id = 7;
fetch all from one;
close one;
declare a cursor for select count(*) from events;
fetch 1 from a;
declare b cursor for select code from kinds order by code;
-- ordered
fetch 2 from b;
select id from events where id = 5;
-- ordered
fetch 2 from b;
close all;
commit;
begin;
declare j cursor for select e.id, i.no from events e join items i on i.event_id = e.id order by 1, 2;
-- ordered
fetch 4 from j;
declare j cursor for select 1;
rollback;
begin;
declare w cursor for select id, k from events where id = 7 for update;
fetch w;
update events set k = k where current of w;
rollback;
begin;
declare w cursor for select e.id, e.k from events e where e.id = 7;
fetch w;
update events set k = k + 1, at = now() where current of w returning id, k;
fetch w;
delete from events where current of w;
rollback;
begin;
declare several cursor for select id, k from events for update;
move several;
update events set k = k + 1 where current of several;
rollback;
-- The row is on some node, in some partition there: its change goes to it.
begin;
declare w cursor for select note from events where id between 5 and 30 order by id for update;
-- ordered
fetch 3 w;
update events set note = note || '!' where current of w returning id, note;
update events set note = note || '?' where current of w returning id, note;
move 4 w;
delete from events where current of w returning id;
delete from events where current of w;
-- ordered
fetch 2 w;
update events set note = 'ninth' where current of w returning *;
fetch all w;
savepoint s;
update items set no = 1 where current of w;
rollback to s;
update events set nowhere = 1 where current of w;
rollback to s;
delete from events where current of w;
rollback to s;
select id, note from events where note like '%!' or note = 'ninth' or note like '%?' or id between 8 and 14;
rollback;
begin;
declare w cursor for select e.note from events e join kinds on kinds.code = e.grp where e.id > 4 order by e.id for update of e;
move 2 w;
update events as x set note = 'joined' where current of w returning id;
rollback;
begin;
declare w cursor for select * from events where id in (1, 2, 3, 4, 5, 6) for no key update;
delete from events where current of w;
rollback;
begin;
declare w cursor for select id from events where id in (1, 2, 3, 4, 5, 6) for no key update;
move 4 w;
update events set note = 'four' where current of w;
select count(*) from events where note = 'four' and id in (1, 2, 3, 4, 5, 6);
move 3 w;
savepoint s;
delete from events where current of w;
rollback to s;
close w;
delete from events where current of w;
rollback;
begin;
declare w scroll cursor for select note from events where id < 20;
move last w;
update events set note = 'last' where current of w;
move backward 3 w;
update events set note = 'back' where current of w;
move backward 3 w;
move 2 w;
delete from events where current of w;
select count(*) from events where note in ('last', 'back');
select count(*) from events where id < 20;
rollback;
begin;
declare w cursor for select count(*) from events;
move w;
delete from events where current of w;
rollback;
begin;
declare w cursor for select k, count(*) from events group by k;
move w;
delete from events where current of w;
rollback;
begin;
declare w cursor with hold for select id from events order by id;
move w;
commit;
delete from events where current of w;
close w;
delete from events where current of nosuch;
delete from nowhere where current of nosuch;
begin;
declare h cursor with hold for select id from events order by id;
-- ordered
fetch 2 from h;
commit;
-- ordered
fetch 2 from h;
close h;
begin;
declare bin binary cursor for select id from events order by id;
fetch 1 from bin;
commit;
select name from pg_cursors;
-- A query is planned when its cursor is declared, and run when a row is asked for: each has its own errors.
begin;
declare c cursor for select min(id) from events order by 1 fetch first (null) rows with ties;
rollback;
begin;
declare c cursor for select min(id) from events order by 1 fetch first (-1) rows with ties;
fetch 1 from c;
rollback;
begin;
declare c cursor for select max(10 / (id - 5)) from events order by 1 fetch first 1 rows with ties;
select count(*) from kinds;
fetch 1 from c;
fetch 1 from c;
rollback;
begin;
declare c cursor for select max(id), 1 / 0 from events;
rollback;
begin;
declare c cursor for select id from events order by id limit -1;
savepoint s;
fetch 1 from c;
rollback to s;
fetch 1 from c;
close c;
select count(*) from kinds;
commit;
begin;
declare c cursor for select (select id from events where k = 1) from kinds;
move 1 in c;
rollback;
begin;
declare c cursor with hold for select sum(10 / (id - 5)) from events;
commit;
fetch 1 from c;
-- simple only
declare c cursor with hold for select sum(10 / (id - 5)) from events;
begin;
declare c cursor for select sum(10 / (id - 5)) from events;
commit;
declare w cursor for select * into w_table from events;
begin;
declare w cursor for select id into w_table from events union select 1;
rollback;
-- plain refuses
declare w cursor with hold for with u as (update events set k = k where id < 3 returning id) select * from u;
