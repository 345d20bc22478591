-- Odd queries in the spirit of PostgreSQL's regression tests, over tables that are hardly ever colocated.
--! include regression
--! modes simple prepared
--! tests
-- select
-- ordered
select u1, str4 from rr_ten where u1 < 20 order by str4 using <, u1 using >;
-- ordered
select rr_ten.u1, rr_ten.name from rr_ten where rr_ten.u1 between 5 and 15 order by name using >;
-- ordered
select f1 from rr_text order by f1 using ~<~ nulls first;
-- ordered
select i, j from rr_j1 order by i desc nulls last, j nulls first;
-- ordered
select i, j from rr_j1 order by i nulls first, j desc;
select p.f1, p.f1 is null from only rr_text p;
select t from rr_text t;
select t.* from rr_j1 t where t.i is null;
select rr_int8 from rr_int8;
select count(*) from rr_ten where (u1, ten) in (values (11, 1), (12, 3), (25, 5), (null, 1));
select o.* from rr_one o, (values (1, 2), (3, 4)) v (i, j) where o.a = v.i and o.b = v.j;
select * from rr_ten r (x, y), (values (7, (select odd from rr_ten where u1 = 3)), (8, 1)) v (i, j) where r.x = v.i;
values (1, 2), (3, (select max(u1) from rr_ten)), (7, 77) union all table rr_j2;
select from rr_int4 where f1 > 0;
select count(*) from (select from rr_ten where u1 < 7) s;
select foo from (select 1 from rr_int4 offset 0) as foo;
select foo from (select f1, null::int as n from rr_int4 where f1 = 0 offset 0) as foo;
select (r).two, (r).name from (select r from rr_ten r where r.u1 in (17, 18)) s;
select f1 as "Group", f1 is distinct from 'doh!' as d from rr_text where f1 is not distinct from null or f1 = 'doh!';
select u1 is not null and (u1 < 3) is not unknown as x, count(*) from rr_ten group by 1;
-- ordered
select distinct two, four from rr_ten order by two using >, four;
-- ordered
select ten, sum(u1) s from rr_ten group by ten having sum(u1) > 500 order by 2 desc, ten + 0;
select case when two = 0 then name when u1 < 5 then null else str4 end as c, coalesce(nullif(ten, 3), four, -1) from rr_ten where u1 < 12;
select (select) is null from rr_ten where u1 = 4;
select * from (select u1 as "a.b", two as "select" from rr_ten where u1 < 3) as "T x" where "T x"."a.b" > 0;
select u1 from rr_ten where name ~ '^[ABC]0[01]' and name !~* 'b' and str4 like 'A%' escape '\';
select u1, u1::text::varchar(2), cast(u1 as numeric(5,1)) / 3, u1 % 7 - -u1, - u1 ^ 2 from rr_ten where u1 in (100, 101);
select i from rr_j1 where not (i > 3 and j > 1) order by i limit 3;
select greatest(i, j, 3), least(i, j), i between symmetric j and 2 from rr_j1;
select 1 as one from rr_text having 1 < 2;
select 1 as one from rr_text having min(f1) > 'a';
select sum(f1) from rr_int4 where f1 = null;
select two as x, two + four as y from rr_ten where u1 < 8 group by 1, y;
-- limit
-- ordered
select u1, u2, name from rr_ten where u1 > 50 order by u1 limit 2;
-- ordered
select u1 from rr_ten order by u1 desc limit 5 offset (select count(*) - 3 from rr_ten);
-- ordered
select u1 from rr_ten order by u1 limit null offset 115;
-- ordered
select u1 from rr_ten order by u1 offset 117 limit all;
-- ordered
select u1 from rr_ten order by u1 limit case when (select max(two) from rr_ten) > 0 then 2 end;
select two, u1 from rr_ten where u1 < 20 order by two fetch first 1 rows with ties;
-- ordered
select ten from rr_ten order by ten offset 10 rows fetch next 3 rows with ties;
select u1 from rr_ten order by u1 limit -1;
select u1 from rr_ten order by u1 offset -1;
select u1 from rr_ten limit u1;
-- params: 2, 3
select u1 from rr_ten where two = 1 order by u1 limit $1 offset $2;
-- params: NULL
select count(*) from (select u1 from rr_ten limit $1) s;
select sum(ten) from (select ten from rr_ten order by ten limit 15) s;
-- ordered
select q1, (select q2 from rr_int8 b where b.q1 = a.q1 order by q2 limit 1) from rr_int8 a order by 1, 2 limit 3;
-- ordered
select * from (select u1, u2 from rr_ten order by u2 limit 10) s order by u1 limit 4 offset 2;
select i, (select k from rr_j2 where rr_j2.i = rr_j1.i order by k limit 1 offset 1) from rr_j1;
-- ordered
select four, array(select u1 from rr_ten x where x.four = y.four order by u1 desc limit 2) from rr_ten y group by four order by four limit 3;
select count(*) from rr_ten a where u1 in (select u2 from rr_ten order by u2 desc limit 10) and a.ten < 5;
-- select_distinct_on
-- ordered
select distinct on (two) two, name, ten from rr_ten order by two using >, name using <;
-- ordered
select distinct on (four) four, u2 from rr_ten where u1 > 10 order by four, u2 desc;
-- ordered
select distinct on (name, ten) name, two, ten from rr_ten where u1 < 9 order by name using <, two using <, ten using <;
select distinct on (foobar) four, foobar from (select four, two as foobar from rr_ten where four = 2) s order by foobar, four;
-- ordered
select distinct on (1) ten % 3 as r, max(u1) over (partition by ten % 3) from rr_ten order by 1;
select distinct on (four) four, two from rr_ten order by two, four;
select distinct on (four, two) four, two from rr_ten where four = 0 order by 1;
-- ordered
select distinct on (a) a, b, c from rr_one order by a, b desc, c nulls first;
-- ordered
select e.depname, d.floor from (select distinct on (depname) depname, salary from rr_emp order by depname, salary desc, empno) e left join rr_dept d using (depname) order by 1;
-- ordered
select distinct on (a % 2) a % 2, string_agg(s, ',' order by s) from rr_one group by a order by a % 2, a desc;
select count(*) from (select distinct on (hundred) hundred, u1 from rr_ten order by hundred, u1 desc) s where u1 > 99;
-- union
select f1 from rr_int4 union select q2 from rr_int8;
select q1::float8 from rr_int8 union all select f1 from rr_int4;
-- ordered
select q2 from rr_int8 intersect all select q1 from rr_int8 order by 1;
-- ordered
select q2 from rr_int8 except all select distinct q1 from rr_int8 order by 1;
-- plain refuses
select q1 from rr_int8 except all select q1 from rr_int8 for no key update;
select q1 from rr_int8 intersect (((select q2 from rr_int8 union all select q2 from rr_int8))) order by 1;
(((select q1 from rr_int8 intersect select q2 from rr_int8 order by 1))) union all select q2 from rr_int8;
select q1 from rr_int8 union all (((select q2 from rr_int8 except select q1 from rr_int8 order by 1)));
(((select q1 from rr_int8 union all select q2 from rr_int8))) except select q1 from rr_int8 order by 1;
-- ordered
select q1, q2 from rr_int8 except select q2, q1 from rr_int8 order by q1, q2;
select q1 from rr_int8 except select q2 from rr_int8 order by q2 limit 1;
-- ordered
select q1 from rr_int8 except (((select q2 from rr_int8 order by q2 limit 1))) order by 1;
select f1 from rr_text union select f1::text from rr_int4 union select null;
select ten, u1 from (select ten, u1 from rr_ten where u1 < 5 union all select four, u1 from rr_ten where u1 between 4 and 6) s where ten = 4;
select count(*) from (select two from rr_ten union select four from rr_ten union all select ten from rr_ten intersect select hundred from rr_ten) s;
-- ordered
(select i, t from rr_j1 where i < 3 order by i desc limit 1) union all (select k, 'k' from rr_j2 where k < 0 order by k limit 2) order by 1, 2;
select * from (select i from rr_j1 union select i from rr_j2) x full join (select f1 from rr_int4 intersect select i from rr_j1) y on x.i = y.f1;
select 1 as x where exists (select u1 from rr_ten except select u2 from rr_ten);
select u1 from rr_ten where u1 < 4 union select name from rr_ten where u1 < 4;
select ten, two from rr_ten where u1 < 3 union select ten from rr_ten;
select tags from rr_doc union select array['t0', 't0'];
select d -> 'k' from rr_doc union select to_jsonb(f1) from rr_int4 where f1 = 0;
select from rr_int4 union select from rr_j2;
select count(*) from (select from rr_int4 union all select from rr_j2) s;
select q2, lag(q2) over (order by q2) from (select q2 from rr_int8 union select f1 from rr_int4) s;
select distinct q1 from (select distinct * from rr_int8 i81 union all select distinct * from rr_int8 i82) ss where q2 = q2;
select t1.u1 from rr_ten t1 inner join rr_ten t2 using (u1) union all (values (-1), (-2)) limit 0;
-- join
select '' as xxx, * from rr_j1 as a (a, b, c) cross join rr_j2 as b (d, e) where a.a = 1;
select * from rr_j1 cross join rr_j2 a join rr_j2 b on a.i = b.i and a.k > 0 where rr_j1.i = 3;
select * from rr_j1 inner join rr_j2 using (i);
select * from rr_j1 t1 (a, b, c) join rr_j2 t2 (a, d) using (a) order by b, d;
select * from rr_j1 t1 (a, b, c) join rr_j2 t2 (a, b) using (b) order by b, t1.a;
select * from rr_j1 join rr_j2 using (i) as x where rr_j1.t = 'one';
select x.* from rr_j1 join rr_j2 using (i) as x where x.i = 5;
select row_to_json(x) from rr_j1 join rr_j2 using (i) as x where x.i = 1;
select * from (rr_j1 join rr_j2 using (i)) as x where t = 'one';
select * from (rr_j1 join rr_j2 using (i) as x) as y where x.i = 1;
select * from rr_j1 natural join rr_j2 where k > 0;
select * from rr_j1 t1 (a, b, c) natural join rr_j2 t2 (d, a) where b is not null;
select * from rr_j1 join rr_j2 on (rr_j1.i <= rr_j2.k);
select * from rr_j1 left outer join rr_j2 using (i) where (k = 1 or i = 1);
select * from rr_j1 right join rr_j2 on rr_j1.j = rr_j2.k;
select * from rr_j1 full outer join rr_j2 using (i) order by i, k, t;
select * from rr_j1 full join rr_j2 on rr_j1.j = rr_j2.k and rr_j1.i is not null;
select * from rr_j1 full join rr_j2 using (i) where (i = 1) or (k is null and t is null);
select a.u1, b.f1 from rr_ten a full join rr_int4 b on a.u1 = b.f1 and a.u1 < 2 where a.u1 < 2 or a.u1 is null;
select * from rr_int8 i8 left join rr_int8 j8 on i8.q2 = j8.q1 and j8.q2 > 0;
select * from rr_int8 a left join (rr_int8 b inner join rr_int4 c on b.q1 > c.f1) on a.q2 = b.q1 and c.f1 = 0;
select t1.q2, count(t2.*) from rr_int8 t1 left join rr_int8 t2 on t1.q2 = t2.q1 group by t1.q2;
select t1.q2, count(t2.*) from rr_int8 t1 left join (select * from rr_int8 offset 0) t2 on t1.q2 = t2.q1 group by t1.q2 order by 1;
select t1.q2, count(t2.*) from rr_int8 t1 left join (select q1, case when q2 = 1 then 1 else q2 end as q2 from rr_int8) t2 on t1.q2 = t2.q1 group by t1.q2;
select * from rr_j1 a left join rr_j2 b on a.i = b.i and b.k in (select f1 from rr_int4) where b.i is null;
select a.f1, b.f1, t.u1, t.odd from rr_ten t, (select * from rr_int4 order by f1 limit 2 offset 2) a, (select * from rr_int4 order by f1 limit 2 offset 2) b where a.f1 = b.f1 and t.u1 = a.f1;
select s.* from (values (1, 'x'), (5, 'y')) s (i, v) left join rr_j2 on s.i = rr_j2.i and k > 0;
select p1.i, p2.i, p3.i from rr_j1 p1 join (rr_j1 p2 left join rr_j2 p3 on p2.i = p3.k) on p1.j = p2.i where p1.i > 3;
select count(*) from rr_ten a join rr_ten b on a.u1 = b.u2 join rr_ten c on b.u1 = c.u2 where a.ten = c.ten;
select e1.empno, e2.empno from rr_emp e1, rr_emp e2, rr_dept d where e1.depname = d.depname and d.boss = e2.empno and e1.salary > e2.salary - 1000 and e1.empno <> e2.empno;
select d.depname, count(e.empno), count(distinct b.depname) from rr_dept d left join rr_emp e on e.depname = d.depname left join rr_emp b on b.empno = d.boss group by d.depname;
select d.*, e.empno from rr_dept d full join rr_emp e on e.empno = d.boss and e.salary > 5000;
select x.i, y.k, z.q from rr_j1 x left join (rr_j2 y join rr_loc z on z.id = y.k) on x.i = y.i;
select l.id, r.u1 from rr_loc l right join (select u1, u2 from rr_ten where u1 < 9) r on l.id = r.u1;
select count(*) from rr_j1 a full join rr_j2 b on false;
select a.i, b.i from rr_j1 a full join rr_j2 b on true where a.i = 1;
select * from rr_j1 left join (select i, k, 'c' || k as w, 42 as const from rr_j2) s on rr_j1.i = s.i and s.k > 0 where coalesce(const, 0) = 0;
select a.i, ss.x from rr_j1 a left join lateral (select a.j as x from rr_j2 b where b.i = a.i limit 1) ss on true;
select u1, x.* from rr_ten a, lateral (select * from rr_int4 b where f1 = a.u1) x;
select v.* from rr_int8 x left join (select q1, coalesce(q2, 0) q2 from rr_int8) y on x.q2 = y.q1 left join rr_int4 z on z.f1 = x.q2, lateral (values (x.q1, y.q1), (x.q2, y.q2)) v (vx, vy);
select * from rr_int4 a left join lateral (select a.f1, b.q1, c.i from rr_int8 b cross join rr_j1 c where b.q1 = a.f1 or c.i = a.f1) ss on true;
select i, n, s from rr_j1, lateral generate_series(i, least(j, i + 2)) n left join lateral (select sum(k) s from rr_j2 where rr_j2.i = n) q on true;
select * from (select f1/2 as x from rr_int4) ss1 join rr_int4 i4 on x = f1/2 join lateral (select f1 as y, x as z from rr_text t where length(t.f1) = 4 offset 0) q on true;
select t1.u1, (select count(*) from rr_j1 join rr_j2 on rr_j1.i = rr_j2.i and rr_j1.i = t1.u1) from rr_ten t1 where t1.u1 < 6;
select count(*) from rr_ten a where not exists (select 1 from rr_ten b where a.u1 = b.u2 + 1);
select a.u1 from rr_ten a left join rr_ten b on a.u1 = b.u2 and b.two = 0 where b.u1 is null and a.u1 < 20;
select a.u1 from rr_ten a where a.u1 < 30 and exists (select from rr_ten b left join rr_j2 c on c.i = b.ten where b.u2 = a.u1 and c.k is null);
select * from rr_j1 a join rr_j1 b using (i) join rr_j2 c using (i) left join rr_one d on d.a = i and d.b = c.k;
select a.i from rr_j1 a natural full join rr_j2 b natural left join (values (1), (2)) v (i);
select max(a.i + b.k) over (partition by a.t), a.t from rr_j1 a join rr_j2 b on b.k = -a.i;
select * from rr_int4 a, rr_int4 b, rr_int8 c where a.f1 = b.f1 and (a.f1 = c.q1 or (b.f1 = 0 and c.q2 < 0));
select i8.*, (i8.q1 = i4.f1) is true from rr_int8 i8 left join lateral (select f1 from rr_int4 where f1 = i8.q1 - 123) i4 on i8.q2 > 0;
select * from (select 1 as id) x left join (rr_tree t join rr_tree p on p.id = t.parent) on x.id = t.parent;
select t.label, p.label, g.label from rr_tree t left join rr_tree p on t.parent = p.id left join rr_tree g on p.parent = g.id and g.id <> p.id;
select j1.t from rr_j1 j1 where (j1.i, j1.j) = any (select k, i from rr_j2 union all select 4, 1);
select x.u1 from rr_ten x, rr_doc y where x.u1 <@ y.span and y.tags @> array['t1'] and x.two = (y.d ->> 'k')::int;
select t1.i from rr_j1 t1, rr_j2 t2 where t1.i = t2.i for update of t3;
select rr_j1.i from rr_j1 a;
select * from rr_j1 a join rr_j2 a on true;
select i from rr_j1, rr_j2;
select * from rr_j1 join rr_j2 using (zz);
select * from rr_int8 x cross join (rr_int4 x cross join lateral (select x.f1) ss);
-- subselect
select i, j from rr_j1 where i in (select k from rr_j2 where k in (select i from rr_j2));
select i from rr_j1 where i not in (select k from rr_j2);
select i from rr_j1 where i not in (select k from rr_j2 where k is not null);
select i from rr_j1 a where j not in (select k from rr_j2 b where b.i = a.i);
select u1 from rr_ten where u1 < 12 and (u1, ten) not in (select u2, ten from rr_ten where u2 < 6);
select i, (i, j) = (select i, k from rr_j2 where k = 2) as eq from rr_j1;
select i from rr_j1 where row(i, j) < row((select min(k) + 6 from rr_j2), 3);
select (select i from rr_j2 where k = -5);
select i, (select k from rr_j2 where rr_j2.i = rr_j1.i) from rr_j1;
select u1 from rr_ten where u1 >= all (select u2 from rr_ten where two = 1);
select u1 from rr_ten where u1 <> all (select u2 from rr_ten where u2 > 3) and u1 is not null;
select u1 from rr_ten a where u1 = some (select u2 - 1 from rr_ten b where b.four = a.four) and u1 < 40;
select q1, q1 > any (array(select q2 from rr_int8)), q2 = all (array(select q1 from rr_int8 where q1 < 0)) from rr_int8;
select array(select f1 from rr_int4 order by f1), array(select array[i, k] from rr_j2 where i = 5);
select (select array_agg(x order by x) from (select two from rr_ten group by two having count(*) > a.i) s (x)) from rr_j1 a;
select count(*) from (select 1 from rr_ten a where u1 in (select hundred from rr_ten b)) ss;
select count(distinct ss.ten) from (select ten from rr_ten a where u1 in (select hundred from rr_ten b)) ss;
select q1, float8(count(*)) / (select count(*) from rr_int8) from rr_int8 group by q1 order by q1;
select (select (array(select i from rr_j2 where i = y.i order by k))[1]) from rr_j1 y;
select i, exists (select 1 from rr_j2 where k = i), exists (select 1 from rr_j2 where rr_j2.k = rr_j1.i) from rr_j1 where i < 4;
select ss.f1, ss.s from (select f1, (select sum(q2) from rr_int8 where q1 > f1) s from rr_int4) ss where ss.s is not null;
select avg((select avg(a1.i order by (select count(*) from rr_j2 limit 0)) from rr_j1 a1 where a1.i = t.two))::numeric(5,2) from rr_ten t;
select (select max((select i.u2 from rr_ten i where i.u1 = o.u1))) from rr_ten o;
select (select count(*) filter (where o.two = 1) from rr_j2 where i = 2) from rr_ten o where u1 < 7 group by four;
select sum(ss.tst::int) from rr_ten o cross join lateral (select i.ten in (select f1 from rr_int4 where f1 <= o.hundred) as tst, random() as r from rr_ten i where i.u1 = o.u1) ss where o.ten = 0;
select u1, (select (select u1 + b.u1) from rr_ten b where b.u2 = a.u1) from rr_ten a where u1 < 4;
select * from (select max(u1) from rr_ten as a where exists (select 1 from rr_ten as b where b.u2 = a.u1)) ss;
select * from rr_j1 o where (select true from rr_j2 i where i.i = o.i and i.k = o.j - 3 limit 1);
select * from rr_j1 where exists (select 1 from rr_j2 where rr_j2.i = rr_j1.i or rr_j2.k = rr_j1.j);
select f1 from rr_int4 where f1 in (select q1 from rr_int8 union select i from rr_j1 except select k from rr_j2);
select * from (values (3 not in (select * from (values (1), (2)) ss1)), (false)) ss;
select * from rr_int4 where case when f1 in (select i from rr_j1) then f1 = 0 else f1 < 0 end;
select count(*) from rr_ten t where (exists (select 1 from rr_ten k where k.u1 = t.u2) or ten < 0);
select u1 from rr_ten t where exists (select from rr_ten k where k.u1 = t.u2 and exists (select from rr_j1 where i = k.ten and exists (select from rr_j2 where k = t.four))) and u1 < 50;
select a.thousand from (select hundred % 13 as thousand, count(*) from rr_ten group by 1 having count(*) > (select avg(c) from (select count(*) c from rr_ten group by hundred % 13) s)) a order by 1;
select (select depname from rr_dept where boss = e.empno), e.salary from rr_emp e where salary = (select max(salary) from rr_emp f where f.depname = e.depname);
select e.depname, e.empno, (select count(*) + 1 from rr_emp f where f.depname = e.depname and f.salary > e.salary) as rank from rr_emp e;
select depname from rr_dept d where 2 < (select count(*) from rr_emp where depname = d.depname) and boss in (select empno from rr_emp where salary > all (select salary - 1 from rr_emp x where x.depname = rr_emp.depname));
select (select u1 from rr_ten where u1 = 500) is null, coalesce((select u1 from rr_ten where u1 = 500), (select min(u1) from rr_ten));
select t.u1, s.* from rr_ten t, lateral (select count(*) c, max(k) m from rr_j2 where i = t.ten) s where t.u1 between 10 and 16;
select i, k from rr_j2 where (i, k) in (select i, k from rr_j2 group by i, k having count(*) > 1);
select id, d -> 'name' from rr_doc where exists (select 1 from jsonb_array_elements_text(d -> 'list') e join rr_ten on u1 = e::int where two = 1 and ten > 5);
select l.t, (select string_agg(label, '/' order by id) from rr_tree where id <= l.id) from rr_loc l where l.id in (select parent from rr_tree);
select * from rr_j1 where i = (select i from rr_j2 where k < 0);
select * from rr_j1 where (i, j) in (select i from rr_j2);
