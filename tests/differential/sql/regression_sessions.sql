-- Cursors, prepared statements, transactions and functions in FROM in the spirit of PostgreSQL's regression tests.
--! include regression
--! modes simple prepared
--! setup
create table rr_tx (a int primary key, b int);
create type rr_pair as (x int, y text);
create function rr_ids(int) returns setof int language sql stable as 'select id from rr_tree where parent = $1 order by id';
create function rr_get(int) returns setof rr_loc language sql stable as 'select * from rr_loc where id <= $1';
create function rr_mk(int) returns rr_pair immutable language sql as $$ select ($1, 'v' || $1)::rr_pair $$;
create function rr_out(i int, out a int, out b text, inout c int default 5) immutable language sql as $$ select i + 1, 'b' || i, c * 2 $$;
create function rr_rec(int) returns setof record immutable language sql as $$ select n, 'r' || n from generate_series(1, $1) n $$;
create function rr_tab(int) returns table (n int, sq int) immutable language plpgsql as $$ begin for i in 1..$1 loop n := i; sq := i * i; return next; end loop; end $$;
create function rr_any(anyelement, variadic anyarray) returns anyelement immutable language sql as 'select coalesce($1, $2[1])';
--! distribute rr_tx a colocate_with => 'none'
--! reset
delete from rr_tx;
insert into rr_tx select i, i * 10 from generate_series(1, 20) i;
--! teardown
drop function if exists rr_ids, rr_get, rr_mk, rr_out, rr_rec, rr_tab, rr_any;
drop type if exists rr_pair cascade;
drop table if exists rr_tx cascade;
--! tests
-- portals
begin;
declare foo1 scroll cursor for select * from rr_ten order by u1;
declare foo2 scroll cursor for select u2, u1 from rr_ten order by u2;
declare foo3 cursor for select q1, q2 from rr_int8 order by q2, q1;
declare foo4 insensitive scroll cursor for select j1.i, j2.k from rr_j1 j1 join rr_j2 j2 on j1.j = j2.k order by 1, 2;
-- ordered
fetch 2 in foo1;
-- ordered
fetch forward 3 from foo2;
-- ordered
fetch last foo1;
fetch next foo1;
-- ordered
fetch backward 4 in foo1;
fetch absolute 10 from foo1;
fetch absolute -3 from foo1;
fetch relative -2 from foo1;
fetch relative 0 from foo1;
move backward all in foo1;
fetch prior from foo1;
fetch first from foo1;
move forward 5 in foo2;
-- ordered
fetch 1 from foo2;
-- ordered
fetch all from foo4;
-- ordered
fetch backward 2 from foo4;
move absolute 1 in foo4;
fetch 0 from foo4;
-- ordered
fetch 1 foo3;
fetch backward 1 foo3;
rollback;
begin;
declare c no scroll cursor for select u1 from rr_ten order by u1;
fetch 3 in c;
fetch prior in c;
rollback;
begin;
declare h scroll cursor with hold for select name, sum(u1) from rr_ten where u1 < 6 group by name order by name;
-- ordered
fetch 2 h;
commit;
-- ordered
fetch 1 h;
-- ordered
fetch backward all h;
move 4 in h;
-- ordered
fetch all in h;
close h;
fetch h;
declare nohold cursor for select 1 from rr_ten;
begin;
declare c1 cursor for select a, b from rr_tx where a = 3 for update;
fetch c1;
update rr_tx set b = b + 1000 where current of c1 returning a, b;
fetch c1;
delete from rr_tx where current of c1;
commit;
select a, b from rr_tx where a < 5;
begin;
declare c2 cursor for select count(*) from rr_tx;
fetch c2;
delete from rr_tx where current of c2;
rollback;
delete from rr_tx where current of nosuch;
begin;
declare c binary cursor for select u1, name from rr_ten where u1 < 3 order by u1;
-- ordered
fetch all c;
close all;
fetch all c;
rollback;
begin;
declare c cursor for values (1), ((select count(*) from rr_int4));
-- ordered
fetch all c;
declare c cursor for select 1;
commit;
begin;
savepoint s;
declare c cursor for select i, t from rr_j1 order by i, t;
-- ordered
fetch 2 c;
rollback to s;
fetch 1 c;
rollback;
begin;
declare c cursor for select a from rr_tx order by a;
-- ordered
fetch 2 c;
savepoint s;
-- ordered
fetch 2 c;
delete from rr_tx where a > 5;
rollback to s;
-- ordered
fetch 3 c;
insert into rr_tx values (0, 0), (21, 0);
move 14 c;
-- ordered
fetch all c;
rollback;
-- prepare
prepare rq1 as select 1 as a from rr_int4 where f1 = 0;
execute rq1;
prepare rq1 as select 2;
deallocate rq1;
prepare rq1 as select 2 from rr_j2;
execute rq1;
prepare rq2 (text) as select u1, name from rr_ten where name = $1;
execute rq2('D003');
prepare rq3 (text, int, float, boolean, smallint) as select u1, name from rr_ten where str4 = $1 and (four = $2 or ten = $3::int or true = $4 or odd = $5::int) order by u1 limit 5;
-- ordered
execute rq3('AAAA', 5::smallint, 10.5::float, false, 4::bigint);
execute rq3('bool');
execute rq3('AAAA', 5, 10, false, 4, 'x');
execute rq3(5::smallint, 10.5::float, false, 4::bigint, 'bytea');
prepare rq4 (nonexistent) as select $1;
prepare rq5 (int, text) as create temp table rr_no as select $1;
-- ordered
prepare rq6 as select u1, $1::text from rr_ten where u1 = $2 or ten = $3 and two = 0 order by u1 limit 3;
-- ordered
execute rq6('x', 7, 4);
execute rq6(null, null, null);
prepare rins (int, int) as insert into rr_tx values ($1, $2 + (select count(*) from rr_int8)) on conflict (a) do update set b = excluded.b - rr_tx.b returning *;
execute rins(100, 1);
execute rins(100, 2);
-- plain refuses
execute rins((select 3), 4);
execute rins(1 + 2, length('four'));
prepare rupd as update rr_tx set b = $2 where a = any ($1) returning a, b;
execute rupd('{1,2,100}', 7);
prepare rdel (int[]) as delete from rr_tx using unnest($1) u where a = u returning a;
execute rdel(array[1, 2]);
prepare rmrg (int) as merge into rr_tx t using (values ($1, 5)) v (k, w) on t.a = v.k when matched then delete when not matched then insert values (v.k, v.w) returning merge_action(), t.*;
execute rmrg(1);
execute rmrg(1);
create temp table rr_ctas as execute rq2('E004');
select * from rr_ctas;
drop table rr_ctas;
-- rows vary
explain (costs off) execute rq2('D003');
deallocate rq6;
execute rq6('x', 1, 2);
deallocate prepare all;
execute rq2('D003');
-- plancache
create temp table rr_pct as select * from rr_int8;
prepare pstmt as select * from rr_pct;
execute pstmt;
prepare pstmt2 (bigint) as select * from rr_pct where q1 = $1;
execute pstmt2(123);
drop table rr_pct;
execute pstmt;
create temp table rr_pct as select * from rr_int8 order by 2;
execute pstmt2(123);
alter table rr_pct add column q3 bigint;
-- plain refuses
execute pstmt;
alter table rr_pct drop column q3;
execute pstmt;
create temp view rr_pcv as select * from rr_pct;
prepare vprep as select * from rr_pcv;
execute vprep;
create or replace temp view rr_pcv as select q1, q2 / 2 as q2 from rr_pct;
execute vprep;
drop view rr_pcv;
drop table rr_pct;
deallocate all;
create table rr_chg (k int primary key, v int);
-- herd only
select create_distributed_table('rr_chg', 'k', colocate_with => 'none');
insert into rr_chg values (1, 1), (2, 2);
prepare pc as select * from rr_chg order by k;
execute pc;
alter table rr_chg add column w int default 9;
-- plain refuses
execute pc;
alter table rr_chg drop column w;
-- ordered
execute pc;
alter table rr_chg rename to rr_chg2;
execute pc;
alter table rr_chg2 rename to rr_chg;
begin;
alter table rr_chg alter v type text using v || 'x';
prepare pc2 as select v from rr_chg where k = $1::int;
execute pc2(1);
rollback;
-- plain refuses
execute pc2(1);
create function rr_cache(p int) returns int language plpgsql as $$ declare total int; begin select sum(v) into total from rr_chg where k >= p; return total; end $$;
select rr_cache(1);
update rr_chg set v = v + 100;
select rr_cache(2);
drop table rr_chg;
select rr_cache(1);
drop function rr_cache;
deallocate all;
-- transactions
begin;
select count(*) from rr_tx;
set transaction read only;
update rr_tx set b = 0;
rollback;
begin read only;
-- message varies
insert into rr_tx values (500, 1);
rollback;
begin;
delete from rr_tx;
select count(*) from rr_tx;
abort;
select count(*) > 5 from rr_tx;
begin;
insert into rr_tx values (201, 1);
savepoint one;
insert into rr_tx values (202, 1);
savepoint two;
insert into rr_tx values (202, 2);
select 1;
rollback to two;
insert into rr_tx values (203, 1);
release savepoint one;
rollback to two;
rollback to one;
rollback;
begin;
savepoint a;
insert into rr_tx values (204, 4);
savepoint a;
insert into rr_tx values (205, 5);
rollback to savepoint a;
release a;
rollback to a;
insert into rr_tx values (206, 6);
commit;
select a, b from rr_tx where a > 200;
savepoint outside;
rollback to savepoint outside;
start transaction isolation level repeatable read, read write, not deferrable;
show transaction isolation_level;
show transaction_isolation;
select sum(b) from rr_tx where a between 5 and 10;
savepoint x;
set transaction isolation level serializable;
commit;
begin;
insert into rr_tx values (207, 7);
commit and chain;
insert into rr_tx values (208, 8);
rollback and chain;
show transaction_read_only;
insert into rr_tx values (209, 9);
commit;
select a from rr_tx where a between 207 and 209;
commit and chain;
start transaction isolation level serializable, read only;
commit and chain;
show transaction_isolation;
select 1/0 from rr_int4 where f1 = 0;
rollback and no chain;
set session characteristics as transaction read only;
delete from rr_tx where a = 1;
set session characteristics as transaction read write;
begin; insert into rr_tx values (210, 1); insert into rr_tx values (210, 2); commit;
-- simple only
insert into rr_tx values (211, 1); insert into rr_tx values (212, 1); select 1/0;
rollback;
select a from rr_tx where a between 210 and 212;
-- simple only
insert into rr_tx values (213, 1); commit; insert into rr_tx values (214, 1); select 1/0;
select a from rr_tx where a between 213 and 214;
delete from rr_tx where a > 200;
begin;
create table rr_tmp_tx (k int primary key);
-- herd only
select create_distributed_table('rr_tmp_tx', 'k', colocate_with => 'none');
insert into rr_tmp_tx select u1 from rr_ten;
select count(*) from rr_tmp_tx join rr_tx on k = b / 10;
rollback;
select count(*) from rr_tmp_tx;
-- rangefuncs
select * from rr_ids(1) as f (x);
select t.label, f from rr_tree t, rr_ids(t.id) f;
select t.label, f.x from rr_tree t left join lateral rr_ids(t.id) f (x) on true where t.id < 4;
select id, rr_ids(id) from rr_tree where id < 4;
select * from rr_get(3) g join rr_tree t using (id);
select * from rr_get(2) with ordinality as z (a, b, c, ord);
select z.ord, z.n from rr_tab(3) with ordinality as z (n, sq, ord), rr_j1 where i = n;
select * from rows from (rr_ids(1), generate_series(1, 4), rr_tab(2)) with ordinality as f (a, b, c, d, o);
select (rr_mk(i)).*, rr_mk(i) from rr_j1 where i < 3;
select * from rr_j1, rr_mk(i) where i < 3;
select i, m.y from rr_j1, lateral rr_mk(i) m where m.x > 6;
select * from rr_out(4), rr_out(1, 2) o2;
select i, rr_out(i) from rr_j2 where i < 3;
select * from rr_int4, rr_out(f1::int % 100) where f1 < 10000;
select * from rr_rec(3) as r (a int, b text) join rr_j1 on i = a;
select * from rr_rec(2) as r (a int, b int);
select * from rr_rec(2);
select a, b, u1 from rows from (rr_rec(2) as (a int, b text), rr_tab(1)) r, rr_ten where u1 = a;
select u1, g from rr_ten, generate_series(u1, u1 + 1) g where u1 < 3;
select u1, generate_series(1, two + 1), generate_series(1, 3) as g from rr_ten where u1 < 2;
-- ordered
select u1, generate_series(1, 2) g from rr_ten order by g desc, u1 limit 3;
select four, generate_series(1, max(two) + 1), count(*) from rr_ten group by four;
select generate_series(1, 2) g, count(*) from rr_ten group by g;
select rr_any(null::int, 3, 4), rr_any(u1, 7) from rr_ten where u1 < 2;
select u.*, t from rr_doc, unnest(tags, array[id, id]) with ordinality u (t, n, o) where id < 3;
select id, x from rr_doc, jsonb_array_elements(d -> 'list') x where x::int > 11;
select id, k, v from rr_doc, jsonb_each_text(d) e (k, v) where k <> 'list' and id < 3;
select r.* from rr_doc, jsonb_to_record(d) r (k int, name text, list int[]) where id < 4;
select id, j.* from rr_doc, json_table(d, '$' columns (k int path '$.k', nested path '$.list[*]' columns (e int path '$'))) j where id in (3, 4);
select count(*) from rr_doc, jsonb_array_elements(d -> 'list') x, rr_ten where u1 = x::int;
select id, (select string_agg(x, '' order by x) from unnest(tags) x where x in (select 't' || i from rr_j1)) from rr_doc where id < 5;
select x.id, y.n from rr_doc x left join lateral (select count(*) n from jsonb_array_elements_text(x.d -> 'list') e (v) join rr_ten on u1 = v::int and two = 0) y on true;
select * from unnest(array(select f1 from rr_text order by f1)) with ordinality;
select * from rr_j1 where i in (select rr_ids(1)) or exists (select from rr_ids(j) f where f = i);
select * from rr_nosuch(3);
select string_to_table(f1, ' ') from rr_text where f1 like 'hi%';
select * from rr_j1, rr_j2, lateral (select rr_j1.i + rr_j2.k) s (t) where t > 9;
select g, count(u1) from generate_series(0, 12, 4) g left join rr_ten on ten = g group by g;
