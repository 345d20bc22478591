-- A reference table is changed on every node, and a cursor stands on one: 34000 where there is a cursor of that name.
--! {"setup": true}
create table r (k int primary key, v int);
--! {"herd_only": true, "setup": true}
select create_reference_table('r');
--! {"writes": true}
insert into r values (1, 1), (2, 2);
--! {}
begin;
--! {}
declare c cursor for select * from r where k = 1 for update;
--! {}
fetch next from c;
--! {"writes": true}
update r set v = 3 where current of c;
--! {"writes": true}
rollback;
