-- UPDATE that gives the distribution key what its condition says it is: no row moves, whatever hangs on the table.
--! setup
create table kk (k int not null, id int, v text, primary key (k, id));
create table kk_line (k int, id int, n int, primary key (k, id, n));
create table kk_other (k int primary key, big bigint, w text);
create table kk_text (name varchar(5) primary key, v int);
create table kk_two (a int, b int, v text, primary key (a, b));
create function kk_note() returns trigger language plpgsql as $$ begin new.v := coalesce(new.v, '') || '!' || tg_op; return new; end $$;
create trigger kk_note before insert or update on kk for each row execute function kk_note();
create view kk_some as select k, id, v from kk where id < 100;
create view kk_half as select k, v from kk;
--! distribute kk k
--! distribute kk_line k
--! distribute kk_other k
--! distribute kk_text name
--! distribute kk_two a
--! reset
delete from kk_line;
delete from kk;
delete from kk_other;
delete from kk_text;
delete from kk_two;
insert into kk select g % 4, g, 'v' || g from generate_series(1, 12) g;
insert into kk_other select g, g, 'o' || g from generate_series(0, 4) g;
insert into kk_text values ('a', 1), ('b', 2), ('a b', 3);
insert into kk_two select g % 3, g % 5, 'v' || g from generate_series(1, 15) g;
alter table kk_line drop constraint if exists kk_line_fk;
insert into kk_line select g % 4, g, 1 from generate_series(1, 12) g;
alter table kk_line add constraint kk_line_fk foreign key (k, id) references kk on update cascade;
--! teardown
drop view if exists kk_some, kk_half;
drop table if exists kk, kk_line, kk_other, kk_text, kk_two;
drop function if exists kk_note;
--! tests
update kk set k = 2, v = 'new' where k = 2 and id = 6 returning *;
update kk set k = 2, v = 'new' where k = 2;
update kk set (k, v) = (2, 'row') where k = 2 and id > 2 returning *;
update kk set (k, v) = row(2, 'row') where 2 = k and id > 2 returning *;
update kk t set v = 'o' || o.w, k = o.k from kk_other o where o.k = t.k and t.id < 9 returning t.*, o.*;
update kk t set k = o.k from kk_other o where o.k = t.k and o.k = 3 returning t.*, o.w;
update kk t set k = o.k from kk_other o where o.k = 3 and t.k = 3 returning t.*, o.w;
-- params: 3, 7, param
update kk set k = $1, v = $3 where k = $1 and id = $2 returning *;
-- params: 3, 7, param
update kk set (k, id, v) = ($1, $2, $3) where k = $1 and id = $2 returning *;
-- params: 3, 7, param
update kk set k = $1::int, v = $3 where k = $1::int and id = $2 returning *;
select * from kk;
select * from kk_line;
update kk_some set k = 1, v = 'view' where k = 1 returning *;
update kk_half set k = 1, v = 'half' where k = 1;
update kk_some t set k = o.k from kk_other o where o.k = t.k returning *;
select * from kk;
update kk set k = 1 where k = null returning *;
update kk set k = 1 where k = 1 and false returning *;
with u as (update kk set k = 1, v = 'with' where k = 1 returning *) select * from u;
prepare kk_p (int, int) as update kk set k = $1, v = 'prepared' where k = $1 and id = $2 returning *;
execute kk_p (1, 5);
execute kk_p (2, 6);
deallocate kk_p;
-- Text with blanks, lengths, other types of the same number.
update kk_text set name = 'a', v = v + 1 where name = 'a' returning *;
update kk_text set name = 'a b', v = v + 1 where name = 'a b' returning *;
update kk_text set name = 'a b      ', v = v + 1 where name = 'a b      ' returning *;
update kk_text set name = 'much too long' where name = 'much too long' returning *;
update kk_other set k = big, w = w || '!' where k = big returning *;
update kk_other set k = 2.4 where k = 2.4 returning *;
update kk_other set k = 2.0 where k = 2.0 returning *;
update kk_other set k = '2', w = 'text' where k = '2' returning *;
-- What only looks alike: keys change, or stay by chance.
update kk_other set k = 5 where k = 4 returning *;
update kk_other set k = 6 where k = 5 returning *;
update kk_other set k = 6, w = 'six' where k = 6 returning *;
update kk_other set k = 4 where k = 6 returning *;
update kk_other set k = 4, w = 'or' where k = 4 or w = 'none' returning *;
update kk_other set k = 4, w = 'in' where k in (4) returning *;
update kk_text set name = 'c' where name = 'b' returning *;
update kk_text set name = 'c' where name = 'c' returning *;
-- The first of two columns is the key.
update kk_two set a = 1, b = 7 where a = 1 and b = 2 returning *;
update kk_two set a = 1, b = b + 20 where a = 1 returning *;
update kk_two set a = 2 where a = 1 and b = 7 returning *;
update kk_two t set a = t.b, b = t.a where a = b returning *;
begin;
update kk set k = 0, v = 'block' where k = 0 returning *;
savepoint s;
update kk set k = 0, v = 'more' where k = 0 returning *;
rollback to s;
update kk_line set k = 0, n = 5 where k = 0 returning *;
update kk_line set k = 0, id = 1000 where k = 0 returning *;
rollback;
select * from kk;
-- What keys are set to is known of rows alone: as programs write all columns of a row that they find by its id.
update kk set k = 2, v = 'by id' where id = 6 returning *;
update kk set k = 2, v = 'by id' where id in (2, 6, 10) returning *;
update kk set k = id % 4, v = 'all';
update kk t set k = id - id + t.k, v = null where id > 8 returning *;
update kk t set k = o.k, v = o.w from kk_other o where o.k = t.id % 4 and t.id < 5 returning t.id, t.v, o.w;
update kk_some set k = 3, v = 'by id' where id = 7 returning *;
update kk_half set k = 3 where v like 'by%';
update kk_line set k = 3, n = n + 1 where id = 7 returning *;
update kk set k = 77, v = 'none' where id = -1 returning *;
update kk set k = 77, v = 'none' where false;
-- params: 2, 6, param
update kk set k = $1, v = $3 where id = $2 returning *;
update kk set k = k + 1 where id = 6;
update kk set k = 3 where id in (2, 7);
update kk set k = null where id = 6;
update kk_half set k = 2 where k > 2;
update kk set k = 'x' where id = 6;
update kk set k = k / 0 where id = 6;
begin;
update kk set k = 2, v = 'block' where id = 6 returning *;
savepoint s;
update kk set k = 2, id = id / 0 where id = 6 returning *;
rollback to s;
select * from kk where id = 6;
rollback;
select * from kk;
update kk set k = 2, v = (select w from kk_other o where o.k = kk.k) where id = 6 returning *;
update kk_other set k = 2, w = w || '?' where w like 'text%' returning k, (select count(*) from kk_other x where x.k = kk_other.k);
-- MERGE that sets all columns of rows that match by the key.
merge into kk_two t using kk_other o on t.a = o.k and t.b = 1 when matched then update set a = o.k, v = o.w when not matched then insert (a, b, v) values (o.k, 1, 'new');
merge into kk_two t using (values (1, 1, 'm'), (77, 7, 'n')) as s(a, b, v) on t.a = s.a and t.b = s.b when matched then update set a = s.a, b = s.b, v = s.v when not matched then insert values (s.a, s.b, s.v);
merge into kk_two t using kk_other o on t.b = o.big when matched then update set a = t.a, v = 'self';
merge into kk_two t using kk_other o on t.a = o.k when matched and o.k = 1 then delete when matched then update set (a, v) = (o.k, 'row');
merge into kk t using kk_other o on t.k = o.k and t.id = 5 when matched then update set k = o.k, v = 'merged';
merge into kk_two t using kk_other o on t.b = o.big when matched then update set a = o.k + 1;
merge into kk_two t using kk_other o on t.a = 2 and o.k = 2 when matched then update set a = 2, v = 'literal';
select * from kk_two;
select * from kk;
