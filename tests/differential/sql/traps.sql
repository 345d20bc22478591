-- What other routers get wrong (traps.md), one by one.
--! setup
create table trap (id int primary key, t text, v numeric, g int);
insert into trap values (1, 'b', 1.10, 1), (2, 'B', 2.2, 1), (3, 'a', null, 2), (4, 'A', 0.30, 2), (5, 'ä', 1e-3, 3), (6, null, 7, null),
    (7, '', 8.0, 3), (8, 'aa', 'NaN', 1), (9, 'a b', 9, 2), (10, 'a-b', -1, 3);
create table trap_other (id int primary key, trap_id int);
insert into trap_other values (1, 5), (2, 4), (3, 3), (20, 1);
--! distribute trap id
--! distribute trap_other id colocate_with => 'trap'
--! teardown
drop table if exists trap, trap_other;
--! tests
select t.id, o.id from trap t join trap_other o on o.trap_id = t.id;
-- ordered
select t from trap order by v nulls first, id;
select id from trap where id in (1, 2);
-- ordered
select id from trap where id in (1, 2, 3, 4, 5, 6, 7, 8) order by id;
select g, count(*) from trap group by g having count(*) > 2;
with x as (select g, sum(v) as s from trap where id < 8 group by g) select * from x where s > 1;
select id from trap where v > (select avg(v) from trap where id < 8);
-- ordered
select t from trap order by t, id;
-- ordered
select t from trap order by t desc, id;
-- ordered
select t, id from trap order by t nulls first, id;
-- ordered
select v, id from trap order by v desc nulls last, id;
select t.id, o.id from trap t left join trap_other o on o.id = t.id and o.trap_id > 3;
select t.id from trap t left join trap_other o on o.trap_id = t.id where o.id is null;
select id from trap t where exists (select 1 from trap_other o where o.trap_id = t.id);
select g, t, count(*) from trap group by grouping sets ((g), (t), ());
select sum(v), avg(v), max(v), min(v) from trap where id < 8;
select avg(g), avg(v), sum(v) / count(v) from trap where id <> 8;
select avg(v)::text from trap where id in (1, 2, 4);
select sum(v)::text, max(v)::text from trap where id < 8;
select max(v), min(v), count(v) from trap;
select count(distinct g), count(distinct t) from trap;
select avg(distinct g) from trap;
-- ordered
select distinct t from trap order by t;
select id from trap where t = 'a' or id = 7;
select id from trap where not (id = 7);
select id from trap where id = 7 is true;
select id from trap where (id = 7) = false and id < 3;
select id from trap where id = 7 union select id from trap where id = 1;
select (select count(*) from trap where id = 7) + (select count(*) from trap);
select id from trap where id = (select 7);
select id from trap where id = length('sevenab');
select id from trap where id = (array[7])[1];
select id from trap where id = '7' || '';
select id from trap where 'id = 7' = t or id = 8;
select id from trap where t = $$id = 7$$ or id = 8;
select id as "id = 7" from trap where id = 8 /* id = 7 */;
select id from trap where id = 0x7;
select id from trap where id = 1_0;
select id from trap where id = 7e0;
select id from trap where id = +7;
select id from trap where id = (7);
select id from trap where id = 7::int::text::int;
select id from trap where id = '\x07'::bytea::text::int;
select "id" from "trap" as "T" where "T"."id" = 7;
select "Id" from trap where id = 7;
update trap set v = v where id = 7 returning (select count(*) from trap);
update trap set v = (select max(v) from trap where id < 8) where id = 7 returning v;
update trap set v = 8.0 where id = 7;
insert into trap (id, g) values (30, (select max(g) from trap)) returning g;
insert into trap (id, g) values ((select max(id) + 1 from trap), 1) returning id;
delete from trap where id >= 30;
insert into trap (id, t) values (31, 'x'), (32, 'y'), (1, 'dup');
select count(*) from trap where id > 30;
show nosuch;
select 1 where false;
-- ordered
select id from trap order by id limit 3 offset 8;
select g from trap group by g order by g limit 1;
select sum(id) from trap group by g % 2 having g % 2 = 1;
