-- Rules and INSTEAD OF triggers of views over distributed and reference tables.
--! setup
create table vr (id int primary key, name text, qty int, unit text);
create table vr_unit (un text primary key, fact int);
create table vr_log (id int, what text, n int, primary key (id, what, n));
create table vr_plain (id int, t text);
--! distribute vr id colocate_with => 'none'
--! reference vr_unit
--! distribute vr_log id colocate_with => 'none'
--! reset
drop view if exists vr_v, vr_n, vr_c, vr_t, vr_two, vr_w cascade;
drop function if exists vr_instead, vr_second cascade;
delete from vr;
delete from vr_log;
delete from vr_unit;
delete from vr_plain;
insert into vr select i, 'n' || i, i * 10, case when i % 2 = 0 then 'cm' else 'inch' end from generate_series(1, 12) i;
insert into vr_unit values ('cm', 1), ('inch', 3);
insert into vr_log values (1, 'old', 0);
insert into vr_plain values (101, 'p1'), (102, null), (103, 'p3');
--! teardown
drop view if exists vr_v, vr_n, vr_c, vr_t, vr_two, vr_w cascade;
drop function if exists vr_instead, vr_second cascade;
drop table if exists vr, vr_log, vr_unit, vr_plain cascade;
--! tests
create view vr_v as select v.id, v.name, v.qty * u.fact as size, v.unit from vr v, vr_unit u where u.un = v.unit;
insert into vr_v values (50, 'no rule', 1, 'cm');
update vr_v set name = 'x' where id = 1;
create rule vr_ins as on insert to vr_v do instead insert into vr values (new.id, new.name, new.size, coalesce(new.unit, 'cm')) returning id, name, qty, unit;
create rule vr_also as on insert to vr_v do instead nothing;
create rule vr_upd as on update to vr_v where old.size <> new.size do instead update vr set qty = new.size, name = coalesce(new.name, 'none') where id = old.id;
update vr_v set size = 5 where id = 2;
create rule vr_updn as on update to vr_v do instead nothing;
create rule vr_del as on delete to vr_v do instead delete from vr where id = old.id and qty is not distinct from vr.qty returning vr.id, vr.name, 7, vr.unit;
insert into vr_v values (20, 'twenty', 5, 'inch');
insert into vr_v values (21, 'a', 1, null), (22, null, null, 'cm'), (23, 'c', default, 'inch');
insert into vr_v (unit, id) values ('cm', 24);
insert into vr_v (id) select i + 200 from generate_series(1, 3) i;
insert into vr_v (id, name) select id, t from vr_plain;
insert into vr_v (name, id) select name || '!', id + 300 from vr where id < 4;
insert into vr_v values (25, 'r', 5, 'inch') returning *;
insert into vr_v values (26, 'r', '6', 'inch') returning size, id as i, upper(name) as u;
insert into vr_v as x (id, name) values (27, 'r'), (28, 's') returning x.id, x.name, unit;
insert into vr_v values (20, 'again', 5, 'inch');
insert into vr_v values (29, 'x', 'no number', 'inch');
insert into vr_v values (29, 'x', 1, 'inch', 5);
insert into vr_v (id, nosuch) values (29, 'x');
insert into vr_v (id, id) values (29, 30);
insert into vr_v (id, size) values (29, true);
insert into vr_v (id, size) select 29, now();
insert into vr_v (id, size) select 29, 7.6;
insert into vr_v (id, name) values (31, current_date::text is not null);
-- plain refuses
insert into vr_v values (1, 'dup', 5, 'inch') on conflict do nothing;
insert into vr_v values (null, 'x', 5, 'inch');
insert into vr_v default values;
-- params: 40, forty, 4
insert into vr_v (id, name, size) values ($1, $2, $3);
-- params: 41, NULL, 4
insert into vr_v (id, name, size) values ($1, $2, $3) returning id, name;
select * from vr;
update vr_v set size = size + 1;
update vr_v set size = 1, name = null where name = 'n3';
-- params: 77, n4
update vr_v set size = $1 where name = $2;
update vr_v set size = size;
update vr_v v set size = p.id from vr_plain p where p.id = v.id;
update vr_v v set size = u.fact, name = v.name || u.un from vr_unit u where u.un = v.unit and v.id in (5, 6);
update vr_v set size = default where id = 7;
update vr_v set size = 'x' where id = 7;
update vr_v set size = 1 / (id - 8) where id in (8, 9);
-- plain refuses
update vr_v set size = 3 where id = 8 returning *;
update vr_v set nosuch = 3 where id = 8;
update vr_v set id = 900 where id = 8;
update vr_v set id = 900, size = 4 where id = 8;
select * from vr;
select id, name, size, unit from vr_v where id < 30;
delete from vr_v where id = 20 returning *;
delete from vr_v where id in (21, 22) returning id, size, name as n;
delete from vr_v where size > 10000;
delete from vr_v v using vr_plain p where p.id = v.id;
delete from vr_v v where exists (select from vr_unit u where u.un = v.unit and u.fact = 3) and id > 200;
-- params: 5
delete from vr_v where id = $1;
delete from vr_v where nosuch = 1;
begin;
insert into vr_v values (60, 'in block', 1, 'cm');
savepoint s;
update vr_v set size = 99 where id = 60;
insert into vr_v values (60, 'dup', 1, 'cm');
rollback to s;
select id, size from vr_v where id = 60;
rollback;
select count(*) from vr where id = 60;
prepare vr_p (int, text) as insert into vr_v (id, name) values ($1, $2);
execute vr_p (70, 'p');
execute vr_p (71, null);
execute vr_p (70, 'p');
deallocate vr_p;
select id, name, qty, unit from vr;
alter rule vr_del on vr_v rename to vr_gone;
comment on rule vr_gone on vr_v is 'said';
create or replace rule vr_gone as on delete to vr_v do instead nothing;
delete from vr_v;
-- plain refuses
delete from vr_v returning id;
drop rule vr_gone on vr_v;
drop rule nosuch on vr_v;
select rulename, ev_type, is_instead from pg_rewrite where ev_class = 'vr_v'::regclass order by 1;
create view vr_n as select id, name from vr where id < 100;
create rule vr_n1 as on insert to vr_n do also insert into vr_log values (new.id, 'also', 1);
create rule vr_n1 as on insert to vr_n do instead (insert into vr values (new.id, new.name); insert into vr_log values (new.id, 'two', 1));
create rule vr_n1 as on delete to vr_n do instead update vr set name = null where id = old.id;
create rule vr_n1 as on insert to vr_n do instead insert into vr (id, name, qty) select new.id, new.name, (select count(*) from vr_plain);
insert into vr_n values (80, 'counted');
insert into vr_n values (81, 'counted'), (82, 'twice');
create rule vr_n2 as on insert to vr_n do instead insert into vr_log values (new.id, 'other', 1);
create rule vr_n3 as on update to vr_n do instead update vr set (name, qty) = (new.name, length(new.name)) where id = old.id;
update vr_n set name = 'xyz' || id where id in (80, 81);
with x as (update vr_n set name = 'in with' where id = 80 returning 1) select count(*) from x;
select id, name, qty from vr where id >= 80;
drop view vr_n;
create view vr_t as select v.id, v.name, u.fact from vr v join vr_unit u on u.un = v.unit;
create function vr_instead() returns trigger language plpgsql as $$
declare n int;
begin
    if tg_op = 'INSERT' then
        if new.name = 'skip' then return null; end if;
        insert into vr values (new.id, new.name, 0, 'cm');
        select count(*) into n from vr;
        insert into vr_log values (new.id, tg_name || ' ' || tg_when || ' ' || tg_level || ' ' || tg_table_name || ' ' || tg_nargs || ' ' || coalesce(tg_argv[0], '-'), n);
        new.fact := coalesce(new.fact, n);
        return new;
    elsif tg_op = 'UPDATE' then
        update vr set name = new.name, qty = coalesce(qty, 0) + 1 where id = old.id;
        if not found then return null; end if;
        if new.name is null then raise exception 'no name for %', old.id using errcode = '22023'; end if;
        return new;
    else
        delete from vr where id = old.id and name is distinct from 'kept';
        if not found then return null; end if;
        return old;
    end if;
end $$;
create trigger vr_tr instead of insert or update or delete on vr_t for each row execute function vr_instead('one');
insert into vr_t values (400, 'by trigger') returning *;
insert into vr_t values (401, 'a', 5), (402, 'skip', 6), (403, null, null) returning id, fact, upper(name) as u;
insert into vr_t (name, id) select t, id + 400 from vr_plain;
insert into vr_t (id, name) values (404, 'skip');
insert into vr_t (id, name) values (400, 'dup');
insert into vr_t (id, name) values (405, 'first'), (400, 'dup');
insert into vr_t (id, name) values ('x', 'dup');
insert into vr_t (id, nosuch) values (1, 'dup');
insert into vr_t (id, fact) values (406, 'x');
-- params: 408, NULL
insert into vr_t (id, name) values ($1, $2) returning *;
select * from vr_log;
update vr_t set name = 'upd' where id = 400 returning *;
update vr_t set name = name || '+' where id between 400 and 407;
update vr_t t set name = p.t from vr_plain p where p.id = t.id - 400 and p.t is not null;
-- message varies
update vr_t set name = null where id in (400, 401);
update vr_t set fact = fact + 1 where id in (2, 3) returning id, fact;
update vr_t set name = default where id = 2;
update vr_t set fact = 'x' where id = 2;
update vr_t set nosuch = 1;
update vr_t set name = 'kept' where id = 4;
-- params: by param, 6
update vr_t set name = $1 where id = $2 returning name, id;
delete from vr_t where id in (400, 4) returning *;
delete from vr_t where fact > 1000 returning id;
delete from vr_t t using vr_plain p where p.id + 400 = t.id;
-- params: 403
delete from vr_t where id = $1;
begin;
insert into vr_t values (420, 'x');
savepoint s;
insert into vr_t values (420, 'x');
rollback to s;
update vr_t set name = 'y' where id = 420;
commit;
prepare vr_p (int, text) as update vr_t set name = $2 where id = $1 returning id, name;
execute vr_p (420, 'prepared');
execute vr_p (421, 'prepared');
execute vr_p (420, null);
deallocate vr_p;
select id, name, qty from vr;
create function vr_second() returns trigger language plpgsql as $$ begin new.name := new.name || ' 2nd'; if new.id < 0 then return null; end if; return new; end $$;
create trigger vr_a instead of insert on vr_t for each row execute function vr_second();
insert into vr_t values (430, 'x') returning *;
insert into vr_t values (-430, 'x') returning *;
alter function vr_second() security definer;
insert into vr_t values (431, 'x');
alter table vr_t disable trigger vr_a;
drop trigger vr_a on vr_t;
insert into vr_t values (432, 'x');
copy vr_t from stdin;
433	x	1
\.
with x as (insert into vr_t values (434, 'x') returning id) select * from x;
select id, name, qty from vr where id > 400;
