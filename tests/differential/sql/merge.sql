-- MERGE between colocated tables and from values.
--! setup
create table mrg (id int primary key, n int);
create table mrg_src (id int primary key, n int);
--! distribute mrg id
--! distribute mrg_src id colocate_with => 'mrg'
--! reset
delete from mrg;
delete from mrg_src;
insert into mrg values (1, 1), (2, 2), (3, 3);
insert into mrg_src values (2, 20), (3, 30), (4, 40);
--! teardown
drop table if exists mrg, mrg_src;
--! tests
merge into mrg using (select 1 as id, 10 as n) s on mrg.id = 1 and s.id = 1 when matched then update set n = s.n;
merge into mrg m using mrg_src s on m.id = s.id when matched then update set n = s.n when not matched then insert values (s.id, s.n);
merge into mrg m using mrg_src s on m.id = s.id and m.id = 2 when matched then delete;
-- ordered
select * from mrg order by id;
