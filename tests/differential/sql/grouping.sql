-- GROUP BY in all its forms.
--! include events
--! tests
select grp, count(*) from events group by grp;
-- ordered
select grp, count(*) from events group by grp order by grp;
-- ordered
select grp, count(*) as n from events group by grp order by n desc, grp nulls first;
-- ordered
select grp, sum(amount), avg(amount), min(note), max(at) from events group by grp order by 1 nulls first;
select id, count(*) from events group by id;
select id, k, note, count(*) from events group by id;
select k % 3 as m, count(*), sum(id) from events group by k % 3;
select k % 3 as m, count(*) from events group by m;
select k % 3 as m, grp, count(*) from events group by 1, 2;
select count(*) from events group by grp;
select 1 from events group by grp;
select grp from events group by grp;
select grp, k from events group by grp, k;
select upper(grp) || '!' as u, count(*) from events group by upper(grp);
select upper(grp) || '!' as u, count(*) from events group by u;
select date_trunc('day', at) as d, count(*), sum(k) from events group by d;
select at::date, count(distinct grp) from events group by 1;
select flag, grp, count(*), sum(k) filter (where k > 4) from events group by flag, grp;
select flag, array_agg(id order by id) from events group by flag;
select grp, string_agg(note, ',' order by note desc, id) from events group by grp;
select grp, count(distinct k), sum(distinct k) from events group by grp;
select grp, percentile_cont(0.5) within group (order by f) from events group by grp;
select grp, jsonb_object_agg(id, k order by id) from events where id < 15 group by grp;
select grp, count(*) from events group by grp having count(*) > 11;
select grp, count(*) from events group by grp having sum(k) > 50 and grp <> 'a';
select grp from events group by grp having max(amount) > 90;
select grp, count(*) from events where k > 3 group by grp having min(k) = 4;
select k, count(*) from events group by k having k > 5;
select k from events group by k having count(*) filter (where flag) > 2;
-- ordered
select k, count(*) from events group by k order by count(*) desc, k limit 3;
-- ordered
select k from events group by k order by sum(amount) desc, k;
-- ordered
select grp, sum(k) as s from events group by grp order by sum(k) + 1 desc nulls last, grp limit 2 offset 1;
-- ordered
select grp, sum(k) from events group by grp order by avg(f), grp;
-- ordered
select grp, flag, count(*) from events group by grouping sets ((grp), (flag), ()) order by grp nulls first, flag nulls first, 3;
select grp, flag, count(*) from events group by rollup (grp, flag);
select grp, flag, count(*), grouping(grp, flag) from events group by rollup (grp, flag);
select grp, flag, sum(k), grouping(grp), grouping(flag) from events group by cube (grp, flag);
select grp, k % 2 as odd, flag, count(*) from events group by grp, cube (k % 2, flag);
select grp, flag, count(distinct k) from events group by rollup (grp, flag);
select grp, avg(amount) from events group by rollup (grp) having count(*) > 11;
select grp, flag, count(*) from events group by grouping sets (grp, rollup (grp, flag), cube (flag));
select count(*) from events group by grouping sets ((), ());
select count(*) from events where false group by ();
select count(*) from events where false group by grp;
select count(*), sum(k) from events group by ();
select event_id, count(*), sum(qty) from items group by event_id;
select event_id, no, sum(qty) from items group by event_id, no;
select event_id % 5 as b, tag, sum(qty) from items group by 1, 2;
select tag, count(*) from items where event_id = 7 group by tag;
-- params: 2
select k, count(*) from events group by k having count(*) >= $1;
-- params: 4
select id % $1 as b, count(*) from events group by 1;
select coalesce(grp, 'none') as g, round(avg(k), 2) as a from events group by coalesce(grp, 'none');
select grp, count(*)::float8 / 60 as share from events group by grp;
select e.grp, max(e.k) as m from events as e group by e.grp;
select grp as g, count(*) from events group by g having count(*) > 9;
select grp collate "C" as g, count(*) from events group by g;
select (k, grp)::text as r, count(*) from events group by k, grp having count(*) > 1;
select array[k % 2, k % 3] as a, count(*) from events group by a;
select grp, sum(k) * 100 / nullif(sum(sum(k)) over (), 0) as percent from events group by grp;
select grp, k from events group by distinct rollup (grp, k), rollup (grp);
select grp, id from events group by grp;
select grp, count(*) from events group by nosuch;
select grp, sum(count(*)) from events group by grp;
select grp, count(*) from events where count(*) > 1 group by grp;
-- A name in GROUP BY is a column of FROM before it is an output column.
select 1 as c, count(*) from (select least(k, 3) as c from events) s group by c;
select k as c, count(*) from (select k, grp as c from events) s group by c, k;
select 1 as x, count(*) from (select array[k % 2] as x, k from events) s group by x;
select id as h, count(*) from events, lateral (select k % 2 as h) l group by h, id;
select 1 as key, count(*) from events, jsonb_each('{"a": 1, "b": 2}') group by key;
select count(*) as key, max(k) from events e join jsonb_each('{"a": 1, "b": 2}') j on true group by key;
select 1 as q, count(*) from events x (a, q) group by q;
select 1 as w, count(*) from (select k, rank() over (order by k) % 2 as w from events) s group by w;
with s as (select k + 1 as u, id from events) select 1 as u, count(*) from s group by u;
with s as (select count(*) + 1 as u, grp from events group by grp) select 1 as u, count(*) from s group by u;
select c2 as c0, bool_and(c1 > 0) as c2 from (select k as c1, array(select generate_series(1, 4)) as c2 from events) t group by c2;
select id as c, (select count(*) from (select o.grp as c) s group by c) as n from events o where id < 5;
select grp, (select max(grp) from (select k as z) s group by z) as z from events where id < 5;
select distinct on (c) k as c, 1 as one from (select k, grp as c from events) s order by c;
select 1 as c, count(*) from (select least(k, 3) as c, k from events) s group by grouping sets ((c), (k), ());
select 1 as c, count(*) from (select least(k, 3) as c, k from events) s group by rollup (c);
select sum(k) as at, count(*) from events group by at;
select a.c0, count(*) from ((select k from events) s cross join generate_series(1, 4) r (c0)) a group by c0;
select a.c0 from (select array[k % 3] as c0 from events) a group by c0;
select x.grp, count(*) from events x left join events y using (grp) group by grp;
select grp, count(*) from events x full join (select k as grp2, grp from events where k < 4) y using (grp) group by grp;
-- Columns of which nothing is known but the name, written with and without their table.
select s.c as d, count(*) from (select 'x'::text as c, k from events) s group by c;
select c as d, max(s.k) from (select array[grp] as c, k from events) s group by s.c;
select s.c as d, s.k from (select 'x'::text as c, k from events) s group by c, k having min(s.c) = 'x';
-- Columns of a subquery that have one value: GROUPING SETS leave out one of them.
select t.a, t.b, count(*) from (select k % 3 as a, k % 3 as b from events) t group by grouping sets ((a, b), (a), ());
select t.a, t.b, count(*) from (select grp as a, grp as b from events) t group by grouping sets ((a, b), (a), ());
select t.a, t.b, grouping(a), grouping(b), count(*) from (select grp as a, grp as b from events) t group by rollup (a, b);
select t.a, t.b, max(t.k) from (select grp as a, grp as b, k from events order by k) t group by cube (t.a, b) having count(*) > 2;
select t.a, count(*) from (select grp as a, grp as b from events) t group by grouping sets ((a), (b));
with t as (select grp as a, grp as b from events) select a, t.b, count(*), sum(count(*)) over () from t group by grouping sets ((t.a, b), (t.b));
select x.grp, grp, count(*) from events x left join (select k as id, grp from events) y using (id, grp) group by grouping sets ((grp), (x.grp), ());
select t.b, row_number() over (order by t.a, t.b) from (select id as a, id as b from events) t;
select id, note, count(*) from events group by grouping sets ((id, k), (id, grp));
select id, note, k, grouping(k), count(*) from events group by grouping sets ((id), (id, k)) having max(note) is not null or note is null;
select e.id, e.note, e.k + 1, count(*) from events e group by id, cube (grp, flag);
select id, k, note from events group by grouping sets ((id, k), (id));
select note, count(*) from events group by rollup (id);
select note, count(*) from events group by grouping sets ((id), (k));
