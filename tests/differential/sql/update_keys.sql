-- UPDATE that changes the distribution key, with all that SET can say besides: several columns at once, DEFAULT, parts of values.
--! setup
create domain uk_small as int default 7 check (value < 1000000);
create table uk (a int default 10, b int, c text default 'none', v varchar(4), s uk_small, g int generated always as (b * 2) stored);
create table uk_from (i int primary key, j int, w text);
create table uk_ref (code int primary key, f int);
create table uk_local (id int primary key, t text);
create table uk_types (k bigint, f float8, n numeric(6, 2), at timestamptz, r int4range, l text[], j jsonb, p char(5), fl bool);
create table uk_parts (k int, l int[], d jsonb);
create table uk_seq (k int, id bigserial);
--! distribute uk a
--! distribute uk_from i
--! distribute uk_types k
--! distribute uk_parts k
--! distribute uk_seq k
--! reference uk_ref
--! reset
truncate uk, uk_from, uk_ref, uk_local, uk_types, uk_parts, uk_seq;
insert into uk (a, b, c, v, s) values (5, 10, 'foo', 'x', 1), (5, 11, 'foo', null, 2), (100, 20, null, 'y', 3), (100, 21, 'q', 'z', null), (null, 1, 'n', 'n', 4);
insert into uk_from values (1, 5, 'one'), (2, 100, 'two'), (3, 100, 'three'), (10, 77, 'ten');
insert into uk_ref values (10, 1000), (20, 2000);
insert into uk_local values (10, 'l10'), (20, 'l20');
insert into uk_types select g, g / 7.0, g * 1.1, '2020-01-01 00:00:00+00'::timestamptz + g * interval '1 hour', int4range(g, g + 5), array['a', g::text, null], jsonb_build_object('g', g), 'x' || g, g % 2 = 0 from generate_series(1, 8) g;
insert into uk_parts values (1, '{1,2,3}', '{"a": 1}'), (2, null, null);
insert into uk_seq (k) values (1), (2);
--! teardown
drop table if exists uk, uk_from, uk_ref, uk_local, uk_types, uk_parts, uk_seq;
drop domain if exists uk_small;
--! tests
update uk set a = default, b = default;
select * from uk;
update uk set (c, b, a) = ('bugle', b + 11, default) where c = 'foo';
select * from uk;
update uk set (c, b) = ('car', a + b), a = a + 1 where a = 10 returning *;
update uk set (c, b) = ('car', a + b), a = a + 1, c = null where a = 10;
update uk set (b, a) = (select a, b from uk where b = 20) where a = 5 and b = 10 returning a, b, c;
update uk o set (b, a) = (select a + 1, b from uk i where i.a = o.a and i.b = o.b and i.c is not distinct from o.c);
select * from uk;
update uk set (b, a) = (select a + 1, b from uk);
update uk set (b, a) = (select a + 1, b from uk where a = 1000) where a = 5;
select * from uk;
update uk set (a, b) = row(v.*) from (values (100, 1000)) as v(i, j) where uk.a = v.i;
-- plain refuses
update uk set (a, b) = (v.*) from (values (5, 1000)) as v(i, j) where uk.a = v.i;
update uk set (a, b) = row(v.*, 1) from (values (5, 1000)) as v(i, j) where uk.a = v.i;
update uk set (a, b, c) = row(v.*, 'unknown') from (values (5, 1000)) as v(i, j) where uk.a = v.i;
update uk set (a, b) = row(1, 2, 3);
update uk set (a, b) = row(1);
update uk set (a, b) = (select 1);
-- plain refuses
update uk set (a, b) = 1;
update uk set (a, b) = (1, 'x');
update uk set (a, b) = (select 1, 'x');
update uk set (a, b) = ('1', '2') where a = 5;
update uk set (a, a) = (1, 2);
update uk set (a, g) = (1, 2);
update uk set (a, g) = (1, default) where a = 100;
update uk set (a, g) = (select 1, 2);
update uk set a = 1, g = default where b = 1;
update uk set (a, v) = (a + 1, 'too long');
update uk set (a, v) = (select 6, 'too long') where a = 5;
update uk set (a, v) = (select 6, 'fit ') where a = 5 returning v, length(v);
update uk set (a, s) = (6, 1000000);
update uk set (a, s) = (select 6, 1000000);
update uk set (a, s) = (default, default);
update uk set (a, s) = (select f.j, f.i from uk_from f where f.i = uk.b - 9) where b in (10, 11) returning a, b, s;
update uk set (a, c) = (select f.j + 1, f.w from uk_from f where f.j = uk.a order by f.w desc limit 1);
select * from uk;
update uk set (a, c) = (select f.j + 1, f.w from uk_from f where f.j = uk.a);
update uk set (a, c) = (select f.f, f.code::text from uk_ref f where f.code = uk.b);
update uk set (a, c) = (select l.id, l.t from uk_local l where l.id = uk.b);
update uk set (a, c) = (select uk_from.j, uk_local.t from uk_local, uk_from where uk_from.i = uk_local.id and uk_local.id = uk.b);
update uk set (a, b) = (select count(*), sum(j) from uk_from);
update uk set (a, b) = (f.i, f.j), (c, s) = (select w, i from uk_from where i = f.i) from uk_from f where f.j = uk.a and f.i <> 3;
select * from uk;
update uk set (a, b) = (select 1, 2), (c, s) = (select 'both', 3) where a = 100 returning *;
with w as (select 42 as k, 'w' as t) update uk set (a, c) = (select k, t from w) where a = 5 returning a, c;
with w as (select i, w from uk_from where i = 2) update uk set (a, c) = (select i, w from w) where a = 5 returning a, c;
with recursive w(n) as (select 1 union all select n + 1 from w where n < 4) update uk set (a, b) = (select max(n), min(n) from w);
with x as (update uk set (a, b) = (select 1, 2) where a = 5 returning a, b, c) select * from x;
-- params: 5, 50, t
update uk set (a, c) = ($2, $3) where a = $1 returning a, c;
-- params: 5, 50, t
update uk set (a, c) = (select $2::int, $3::text) where a = $1 returning a, c;
-- params: 5
update uk set (a, c) = ($1, default) returning a, c;
update uk set a = a;
update uk set a = a + 1, c = default, v = default, s = default returning *;
update uk set (a, b) = (b, a);
select * from uk;
update uk set (a, b) = (select b, a);
update uk set (a, b) = (null, null) where a = 100 returning a, b, g;
update uk t set (a, b) = (select b, a from uk s where s.a = t.a and s.b = t.b) where current_user = session_user;
begin;
update uk set (a, c) = (select 8, 'in');
update uk set (a, c) = (select a + 1, c || '!' from uk_ref where code = 10);
select a, b, c from uk;
savepoint s;
update uk set (a, v) = (select 9, 'much too long');
rollback to s;
select a, b, c from uk;
rollback;
select a, b, c from uk;
-- Values travel as they are.
update uk_types set (k, f, n, at, r, l, j, p, fl) = (select k + 100, f, n, at, r, l, j, p, fl);
-- ordered
select * from uk_types order by k;
set extra_float_digits = 0;
set datestyle = 'German, DMY';
update uk_types set (k, f, at) = (select k + 100, f, at);
reset extra_float_digits;
reset datestyle;
-- ordered
select * from uk_types order by k;
update uk_types set (k, n) = (select k, 10.129) where k in (1, 201) returning k, n;
update uk_types set (k, n) = (1, 99999.9) where k = 201;
update uk_types set (k, n) = (select 1, 99999.9) where k = 201;
update uk_types set k = k + 1, at = now() where at > now() returning k;
update uk_types set (k, at) = (select k + 1, now()) where fl returning k, at = now() as now;
-- Parts of values.
update uk_parts set l[1] = 9;
update uk_parts set k = k + 1, l[1] = 9;
update uk_parts set k = k + 1, d['b'] = '2';
update uk_parts set (k, l[2]) = (5, 6);
update uk_parts set (k, l) = (5, '{6}') returning *;
-- Sequences are home's.
update uk_seq set (k, id) = (k + 1, default);
update uk_seq set k = k + 1, id = 5 where k = 1 returning *;
-- RETURNING of other tables, and of rows as they were.
delete from uk;
insert into uk (a, b, c, v, s) values (5, 10, 'foo', 'x', 1), (5, 11, 'foo', null, 2), (100, 20, null, 'y', 3), (100, 21, 'q', 'z', null), (null, 1, 'n', 'n', 4);
update uk set a = uk.a + 1 from uk_from f where f.i = uk.b - 9 and f.i < 3 returning uk.a, uk.g, f.j, f.w, c || f.w as both, 1 as one, now() = now() as now;
select * from uk;
update uk as t set a = t.b, s = f.i from uk_from f where f.i = 1 returning t.*, f.*;
update uk set a = a + 1 from uk_from where i = 10 returning *;
update uk set a = uk.b + 1 from uk_ref where code = b returning a, f, uk_ref.*;
update uk set a = uk.b + 1 from uk_local l where l.id = b returning a, l.t, l.id + a as sum;
update uk set a = b from (values (20, 'twenty'), (21, 'more')) as x(n, w) where n = b returning x.*, a, c, pg_typeof(s)::text as domain, pg_typeof(x.w)::text as type;
update uk set a = b from generate_series(20, 22) as s(n) where n = b returning a, n, s.n;
update uk set a = b from uk_from join uk_ref on j = f / 10 or true where i = 1 and code = 10 returning a, w, code;
update uk set a = b from (select 20 as code, 'z' as z) q join uk_ref using (code) where b = code returning a, code, z, f;
with w as (select i, w from uk_from where i = 2) update uk set a = i from w where b = 20 returning a, w.w;
with uk_ref as (select 20 as code, 'with' as word) update uk set a = 7 from uk_ref where b = code returning a, word;
update uk t set a = o.b from uk o where o.b = t.b + 1 returning t.a, o.a as other, o.c, t.b;
begin;
update uk set (a, b) = (select j, i from uk_from x where x.i = uk.b - 9) from uk_ref where code = b returning a, b, code;
rollback;
update uk set a = 1 from uk_ref where code = b and false returning a, code;
update uk set a = 1 from uk_ref where code = b returning 5 as five;
update uk set a = 1 from uk_ref where code = b returning a / (code - 10), code;
update uk set (a, v) = (1, 'too long') from uk_ref where code = b returning a, code;
update uk set a = 1 from uk_ref where code = b returning nothing;
update uk set a = 9 from uk_ref where code = b returning c, code, uk_ref;
-- params: 1, 20, with
update uk set a = a + $1 from uk_ref where code = $2 and b = code returning a, code + $1 as sum, $3::text as word;
update uk_types set k = k + 1 from uk_types o where o.k = uk_types.k + 4 returning uk_types.k, o.*;
select * from uk;
update uk set a = coalesce(a, 0) + 1000 returning old.a as before, new.a, a as after, old.g as og, new.g as ng, old.*;
update uk set a = a - 1000, b = b + 1 returning with (old as o, new as n) o.a, n.a as na, o.g, n.g as ng, uk.b;
update uk set a = a + 1 from uk_ref where code = 10 and b is not null returning old.a, code, new.a + old.b as sum;
update uk set a = a + 1 returning old;
begin;
update uk set a = a + 1 from uk_ref where code = b returning a, code;
savepoint s;
update uk set a = a + 1 from uk_ref where code = b returning a, code;
update uk set a = a + 1 from uk_ref where code = b returning a / 0, code;
rollback to s;
with u as (update uk set a = a + 1 from uk_ref where code = b returning a, code) select * from u;
rollback;
-- Subqueries of RETURNING see rows as they were.
update uk set a = a + 1 returning a, (select count(*) from uk x where x.a = uk.a);
update uk set a = a + 1 returning a, (select max(f) from uk_ref), exists (select from uk_from x where x.i = uk.a);
with uk_ref as (select 5 as code) update uk set a = a + 1 returning a, (select code from uk_ref);
