-- Tables distributed by list, with a default shard and NULL in a list; colocated with each other, joined with reference
-- tables and with tables that are split otherwise.
--! setup
create table lst_shop (region text, id int, name text, primary key (region, id));
create table lst_code (code int2, v text);
create table lst_day (day date primary key, n int);
create table lst_ref (region text primary key, boss text);
create table lst_hash (id int primary key, region text);
--! distribute lst_shop region strategy => 'list', bounds => array['IN (''north'')', 'IN (''south'', ''west'')', 'DEFAULT']
create table lst_staff (region text, shop int, name text, foreign key (region, shop) references lst_shop (region, id));
--! distribute lst_staff region colocate_with => 'lst_shop'
--! distribute lst_code code strategy => 'list', bounds => array['IN (1, 2, NULL)', 'IN (3)', 'DEFAULT']
--! distribute lst_day day strategy => 'list', bounds => array['IN (''2024-02-29'')', 'IN (''2024-03-01'')', 'DEFAULT']
--! reference lst_ref
--! distribute lst_hash id
--! reset
delete from lst_staff;
delete from lst_shop;
delete from lst_code;
delete from lst_day;
delete from lst_ref;
delete from lst_hash;
insert into lst_ref values ('north', 'Nora'), ('south', 'Sue'), ('east', null), ('nowhere', 'Nobody');
insert into lst_shop select r, i, r || ' ' || i from unnest(array['north', 'south', 'west', 'east', 'North']) r, generate_series(1, 4) i;
insert into lst_staff select region, id, n || ' of ' || name from lst_shop, unnest(array['Ann', 'Bob']) n where id < 3;
insert into lst_code values (1, 'one'), (2, 'two'), (3, 'three'), (4, 'four'), (null, 'null'), (null, 'another');
insert into lst_day select date '2024-02-27' + i, i from generate_series(0, 5) i;
insert into lst_hash select i, (array['north', 'south', 'east'])[i % 3 + 1] from generate_series(1, 9) i;
--! teardown
drop table if exists lst_staff;
drop table if exists lst_shop, lst_code, lst_day, lst_ref, lst_hash;
--! tests
select * from lst_shop where region = 'north';
select * from lst_shop where region = 'west' and id = 2;
select * from lst_shop where region = 'east' and id = 2;
select * from lst_shop where region = 'North' and id = 1;
select * from lst_shop where region = 'nosuch';
select * from lst_shop where region = '';
select * from lst_shop where id = 3;
-- params: south
select name from lst_shop where region = $1;
-- params: east, 4
select name from lst_shop where region = $1 and id = $2;
select region, id from lst_shop where region in ('north', 'east') and id < 3;
select region, count(*), max(id) from lst_shop group by region;
-- ordered
select region, id from lst_shop order by region, id desc limit 7;
-- ordered
select id, count(*) from lst_shop group by id order by id;
select distinct region from lst_shop;
select s.name, p.name from lst_shop s join lst_staff p on p.region = s.region and p.shop = s.id;
select s.name, p.name from lst_shop s left join lst_staff p on p.region = s.region and p.shop = s.id where s.region <> 'north';
select s.name, p.name from lst_shop s join lst_staff p using (region) where region = 'south' and shop = id;
select s.region, count(*) from lst_shop s join lst_staff p on p.region = s.region group by s.region;
select s.name from lst_shop s join lst_staff p on p.shop = s.id;
select s.name from lst_shop s join lst_staff p on p.shop = s.id where s.region = 'west' and p.region = 'west';
select s.name, r.boss from lst_shop s join lst_ref r on r.region = s.region;
select s.name, r.boss from lst_shop s left join lst_ref r using (region) where s.id = 1;
select r.boss, count(*) from lst_shop s join lst_ref r using (region) group by r.boss;
select r.boss, p.name from lst_shop s join lst_staff p on p.region = s.region and p.shop = s.id join lst_ref r on r.region = p.region where s.region = 'north';
select name from lst_shop s where exists (select 1 from lst_staff p where p.region = s.region and p.shop = s.id);
select name from lst_shop s where region in (select region from lst_ref where boss is not null);
select h.id, s.name from lst_hash h join lst_shop s on s.region = h.region;
select h.id, s.name from lst_hash h join lst_shop s on s.region = h.region and s.id = 1 where h.id = 3 and s.region = 'north';
-- ordered
select region, id, rank() over (partition by region order by id desc) from lst_shop order by region, id;
select region from lst_shop except select region from lst_ref;
select region, id from lst_shop union all select region, id from lst_hash;
select code, v from lst_code where code = 1;
select code, v from lst_code where code = 3;
select code, v from lst_code where code = 4;
select code, v from lst_code where code is null;
select code, v from lst_code where code = null;
select code, v from lst_code where code is not distinct from null;
select code, v from lst_code where code in (1, 4, null);
select code, count(*) from lst_code group by code;
-- params: NULL
select v from lst_code where code = $1;
-- params: 4
select v from lst_code where code = $1;
select v from lst_code where code = 70000;
insert into lst_code values (null, 'third'), (5, 'five'), (1, 'again') returning *;
insert into lst_code values (70000, 'x');
insert into lst_code (v) values ('default') returning *;
update lst_code set v = upper(v) where code is null returning v;
update lst_code set v = v || '!' where code = 4 returning v;
delete from lst_code where code is null returning v;
delete from lst_code where code in (1, 3) returning v;
select n from lst_day where day = '2024-02-29';
select n from lst_day where day = date '2024-03-01';
select n from lst_day where day = '2024-02-28';
select n from lst_day where day >= '2024-02-29';
-- params: 2024-03-01
select n from lst_day where day = $1;
select n from lst_day where day = timestamp '2024-03-01 00:00';
insert into lst_day values ('2024-02-29', 1);
insert into lst_day values ('2024-02-30', 1);
insert into lst_day values ('2024-02-29', 100), ('infinity', 7) on conflict (day) do update set n = excluded.n returning *;
insert into lst_shop values ('north', 9, 'new'), ('mars', 1, 'far') returning name;
insert into lst_shop values ('north', 9, 'new');
insert into lst_shop values (null, 1, 'x');
insert into lst_shop values ('north', null, 'x');
insert into lst_staff values ('mars', 1, 'Zed'), ('west', 77, 'No shop');
insert into lst_staff values ('mars', 1, 'Zed') returning *;
delete from lst_shop where region = 'mars';
update lst_shop set name = 'x' where region = 'mars' returning *;
update lst_shop set id = id + 10 where region = 'east' and id = 3 returning id;
update lst_shop s set name = r.boss from lst_ref r where r.region = s.region and s.id = 4 returning s.region, s.name;
update lst_ref set boss = upper(boss) returning boss;
delete from lst_staff p using lst_shop s where s.region = p.region and s.id = p.shop and s.id = 2 returning p.name;
delete from lst_staff where region = 'west';
copy lst_shop from stdin;
north	50	copied
venus	1	copied
south	51	\N
\.
select region, id, name from lst_shop where id >= 50 or region = 'venus';
begin;
delete from lst_staff;
delete from lst_shop where region = 'south';
select region, count(*) from lst_shop group by region;
rollback;
select count(*) from lst_shop where region = 'south';
