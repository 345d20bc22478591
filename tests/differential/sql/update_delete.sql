-- UPDATE and DELETE on one shard and on all, with RETURNING, FROM and USING.
--! setup
create table upd (id int primary key, k int, t text, n numeric default 0);
create table upd_items (upd_id int, no int, q int, primary key (upd_id, no));
create table upd_ref (code int primary key, f int);
create table upd_local (id int primary key, t text);
--! distribute upd id
--! distribute upd_items upd_id colocate_with => 'upd'
--! reference upd_ref
--! reset
delete from upd;
delete from upd_items;
delete from upd_ref;
delete from upd_local;
insert into upd values (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c'), (4, 4, null), (5, null, 'e'), (6, 6, 'f'), (7, 7, 'g'), (8, 8, 'h'),
    (9, 9, 'i'), (10, 10, 'j'), (11, 11, 'k'), (12, 12, 'l');
insert into upd_items values (1, 1, 10), (1, 2, 20), (2, 1, 30), (5, 1, 40), (99, 1, 50);
insert into upd_ref values (1, 100), (2, 200), (3, 300);
insert into upd_local values (1, 'l1'), (2, 'l2');
--! teardown
drop table if exists upd_items, upd, upd_ref, upd_local;
--! tests
update upd set k = 100 where id = 1;
update upd set k = k + 1, t = t || '!' where id = 2;
update upd set k = 0 where id = 1000;
update upd set k = k + 1 where id = 3 returning *;
update upd set t = 'new' where id = 4 returning id, t, k * 2 as twice;
update upd set k = default, n = default where id = 5;
update upd set (k, t) = (50, 'row') where id = 6;
update upd set (k, t) = (select 51, 'sub') where id = 6 returning k, t;
update upd set k = k + 1;
update upd set n = n + 1 where k > 5;
update upd set n = n + 1 where k > 5 returning id, n;
update upd set t = null where id in (1, 2, 3);
update upd set t = 'multi' where id in (1, 7, 12) returning id;
update upd as u set k = u.k * 2 where u.id = 7 returning u.id, u.k;
update only upd set n = 5 where id = 8;
update upd set n = 1.5 where id = 8 and k = 12345;
-- params: 9, nine
update upd set t = $2 where id = $1;
-- params: 9, 5
update upd set n = n + $2 where id = $1 returning n;
-- params: 3
update upd set n = $1;
update upd set k = i.q from upd_items i where i.upd_id = upd.id and i.no = 1;
update upd set k = i.q + 1 from upd_items i where i.upd_id = upd.id and upd.id = 1 and i.no = 2 returning upd.id, i.q;
update upd set n = r.f from upd_ref r where r.code = upd.id;
update upd set n = (select max(q) from upd_items i where i.upd_id = upd.id) where id < 4;
update upd set n = 7 where exists (select 1 from upd_items i where i.upd_id = upd.id) returning id;
update upd set t = l.t from upd_local l where l.id = upd.id;
with x as (update upd set k = 77 where id = 10 returning id, k) select * from x;
update upd_ref set f = f + 1;
update upd_ref set f = 5 where code = 2 returning *;
update upd_local set t = 'z' where id = 1 returning *;
-- ordered
select * from upd order by id;
update upd set id = 1001 where id = 1;
update upd set id = id + 1000 where id = 2 returning id;
update upd set id = id + 5000;
update upd set id = 3 where id = 3;
update upd set k = 1 / 0 where id = 4;
update upd set k = 1 / (k - k);
update upd set k = 'x' where id = 4;
update upd set nosuch = 1 where id = 4;
update upd set k = 1 where nosuch = 4;
update nosuch set k = 1;
update upd set k = 99999999999 where id = 4;
update upd set k = 1, k = 2 where id = 4;
delete from upd_items where upd_id = 1 and no = 1;
delete from upd_items where upd_id = 1000;
delete from upd_items where upd_id = 1 returning *;
delete from upd where id = 12;
delete from upd where id in (10, 11) returning id, t;
delete from upd u where u.id = 9 returning u.*;
-- params: 8
delete from upd where id = $1 returning id;
delete from upd where k > 100000;
delete from upd where t is null returning id;
delete from upd using upd_items i where i.upd_id = upd.id and i.q > 35 returning upd.id;
delete from upd using upd_ref r where r.code = upd.id and r.f > 1000;
delete from upd where exists (select 1 from upd_items i where i.upd_id = upd.id);
with gone as (delete from upd where id = 7 returning id) select count(*) from gone;
delete from upd_ref where code = 1 returning *;
delete from upd_local;
delete from upd where nosuch = 1;
delete from nosuch;
delete from upd;
delete from upd_items returning *;
select count(*) from upd;
truncate upd_items;
truncate upd, upd_items;
truncate nosuch;
