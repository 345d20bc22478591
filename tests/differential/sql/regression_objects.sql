-- Rules, views, triggers and materialized views in the spirit of PostgreSQL's regression tests.
--! include regression
--! modes simple
--! setup
create table rr_base (a int primary key, b text default 'unspecified', c int default 0);
create table rr_base2 (a int, d text, primary key (a, d));
create table rr_shoe (name text primary key, slcolor text, slunit text, slmin int, slmax int, avail int);
create table rr_unit (un text primary key, fact numeric);
create table rr_log (id bigserial primary key, what text, who int);
create table rr_hist (a int, n int, v text);
create function rr_trig() returns trigger language plpgsql as $$ begin
    if tg_op = 'DELETE' then raise notice '% % % old %', tg_name, tg_when, tg_op, old; return old; end if;
    if tg_op = 'UPDATE' then raise notice '% % % old % new %', tg_name, tg_when, tg_op, old, new; else raise notice '% % % new %', tg_name, tg_when, tg_op, new; end if;
    return new; end $$;
create function rr_stmt() returns trigger language plpgsql as $$ begin raise notice '% % % %', tg_name, tg_when, tg_op, tg_level; return null; end $$;
create function rr_skip() returns trigger language plpgsql as $$ begin if new.c < 0 then return null; end if; new.b := new.b || '/' || pg_trigger_depth() || tg_nargs || coalesce(tg_argv[0], '-'); return new; end $$;
create function rr_instead() returns trigger language plpgsql as $$ begin
    if tg_op = 'INSERT' then insert into rr_base (a, b) values (new.a, new.d); return new;
    elsif tg_op = 'UPDATE' then update rr_base set b = new.d where a = old.a; if not found then return null; end if; return new;
    else delete from rr_base where a = old.a; if not found then return null; end if; return old; end if; end $$;
--! distribute rr_base a colocate_with => 'none'
--! distribute rr_base2 a colocate_with => 'rr_base'
--! distribute rr_shoe name colocate_with => 'none'
--! reference rr_unit
--! distribute rr_log id colocate_with => 'none'
--! distribute rr_hist a colocate_with => 'rr_base'
--! reset
drop materialized view if exists rr_mv, rr_mv2 cascade;
drop view if exists rr_v1, rr_v2, rr_v3, rr_v4, rr_v5, rr_v6, rr_v7, rr_v8, rr_v9, rr_vj, rr_vi, rr_shoev, rr_ro, rr_lvl1, rr_lvl2 cascade;
drop trigger if exists rr_t_before on rr_base;
drop trigger if exists rr_t_after on rr_base;
drop trigger if exists rr_t_stmt on rr_base;
delete from rr_base;
delete from rr_base2;
delete from rr_shoe;
delete from rr_unit;
delete from rr_log;
delete from rr_hist;
alter sequence rr_log_id_seq restart;
insert into rr_base select i, 'Row ' || i, i % 3 from generate_series(-2, 8) i;
insert into rr_base2 values (1, 'one'), (1, 'uno'), (3, 'three'), (20, 'none');
insert into rr_unit values ('cm', 1.0), ('m', 100.0), ('inch', 2.54);
insert into rr_shoe values ('sh1', 'black', 'cm', 70, 90, 2), ('sh2', 'black', 'inch', 30, 40, 0), ('sh3', 'brown', 'cm', 50, 65, 4), ('sh4', 'brown', 'inch', 40, 50, 3);
--! teardown
drop materialized view if exists rr_mv, rr_mv2 cascade;
drop view if exists rr_v1, rr_v2, rr_v3, rr_v4, rr_v5, rr_v6, rr_v7, rr_v8, rr_v9, rr_vj, rr_vi, rr_shoev, rr_ro, rr_lvl1, rr_lvl2 cascade;
drop table if exists rr_base, rr_base2, rr_shoe, rr_unit, rr_log, rr_hist, rr_rul cascade;
drop function if exists rr_trig, rr_stmt, rr_skip, rr_instead cascade;
--! tests
-- updatable_views
create view rr_v1 as select a, b from rr_base where a > 0;
insert into rr_v1 values (9, 'Row 9'), (10, default) returning *;
insert into rr_v1 (a) values (-5);
update rr_v1 set b = b || ' v' where a in (1, -1) returning *;
update rr_v1 set b = default where a = 2 returning a, b;
delete from rr_v1 where a < 1;
select a, b, c from rr_base where a < 3 or a > 8;
create view rr_v2 (bb, sum, aa) as select upper(b), a + c, a from rr_v1;
update rr_v2 set aa = aa where aa = 3 returning *;
update rr_v2 set bb = 'X';
insert into rr_v2 (aa) values (11) returning sum, aa;
select table_name, column_name, is_updatable from information_schema.columns where table_name in ('rr_v1', 'rr_v2') order by 1, ordinal_position;
select table_name, is_insertable_into, is_updatable from information_schema.views where table_name like 'rr_v_' order by 1;
create view rr_v3 as select * from rr_v1 where a < 8 with check option;
insert into rr_v3 values (12, 'no');
update rr_v3 set a = 100 where a = 4;
insert into rr_v3 values (-12, 'no');
insert into rr_v3 values (7, 'dup') on conflict (a) do update set b = excluded.b returning *;
create view rr_v4 as select * from rr_v1 where a < 8 with local check option;
insert into rr_v4 values (-13, 'passes local');
update rr_v4 set b = 'upd' from rr_base2 x where x.a = rr_v4.a and x.d like 't%' returning rr_v4.*, x.d;
delete from rr_v4 using rr_base2 x where x.a = rr_v4.a and x.d = 'three' returning x.*;
create view rr_v5 as select b.a, b.b, x.d from rr_base b join rr_base2 x using (a);
update rr_v5 set b = 'x';
create view rr_v6 as select distinct a from rr_base;
delete from rr_v6;
create view rr_v7 as select a, row_number() over (order by a) from rr_base;
insert into rr_v7 (a) values (1);
create view rr_v8 with (security_barrier) as select a, b from rr_base where c = 1;
select a from rr_v8 where b like 'Row %';
update rr_v8 set b = 'barrier' where a = 7 returning *;
insert into rr_v1 select a + 30, d from rr_base2 where a < 4 on conflict (a) do nothing returning a;
with w as (delete from rr_v1 where a > 30 returning a, b) select count(*), max(b) from w;
merge into rr_v1 v using (values (5, 'five'), (40, 'forty')) s (k, t) on v.a = s.k when matched then update set b = s.t when not matched then insert values (s.k, s.t) returning merge_action(), v.*;
truncate rr_v1;
drop view rr_v1;
create or replace view rr_v1 as select a, b, c from rr_base where a > 0;
create or replace view rr_v1 as select a, c from rr_base;
alter view rr_v1 alter column b set default 'view default';
insert into rr_v1 (a) values (50) returning a, b;
alter view rr_v1 rename column c to cc;
select cc, count(*) from rr_v1 group by cc order by cc;
alter view rr_v3 rename to rr_v9;
select count(*) from rr_v9;
drop view rr_v9, rr_v4, rr_v5, rr_v6, rr_v7, rr_v8;
-- create_view
create view rr_vj (x, y, z) as select t.u1, j.t, e.depname from rr_ten t left join rr_j1 j on j.i = t.ten left join rr_emp e on e.empno = t.four where t.u1 < 30;
select x, y, z from rr_vj where z is not null;
select z, count(*) from rr_vj group by rollup (z);
select pg_get_viewdef('rr_vj'::regclass, true);
select count(*) from rr_vj v join rr_vj w on v.x = w.x + 1;
create view rr_lvl1 as with t as (select depname, sum(salary) s from rr_emp group by 1) select t.*, d.floor from t join rr_dept d using (depname);
create view rr_lvl2 as select floor, s, rank() over (order by s desc) from rr_lvl1;
select * from rr_lvl2 where rank < 3;
select l.*, (select count(*) from rr_lvl1 x where x.s >= l.s) from rr_lvl1 l;
create or replace view rr_lvl1 as select depname, 1 as s, floor from rr_dept;
create or replace view rr_lvl1 as select depname, 1::bigint::numeric as s, floor, boss from rr_dept;
select s, count(*) from rr_lvl2 group by s;
drop view rr_lvl1;
drop view rr_lvl1 cascade;
create view rr_vi as select i, k from rr_j2 union all select f1, null from rr_int4 except select 5, -5;
select i, count(*) from rr_vi where i < 10 group by i;
create view rr_vi as select 1;
create view rr_bad as select a, a from rr_base;
create view rr_bad as select * from rr_nosuch;
create view rr_bad (a, b, c, d) as select 1, 2;
select * from rr_vj where nosuch = 1;
create recursive view rr_v4 (id, depth) as select id, 1 from rr_tree where parent is null union all select t.id, depth + 1 from rr_tree t join rr_v4 v on t.parent = v.id;
select depth, count(*) from rr_v4 group by depth;
create view rr_v5 as values (1, 'a'), (2, (select max(name) from rr_ten));
select * from rr_v5 as s (n, t);
create view rr_v6 as select case when exists (select from rr_j2 where i = j.i) then 'y' else 'n' end as has, j.* from rr_j1 j;
select has, count(*), min(t) from rr_v6 group by has having count(*) > 1;
create view rr_v7 as select distinct on (two) two, u1, name from rr_ten order by two, u1 desc limit 2;
select * from rr_v7;
create view rr_v8 as select d.depname, x.* from rr_dept d, lateral (select empno, salary from rr_emp e where e.depname = d.depname order by salary desc, empno limit 2) x;
select * from rr_v8 where salary > 4000;
drop view rr_v4, rr_v5, rr_v6, rr_v7, rr_v8, rr_vi, rr_vj;
-- rules
create view rr_shoev as select s.name, s.slcolor, s.slmin * u.fact as mincm, s.avail from rr_shoe s, rr_unit u where s.slunit = u.un;
select * from rr_shoev where mincm > 75;
create rule rr_ins as on insert to rr_shoev do instead insert into rr_shoe values (new.name, new.slcolor, 'cm', new.mincm, new.mincm + 10, new.avail);
insert into rr_shoev values ('sh9', 'red', 44, 1);
select * from rr_shoe where name = 'sh9';
create rule rr_upd as on update to rr_shoev where old.avail <> new.avail do instead update rr_shoe set avail = new.avail where name = old.name;
create rule rr_updn as on update to rr_shoev do instead nothing;
update rr_shoev set avail = avail + 10 where slcolor = 'brown';
select name, avail from rr_shoe;
create rule rr_del as on delete to rr_shoev do instead delete from rr_shoe where name = old.name returning name, slcolor, 0::numeric, avail;
delete from rr_shoev where name = 'sh9' returning name, avail;
drop view rr_shoev;
create table rr_rul (a int primary key, b text);
create rule rr_r1 as on insert to rr_rul do also insert into rr_loc values (new.a + 1000, new.a, new.b);
insert into rr_rul values (1, 'x'), (2, 'y');
select id, t from rr_loc where id > 1000;
create rule rr_r2 as on delete to rr_rul do instead nothing;
delete from rr_rul;
drop rule rr_r2 on rr_rul;
delete from rr_rul;
delete from rr_loc where id > 1000;
drop table rr_rul;
create rule rr_r3 as on insert to rr_base do also insert into rr_base2 values (new.a, 'rule');
insert into rr_base values (60, 'with rule');
select * from rr_base2 where a = 60;
drop rule if exists rr_r3 on rr_base;
create rule rr_r4 as on select to rr_base do instead select 1;
-- triggers
create trigger rr_t_before before insert or update or delete on rr_base for each row execute function rr_trig();
insert into rr_base values (70, 'seventy', 1);
update rr_base set c = c + 1 where a = 70;
delete from rr_base where a = 70;
create or replace trigger rr_t_before before insert or update of b on rr_base for each row when (new.a > 0) execute function rr_skip('arg', 2);
insert into rr_base values (71, 'x', 1), (72, 'y', -1), (-73, 'z', -1) returning a, b;
update rr_base set c = 5 where a = 71 returning b;
update rr_base set b = 'changed' where a in (71, -73) returning a, b;
insert into rr_base values (71, 'again', 2) on conflict (a) do update set b = excluded.b returning a, b;
insert into rr_base values (71, 'gone', -2) on conflict (a) do update set b = excluded.b returning a, b;
copy rr_base (a, b) from stdin;
80	copied
81	copied
\.
select a, b from rr_base where a > 75;
alter table rr_base disable trigger rr_t_before;
insert into rr_base values (82, 'plain', -1) returning b;
alter table rr_base enable trigger rr_t_before;
create trigger rr_t_after after update on rr_base for each row when (old.* is distinct from new.*) execute function rr_trig();
update rr_base set c = c where a = 82;
update rr_base set c = 77 where a = 82;
drop trigger rr_t_after on rr_base;
create constraint trigger rr_t_after after insert on rr_base deferrable initially deferred for each row execute function rr_trig();
begin;
insert into rr_base values (83, 'later');
select 'before commit' as t;
commit;
begin;
insert into rr_base values (84, 'now');
set constraints rr_t_after immediate;
rollback;
drop trigger rr_t_after on rr_base;
drop trigger rr_t_nosuch on rr_base;
create trigger rr_t_bad before insert on rr_base for each row execute function rr_nosuch();
create trigger rr_t_bad instead of insert on rr_base for each row execute function rr_trig();
create trigger rr_t_bad before update of nosuch on rr_base execute function rr_trig();
-- notices vary
create trigger rr_t_stmt after delete on rr_base for each statement execute function rr_stmt();
-- notices vary
delete from rr_base where a = 83;
drop trigger rr_t_stmt on rr_base;
create view rr_vi as select b.a, x.d from rr_base b left join rr_base2 x on x.a = b.a;
create trigger rr_vi_t instead of insert or update or delete on rr_vi for each row execute function rr_instead();
insert into rr_vi values (90, 'via view') returning *;
update rr_vi set d = 'upd' where a = 90 returning *;
delete from rr_vi where a = 90 returning *;
select count(*) from rr_base where a = 90;
drop view rr_vi;
create function rr_audit() returns trigger language plpgsql as $$ begin insert into rr_hist values (coalesce(new.a, old.a), (select count(*) from rr_hist h where h.a = coalesce(new.a, old.a)), tg_op); return null; end $$;
create trigger rr_t_after after insert or update or delete on rr_base for each row execute function rr_audit();
insert into rr_base values (91, 'audited');
update rr_base set c = 3 where a = 91;
delete from rr_base where a in (91, 1);
select * from rr_hist;
drop function rr_audit() cascade;
select tgname, tgenabled, tgtype from pg_trigger where tgrelid = 'rr_base'::regclass and not tgisinternal order by 1;
-- matview
create materialized view rr_mv as select four, sum(u1) as total, count(*) n from rr_ten group by four order by four;
select * from rr_mv;
create unique index rr_mv_i on rr_mv (four);
update rr_ten set u2 = u2 + 1000 where u1 = 3;
create materialized view rr_mv2 as select m.four, t.u2 from rr_mv m join rr_ten t on t.u1 = m.four where m.total > 0 with no data;
select * from rr_mv2;
refresh materialized view rr_mv2;
select * from rr_mv2;
update rr_ten set u2 = u2 - 1000 where u1 = 3;
refresh materialized view concurrently rr_mv;
refresh materialized view concurrently rr_mv2;
refresh materialized view rr_mv2;
select max(u2) from rr_mv2;
select t.u1, m.total from rr_ten t join rr_mv m using (four) where t.u1 < 5;
insert into rr_mv values (1, 2, 3);
select matviewname, ispopulated from pg_matviews where matviewname like 'rr%' order by 1;
drop materialized view rr_mv;
drop materialized view rr_mv cascade;
begin;
create materialized view rr_mv as select depname, max(salary) from rr_emp group by 1;
delete from rr_emp where salary > 5100;
refresh materialized view rr_mv;
select * from rr_mv;
rollback;
select * from rr_mv;
