-- ON CONFLICT with subqueries over tables of several nodes, which are read before.
--! setup
create table ur (id int primary key, n int, t text, at timestamptz default '2020-01-01');
create table ur_o (o int primary key, n int, t text);
create table ur_l (id int, t text);
create table ur_ref (id int primary key, n int);
create table ur_copy (id int primary key, n int);
create table ur_seq (id int primary key, n int, s serial);
create domain ur_d as int check (value < 1000);
create table ur_dom (k int primary key, d ur_d, c text collate "C");
--! distribute ur id
--! distribute ur_o o colocate_with => 'none'
--! distribute ur_seq id
--! distribute ur_dom k
--! reference ur_ref
--! reference ur_copy
--! reset
truncate ur, ur_o, ur_l, ur_ref, ur_copy, ur_seq, ur_dom restart identity;
insert into ur (id, n, t) values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, null, null);
insert into ur_o select i, i * 100, 'o' || i from generate_series(1, 8) i;
insert into ur_l values (1, 'l1'), (2, 'l2');
insert into ur_ref values (1, 1000), (2, 2000);
insert into ur_copy values (1, 1), (2, 2);
insert into ur_seq (id, n) values (1, 1), (2, 2);
insert into ur_dom values (1, 1, 'a'), (2, 999, 'B');
--! teardown
drop table if exists ur, ur_o, ur_l, ur_ref, ur_copy, ur_seq, ur_dom;
drop domain if exists ur_d;
--! tests
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select max(n) from ur_o);
insert into ur (id, n) values (1, 1), (3, 3), (9, 9) on conflict (id) do update set n = (select max(n) from ur_o) + excluded.n returning id, n, t;
insert into ur (id, t) values (1, 'Baz'), (5, 'Zaz') on conflict (id) do update set (t, id) = (select t || ', Correlated', id from ur i where i.id = ur.id) returning id, t;
insert into ur (id, t) values (1, 'Bat'), (6, 'Zot') on conflict (id) do update set (t, id) = (select t || ', Excluded', id from ur i where i.id = excluded.id) returning id, t;
insert into ur (id, n) values (1, 1), (2, 2) on conflict (id) do update set (n, t) = (select n, t from ur_o where o = ur.id + excluded.n) where exists (select from ur_o o where o.o = ur.id) returning id, n, t;
insert into ur (id, n) values (1, 1), (2, 2) on conflict (id) do update set (n, t) = (select n, t from ur_o where o = ur.id + excluded.n) where (select count(*) from ur_o where t <> ur.t) > 100;
insert into ur as x (id, n) values (1, 7), (2, 8) on conflict (id) do update set n = (select sum(o.n) from ur_o o where o.o <= x.id), t = (select o.t from ur_o o where o.o = excluded.n) returning *;
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select n from ur_o);
insert into ur (id, n) values (1, 1), (2, 1) on conflict (id) do update set n = (select n from ur_o where o > ur.id);
insert into ur (id, n) values (10, 1), (12, 1) on conflict (id) do update set n = (select n from ur_o);
insert into ur (id, n) values (1, 1), (2, 1) on conflict (id) do update set n = case when excluded.id in (select o from ur_o where n > 100) then -1 else -2 end returning id, n;
insert into ur (id, n) values (1, 1), (2, 1) on conflict (id) do update set t = (select l.t from ur_l l where l.id = ur.id) returning id, t;
insert into ur (id, n) values (1, 1), (2, 1) on conflict (id) do update set t = (select string_agg(l.t, ',' order by l.t) from ur_l l) returning id, t;
insert into ur (id, n) values (1, 1), (2, 1) on conflict (id) do update set n = (select r.n from ur_ref r where r.id = ur.id) returning id, n;
insert into ur (id, n) values (1, 1), (2, 1) on conflict (id) do update set n = (select r.n + o.n from ur_ref r, ur_o o where r.id = ur.id and o.o = r.id) returning id, n;
insert into ur (id, n) select o, n from ur_o on conflict (id) do update set n = excluded.n + (select count(*) from ur) returning id, n;
insert into ur (id, n) select id + 1, n from ur on conflict (id) do update set n = (select max(n) from ur x where x.id < ur.id) returning id, n;
select id, n, t from ur;
with w as (select 1 as k, ' Foo' as v) insert into ur (id, t) values (1, 'Bar'), (2, 'Baz') on conflict (id) do update set (t, id) = (select ur.t || v, ur.id from w) returning id, t;
with w as (select 1 as k, ' Foo' as v) insert into ur (id, t) select k, v from w on conflict (id) do update set t = (select v from w where k = 1) returning id, t;
with w as (select o, t from ur_o) insert into ur (id, t) select o, t from w where o < 3 on conflict (id) do update set t = (select max(t) from w) returning id, t;
with w as (select o, t from ur_o) insert into ur (id, t) values (1, 'q') on conflict (id) do update set t = (select max(t) || excluded.t from w) returning id, t;
with w as (select o, t from ur_o) insert into ur (id, t) values (1, 'q') on conflict (id) do update set t = (select max(t) from w) || excluded.t returning id, t;
with u as (update ur_o set n = n + 1 where o < 3 returning o, n) insert into ur (id, n) values (1, 1), (2, 2) on conflict (id) do update set n = (select sum(n) from ur_o) returning id, n;
select * from ur_o where o < 3;
with i as (insert into ur (id, n) values (1, 1), (2, 2) on conflict (id) do update set n = (select sum(n) from ur_o) returning id, n) select * from i;
-- params: 1, 5, o3
insert into ur (id, n) values ($1, $2) on conflict (id) do update set n = (select n + $2 from ur_o where t = $3), t = $3 returning id, n, t;
-- params: 1, 5
insert into ur (id, n) values ($1, $2), ($1 + 1, $2) on conflict (id) do update set n = (select n + $2 from ur_o where o = ur.id) returning id, n;
prepare ur_p (int, text) as insert into ur (id, t) values ($1, $2) on conflict (id) do update set t = (select o.t || $2 from ur_o o where o.o = ur.id) returning id, t;
execute ur_p (1, 'x');
execute ur_p (20, 'x');
execute ur_p (2, 'y');
deallocate ur_p;
begin;
insert into ur_o values (99, 9900, 'late');
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select max(n) from ur_o) returning n;
insert into ur (id, n) values (1, 1), (1, 2) on conflict (id) do update set n = (select max(n) from ur_o) returning n;
rollback;
insert into ur (id, n) values (1, 1) on conflict (id) do update set at = now(), n = (select count(*) from ur_o where now() > '2020-01-01') returning n, at = now();
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select x from ur_o);
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select t from ur_o limit 1);
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select n from ur_nowhere);
insert into ur (id, n) values (1, 1) on conflict (n) do update set n = (select max(n) from ur_o);
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select count(*) from ur_o v where v.o > (select x.o from ur_o x where x.o = ur.id)) returning n;
insert into ur (id, n) values (1, 1) on conflict (id) do update set n = (select o.n from ur_o o where o.o = ur.id group by o.o) returning id, n;
insert into ur_copy values (1, 1), (2, 2) on conflict (id) do update set n = (select max(n) from ur_o) returning *;
insert into ur_copy values (1, 1), (2, 2), (3, 3) on conflict (id) do update set n = (select o.n from ur_o o where o.o = ur_copy.id + 1) returning *;
select * from ur_copy;
insert into ur_seq (id, n) values (1, 1), (2, 2), (3, 3) on conflict (id) do update set n = (select max(n) from ur_o) + excluded.s returning *;
insert into ur_dom values (1, 5, 'x'), (2, 6, 'y') on conflict (k) do update set d = (select max(d) from ur_dom), c = (select max(x.c) from ur_dom x where x.k <= excluded.k) returning *;
insert into ur_dom values (1, 5, 'x') on conflict (k) do update set d = (select max(d) + 1 from ur_dom);
insert into ur_dom values (1, 5, 'x') on conflict (k) do update set c = (select min(x.c) from ur_dom x where x.c < ur_dom.c or ur_dom.k = 1) returning c;
insert into ur_l values (1, 'x') on conflict do nothing;
-- A key that is set to itself.
insert into ur (id, n) values (1, 1) on conflict (id) do update set id = excluded.id, n = 5 returning id, n;
insert into ur (id, n) values (1, 1), (2, 2) on conflict (id) do update set id = ur.id, n = 6 returning id, n;
select id, n, t from ur;
