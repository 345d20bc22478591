-- Enums, domains, arrays, JSON and dates in odd queries and changes, over tables that are hardly ever colocated.
--! include regression
--! modes simple prepared
--! setup
create type rr_mood as enum ('sad', 'ok', 'happy');
create domain rr_pos as int check (value > 0);
create table rr_w (k int, id int, v numeric, t text collate "C", arr int[], j jsonb, m rr_mood, p rr_pos, primary key (k, id));
create table rr_c (k int, id int, n int, f float8, d date, m rr_mood, primary key (k, id));
create table rr_mood_key (m rr_mood primary key, n int);
create table rr_date_key (d date primary key, n int);
create table rr_text_key (t text primary key, n int);
insert into rr_mood_key values ('sad', 1), ('ok', 2), ('happy', 3);
insert into rr_date_key select date '2024-01-01' + i, i from generate_series(1, 10) i;
--! distribute rr_w k colocate_with => 'none'
--! distribute rr_c id colocate_with => 'none'
--! reference rr_mood_key
--! distribute rr_date_key d colocate_with => 'none'
--! distribute rr_text_key t colocate_with => 'none'
--! teardown
drop table if exists rr_w, rr_c, rr_mood_key, rr_date_key, rr_text_key cascade;
drop domain if exists rr_pos cascade;
drop type if exists rr_mood cascade;
--! reset
delete from rr_w;
delete from rr_c;
delete from rr_text_key;
insert into rr_w select i % 6, i, i / 4.0, (array['b','B','a','A',null,'é','z'])[i % 7 + 1], array[i, i % 3, null], jsonb_build_object('a', i % 4, 'b', jsonb_build_array(i, 'x' || i % 2), 'c', case when i % 5 = 0 then null else i end), (array['sad','ok','happy'])[i % 3 + 1]::rr_mood, i from generate_series(1, 36) i;
insert into rr_c select i % 6, i, i % 9, i / 2.0, date '2024-01-01' + i, (array['sad','ok','happy',null])[i % 4 + 1]::rr_mood from generate_series(1, 30) i;
insert into rr_text_key values ('a', 1), ('A', 2), ('b', 3), ('é', 4), ('sad', 5), ('', 6);
--! tests
-- ordered
select t, count(*) from rr_w group by t order by t nulls first;
-- ordered
select distinct t collate "C" from rr_w order by 1 desc nulls last;
select max(t), min(t), max(m), min(m), max(p), max(arr) from rr_w;
-- ordered
select m, count(*), string_agg(t, '' order by m desc, id) from rr_w group by m order by m desc;
select w.m, c.n from rr_w w join rr_c c on c.m = w.m and c.n = w.p where c.n < 3;
select m, enum_range(null::rr_mood) from rr_mood_key where m > 'sad';
select c.id, k.n from rr_c c left join rr_mood_key k using (m) where c.id < 8;
select x.d, y.id from rr_date_key x full join rr_c y on x.d = y.d and y.n > 3 where x.n < 8 or y.id = 30;
select w.id, k.n from rr_w w join rr_text_key k on k.t = w.t and w.id < 20;
select w.id, k.n from rr_w w join rr_text_key k on k.t = w.m::text and w.id < 20;
select arr[1], arr[2:3], cardinality(arr), arr @> array[2] from rr_w where k = 3;
select arr || id, array_remove(arr, null), array_position(arr, 0) from rr_w where id < 6;
select unnest(arr) u, count(*) from rr_w group by u having count(*) > 1;
select j['a'], j -> 'b' ->> 1, j #>> '{b,0}', j @> '{"a": 1}', j ? 'c', j -> 'c' = 'null' from rr_w where id < 9;
select j -> 'a' a, count(*), jsonb_agg(j -> 'c' order by id) from rr_w group by j -> 'a';
select jsonb_path_query_array(j, '$.b[*] ? (@ > 3)') from rr_w where id between 2 and 5;
select distinct j -> 'b' -> 1 from rr_w;
select w.id, x.* from rr_w w, jsonb_to_recordset(jsonb_build_array(w.j)) x (a int, c int) where x.a = 2;
select p + 1, p::int * 2, pg_typeof(p)::text, pg_typeof(m)::text from rr_w where id = 3;
select sum(p), avg(p), pg_typeof(max(p))::text from rr_w;
select coalesce(p, 1), pg_typeof(coalesce(p, 1))::text from rr_w where id = 1;
select k, array_agg(p order by p) from rr_w where id < 10 group by k;
select array_agg(m order by id) from rr_w where k = 2;
select (w).m, (w.*)::text from rr_w w where id = 4;
select row(w.*) = row(x.*) from rr_w w, rr_w x where w.id = 3 and x.id = 3;
select w.id from rr_w w where w in (select x from rr_w x where x.id < 3);
select count(distinct w) from rr_w w;
select w.id, x.id from rr_w w join rr_w x on w.v = x.v * 4 where w.id < 20;
select w.id from rr_w w where (w.k, w.id) = (select k, id from rr_c where n = 5 order by id limit 1);
select row_to_json(s) from (select w.k, count(*) c, array_agg(distinct c.n order by c.n) a from rr_w w left join rr_c c on c.id = w.p group by w.k) s where k < 2;
select to_jsonb(w) - 'j' from rr_w w where id = 7;
select jsonb_object_agg(w.id, c.n) from rr_w w join rr_c c on c.id = w.id + 1 where w.id < 5;
-- plain refuses
select xmlelement(name a, id) from rr_w where id < 3;
select string_agg(distinct t, ',' order by t) from rr_w;
select string_agg(distinct t || m, ',' order by t || m desc) from rr_w where m <> 'ok';
select k, first_value(t) over (partition by k order by t nulls first, id), lag(m) over (order by id) from rr_w where id < 12;
select k, sum(v) over (partition by k order by v range between 1 preceding and 0.5 following) from rr_w where id < 20;
select d, count(*) over (order by d range between '2 days' preceding and '1 day' following) from rr_c where id < 8;
select f, sum(n) over (order by f desc range between 1.0 preceding and current row) from rr_c where id < 8;
select extract(dow from d) dow, max(d) - min(d), age(max(d), min(d)) from rr_c group by dow;
select date_trunc('week', d), count(*) from rr_c group by 1;
select d::timestamp at time zone 'UTC' at time zone 'Asia/Tokyo' from rr_c where id = 2;
select to_char(d, 'Day DD Mon'), to_char(f, '999.9') from rr_c where id = 3;
select case m when 'sad' then 'S' when 'ok' then null else m::text end x, count(*) from rr_c group by 1;
select grouping(m), m, sum(n) from rr_c group by cube (m) having sum(n) is not null;
select m, k, sum(n) from rr_c group by grouping sets ((m, k), (m), ()) having count(*) > 5;
select count(*) filter (where m is null), count(m), count(*) from rr_c;
select bool_and(f > n) from rr_c group by k;
select k, mode() within group (order by m), percentile_disc(0.5) within group (order by d) from rr_c group by k;
select k from rr_c group by k having min(m) = 'sad' and max(d) > (select min(d) + 25 from rr_date_key);
select width_bucket(f, 0, 15, 4) b, count(*), min(f), max(f) from rr_c group by b;
select ceil(f), round(f), trunc(f), sign(n - 3), n % 4, div(n, 2), power(n, 2), |/ f::float8 < 3 from rr_c where id in (5, 6);
select sum(f), avg(f), max(f), count(f) from rr_c;
select w.k, c.k from rr_w w left join rr_c c on w.id = c.id and c.n = any (w.arr) where w.id < 8;
select w.id, c.id from rr_w w join rr_c c on c.id = any (w.arr) where w.id < 6;
select w.id from rr_w w where exists (select from unnest(w.arr) a join rr_c c on c.id = a where c.n > 4);
select w.id, (select sum(a) from unnest(w.arr) a where a in (select n from rr_c)) from rr_w w where w.id < 9;
select w.id, (select sum(c.n) from unnest(w.arr) a join rr_c c on c.id = a) from rr_w w where w.id < 9;
select w.id, s.x from rr_w w, lateral (select a + c.n as x from unnest(w.arr) a, rr_c c where c.id = a) s where w.id < 9;
select w.id, (select jsonb_agg(c.n order by c.n) from rr_c c where c.k = w.k and to_jsonb(c.id) <@ w.j -> 'b') from rr_w w where w.id < 9;
select id, e from rr_w, jsonb_array_elements(j -> 'b') e where jsonb_typeof(e) = 'number' and exists (select from rr_c where to_jsonb(rr_c.id) = e and n = 1);
select id, e from rr_w left join jsonb_array_elements(j -> 'b') e on jsonb_typeof(e) = 'string' where id in (select n from rr_c);
select count(*) from rr_w, generate_series(1, k) g where exists (select from rr_c where n = g and rr_c.k = rr_w.k);
select w.id, g, c.id from rr_w w cross join generate_series(w.k, w.k + 1) g left join rr_c c on c.n = g and c.id < 5 where w.id < 4;
select g, array(select id from rr_c where n = g order by id) from generate_series(0, 2) g;
select g.g, w.id from generate_series(1, 40, 13) g (g) left join rr_w w on w.id = g.g;
select * from (values (1, 'sad'::rr_mood), (2, 'ok')) v (n, m) natural left join rr_mood_key;
select v.x, (select count(*) from rr_w where k = v.x) from (values (1), (7)) v (x);
select x.k, (with recursive r (n) as (select x.k union all select n + 1 from r where n < 3) select count(*) from r join rr_c on rr_c.n = r.n) from rr_w x where x.id < 7;
select k, n, lead(n) over w, n - lag(n, 1, 0) over w from rr_c where k in (1, 2) window w as (partition by k order by id);
select * from rr_c where (n, f) > (7, 3) and m is distinct from 'ok' and (d, id) <= ('2024-01-20', 100);
select * from rr_c c where not exists (select from rr_w w where w.id = c.n and w.m = c.m) and c.id < 12;
select * from rr_c where m = any ('{sad,ok}') and n <> all (array(select k from rr_w where id < 4));
select max(n) from rr_c where m = (select m from rr_mood_key where n = 2);
select a.id, b.id from rr_c a left join rr_c b on a.n = b.id and b.m = a.m and b.id <> a.id where a.id < 10;
select a.k, b.k, c.k from (select distinct k from rr_c) a full join (select k from rr_w where id < 4) b using (k) full join (values (1), (99)) c (k) using (k);
select count(*) from rr_c a, rr_c b, rr_w w where a.n = b.id and b.n = w.id and w.k = a.k;
select c1.id from rr_c c1 where c1.n = (select max(c2.n) from rr_c c2 where c2.k = c1.k and c2.d < c1.d) or c1.id = 1;
select percent_rank(5) within group (order by n), rank(3, 'ok') within group (order by n, m) from rr_c;
select distinct on (m) m, d from rr_c where n > 2 order by m nulls first, d desc;
select 'x' || id::text, id::char(1), (id * 1000)::text::varchar(3), '[' || rpad(m::text, 6) || ']' from rr_c where id in (9, 10);
select overlay('abcdef' placing m::text from 2 for 1), substring(m::text from 2 for 2), position('a' in m::text), trim(both 's' from m::text) from rr_c where id = 4;
select m::text ~ '^s' and m::text similar to '%(a|o)%', m::text like any (array['s%', '%y']) from rr_mood_key;
select generate_subscripts(arr, 1) s, arr[generate_subscripts(arr, 1)] from rr_w where id = 4;
select (array_agg(id order by v desc))[1:2] from rr_w group by k;
select (select array_agg(x.n) from (select n from rr_c where k = w.k order by n limit 2) x) from rr_w w where id < 5;
select json_build_object('k', k, 'rows', json_agg(json_build_object('id', id, 'm', m) order by id)) from rr_c where id < 9 group by k;
select coalesce(sum(n), 0) from rr_c where false;
select sum(n) from rr_c where k = 1 and k = 2;
select id from rr_c where null;
select n, count(*) from rr_c group by n having count(*) = (select max(c) from (select count(*) c from rr_c group by n) s);
select k, id from rr_c order by random() * 0, k, id limit 3;
select setseed(0.5) is not null, count(*) from rr_c;
select current_date > d, now() > d, current_user = session_user from rr_c where id = 1;
select pg_typeof(n + f), pg_typeof(sum(n)), pg_typeof(avg(f)) from rr_c group by n, f limit 1;
select 1 / (n - 1) from rr_c;
select n::text::rr_mood from rr_c where id = 1;
select (k + 2147483647) from rr_c;
select m::int from rr_c;
select * from rr_c where m = 'nomood';
insert into rr_w (k, id, p) values (1, 100, -1);
select 5::rr_pos + k from rr_c where id = 1;
select (0 * k)::rr_pos from rr_c where id = 1;
update rr_c set (n, f) = (select n + 1, f from rr_w w where w.id = rr_c.id limit 1) where id = 1;
update rr_c set (n, f) = (select p, v from rr_w w where w.id = rr_c.id) where id < 4 returning id, n, f;
update rr_c c set n = s.x from (select k, max(p) x from rr_w group by k) s where s.k = c.k and c.id < 4 returning c.id, c.n, s.x;
update rr_c c set m = (select max(m) from rr_mood_key where n < c.n) where c.id between 5 and 8 returning id, m;
delete from rr_c c using rr_w w, rr_mood_key x where w.id = c.id and x.m = w.m and x.n = 2 and c.id > 20 returning c.id, w.t, x.n;
delete from rr_c where id in (select id from rr_c where n > 5 order by d desc limit 2) returning id;
delete from rr_c where (k, n) in (select k, max(n) from rr_c group by k) returning k, id;
insert into rr_c (k, id, n) select k, 1000 + id, row_number() over (order by v desc) from rr_w where id < 4 returning id, n;
insert into rr_c (k, id, m) select n, 2000 + n, m from rr_mood_key on conflict (k, id) do nothing returning *;
insert into rr_c as t (k, id, n) values (1, 1001, 5) on conflict (k, id) do update set n = t.n + (select max(n) from rr_mood_key where n < excluded.n) returning n;
with x as (select id from rr_c order by d limit 3) update rr_c set f = -f from x where x.id = rr_c.id returning rr_c.id, f;
with del as (delete from rr_c where id > 1000 returning k, id), agg as (select k, count(*) c from del group by k) select agg.*, (select count(*) from rr_w w where w.k = agg.k) from agg;
with ins as (insert into rr_text_key select 'w' || k, min(id) from rr_w group by k returning t, n) select t, n, exists (select from rr_c where id = ins.n) from ins;
with a as (update rr_w set v = v + 1 where id = 1 returning *), b as (update rr_text_key set n = n + 1 where t = 'a' returning *) select a.v, b.n from a, b;
insert into rr_text_key select 'z', count(*) from rr_c returning *, (select max(n) from rr_mood_key);
update rr_text_key set n = 0 where t = 'z' returning n, (select count(*) from rr_date_key);
update rr_text_key k set n = 1 where t = 'z' returning n, (select count(*) from rr_w where rr_w.t = k.t);
delete from rr_text_key k where t = 'z' returning n, (select m from rr_mood_key x where x.n = k.n), exists (select from rr_w where id = k.n);
insert into rr_text_key values ('y', 1) returning (select m from rr_mood_key x where x.n = rr_text_key.n), array(select n from rr_date_key order by n limit 2);
delete from rr_text_key where t = 'y' returning (select count(*) from rr_text_key);
update rr_w set arr[2] = 99, j['a'] = '"s"', m = 'sad' where id < 3 returning arr, j;
update rr_w set t = default, m = null where id = 5 returning t, m;
insert into rr_w (k, id, arr[1:2], p) values (7, 700, '{1,2}', 4) returning arr;
delete from rr_w where id = 700;
