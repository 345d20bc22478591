-- Functions in FROM that read tables of several nodes, beside anything else: called first, their rows are read in their places.
--! setup
create table ff_t (id int primary key, k int, note text);
create table ff_u (n int primary key, at timestamptz);
create table ff_log (x int);
--! distribute ff_t id
--! distribute ff_u n
create function ff_rows(int) returns setof ff_t language sql as 'select * from ff_t where k = $1 order by id';
create function ff_ids(of int) returns setof int language plpgsql as 'begin return query select id from ff_t where k = of order by id; end';
create function ff_one(int) returns ff_t language sql as 'select * from ff_t where id = $1 limit 1';
create function ff_count(int) returns bigint language plpgsql as 'declare c bigint; begin select count(*) into c from ff_t where k = $1; return c; end';
create function ff_table(lowest int) returns table (id int, label text, at timestamptz) language plpgsql as 'begin return query select t.id, t.note, u.at from ff_t t left join ff_u u on u.n = t.k where t.id >= lowest order by t.id; end';
create function ff_stable(int) returns setof int language plpgsql stable as 'begin return query select n from ff_u where n < $1; end';
create function ff_writes(int) returns setof int language plpgsql as 'begin insert into ff_u values ($1); return query select n from ff_u; end';
create function ff_fails(int) returns setof int language plpgsql as 'begin return query select 1 / (id - id) from ff_t where id = $1; end';
--! reset
delete from ff_t;
delete from ff_u;
delete from ff_log;
insert into ff_t select i, i % 4, case when i % 7 = 0 then null else 'it''s "' || i || '" \ ' end from generate_series(1, 40) i;
insert into ff_u select i, timestamptz '2026-01-01 00:00+00' + i * interval '1 day' from generate_series(0, 9) i;
--! teardown
drop table if exists ff_t, ff_u, ff_log cascade;
drop function if exists ff_ids, ff_count, ff_table, ff_stable, ff_writes, ff_fails, ff_rows, ff_one;
--! tests
-- ordered
select * from ff_rows(1) with ordinality as z(a, b, c, ord);
-- ordered
select * from ff_rows(1) with ordinality as z(a, b, c, ord) where b = 1 and a > 10 order by ord desc;
select * from ff_rows(2) r where r.note is null;
select count(*), max(note) from ff_rows(2);
select r.id, t.note from ff_rows(3) r join ff_t t on t.id = r.id + 1;
select r.id, u.at from ff_ids(1) as r(id) left join ff_u u on u.n = r.id;
select x, y from ff_ids(1) x, ff_ids(2) y where x + 1 = y;
select * from ff_ids(0) where ff_ids > 20;
select * from rows from (ff_ids(1), ff_ids(2), generate_series(1, 3)) with ordinality as z(a, b, c, o);
select * from rows from (ff_rows(1), ff_count(2)) as z limit 0;
select * from ff_one(5) o, ff_u u where u.n = o.k;
select * from ff_one(999) o;
select * from ff_count(1) c, ff_count(2) d;
select ff_count + 1 as more from ff_count(1);
select l.label, count(*), min(l.at) from ff_table(20) l group by l.label having count(*) > 0;
select t.id from ff_t t where t.id in (select id from ff_table(35));
select t.id, (select max(x) from ff_ids(2) x) from ff_t t where t.id < 4;
with f as (select * from ff_table(38)) select f.id, t.k from f join ff_t t using (id);
select id from ff_ids(1) as f(id) union select n from ff_u where n > 7 order by 1;
select * from (values (1), (2)) v(n) join ff_ids(1) with ordinality as z(a, ord) on n = ord;
select t.id, x from ff_t t left join ff_ids(3) x on x = t.id where t.id < 9;
select distinct on (k) k, id from ff_rows(1) order by k, id desc;
select id, row_number() over (order by id desc) from ff_rows(2);
select * from ff_ids(-1) x, ff_t t;
-- params: 2
select count(*) from ff_ids($1::int) x, ff_u u where u.n = x;
-- params: 1, 30
select x from ff_ids($1::int) x where x > $2::int;
begin;
insert into ff_t values (41, 1, 'new');
select max(x), count(*) from ff_ids(1) x, ff_u u;
savepoint a;
select * from ff_fails(3) x, ff_u u;
rollback to a;
select count(*) from ff_ids(1) x;
rollback;
begin isolation level repeatable read;
select count(*) from ff_stable(5) s, ff_ids(1) x;
commit;
select count(*) from ff_stable(5) s, ff_u u where u.n = s;
select t.id, f.x from ff_t t, lateral ff_ids(t.k) f(x) where t.id = 1;
select r from ff_rows(1) r where r.id < 9;
select x.* from ff_ids(1) x where exists (select from ff_ids(2) y where y = x + 1) order by 1 limit 2;
insert into ff_log select x from ff_ids(1) x where x < 20;
select * from ff_log;
insert into ff_u select x + 1000 from ff_ids(2) x, ff_count(1) c where x < c * 2 returning n;
-- params: 3
insert into ff_t (id, k) select x + 100, $1::int from ff_ids($1::int) x on conflict (id) do nothing;
update ff_t set note = 'seen ' || x from ff_ids(1) x where ff_t.id = x + 1 and x < 20 returning id, note;
delete from ff_t using ff_rows(3) r where r.id = ff_t.id and r.id > 30;
select count(*), max(id), sum(k) from ff_t;
select * from ff_writes(77) w, ff_u u where u.n = w;
