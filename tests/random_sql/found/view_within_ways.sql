-- A view over tables that are not colocated, read in a subquery whose rows are sent: what is read for a way is planned by itself, and had ways
-- again, without end.
--! {"setup": true}
create table r (id int4, label text, val int4);
--! {"herd_only": true, "setup": true}
select create_reference_table('r');
--! {"setup": true}
create table v (a int8 primary key, b numeric, n timestamptz, m timestamptz);
--! {"herd_only": true, "setup": true}
select create_distributed_table('v', 'a', colocate_with => 'none');
--! {"setup": true}
create table w (id int8, name text, primary key (id));
--! {"herd_only": true, "setup": true}
select create_distributed_table('w', 'id', colocate_with => 'v');
--! {"setup": true}
create table d (q int2, u float8);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'q', strategy => 'list', bounds => array['IN (0, 1, 2, NULL)', 'DEFAULT']);
--! {"writes": true}
insert into r select i, 'r' || i, i % 4 from generate_series(1, 9) i;
--! {"writes": true}
insert into v select i, i / 3.0, '2024-01-01', '2024-01-02' from generate_series(1, 12) i;
--! {"writes": true}
insert into w select i, 'w' || i from generate_series(1, 12) i;
--! {"writes": true}
insert into d select i % 5, i from generate_series(1, 20) i;
--! {"writes": true}
create view s (c0) as select b.q as c0 from d a cross join d b left join w c on b.q = c.id where b.q = 3::int2 group by grouping sets ((b.q), (b.q), ());
--! {"herd_only": true}
set herd.broadcast = on;
--! {"any_of_equals": true}
select * from s;
--! {"any_of_equals": true}
with w0 (c0, c1) as materialized (select avg(x.b) as c0, count(*) as c1 from v x where (x.b = 3.5 and x.a in (select y.id from w y where y.id = 3)) having count(*) < 1) select z.a as c0, (select max(case when exists (select r1.id from r r1 join s r2 on r1.val = r2.c0 join v t2 on r1.val = t2.a where t2.m is distinct from t2.n order by t2.a desc) then q8.c1 else q8.c1 end) from w0 q8 right join r q9 on true) as c2 from v z where z.b is distinct from 5;
--! {"herd_only": true}
set herd.shuffle = on;
--! {"any_of_equals": true}
select z.a, exists (select from r r1 join s r2 on r1.val = r2.c0 join v t2 on r1.val = t2.a where t2.m is distinct from t2.n) from v z;
