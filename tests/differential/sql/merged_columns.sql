-- Columns that USING and NATURAL merge: where they stand in the order of columns, what names given to a join mean, what `*` gives.
--! teardown
drop table if exists mc_a, mc_b, mc_c, mc_d, mc_by_k, mc_big, mc_double, mc_numeric, mc_char, mc_text cascade;
--! setup
create table mc_a (k integer, x integer, t text collate "POSIX");
create table mc_b (k integer, x integer, u text);
create table mc_c (x integer, w text);
create table mc_d (code integer, x integer);
create table mc_by_k (k int, n int);
create table mc_big (k bigint, v int);
create table mc_double (n double precision);
create table mc_numeric (n numeric);
create table mc_char (k int, code char(5));
create table mc_text (j int, code text);
--! distribute mc_a k
--! distribute mc_b k colocate_with => 'mc_a'
--! distribute mc_c x colocate_with => 'none'
--! reference mc_d
--! distribute mc_by_k k colocate_with => 'none'
--! distribute mc_big k colocate_with => 'none'
--! distribute mc_char k colocate_with => 'none'
--! distribute mc_text j colocate_with => 'none'
--! reference mc_double
--! reference mc_numeric
insert into mc_by_k select g, g % 4 from generate_series(1, 40) g;
insert into mc_big select g, g from generate_series(1, 40) g;
insert into mc_double values (1), (2), (3);
insert into mc_numeric values (1.00), (2.000);
insert into mc_char select g, 'ab' from generate_series(1, 10) g;
insert into mc_text select g, 'ab' from generate_series(1, 10) g;
insert into mc_a select i, i % 7, 'a' || i from generate_series(1, 30) i;
insert into mc_b select i, i % 5, 'b' || i from generate_series(11, 40) i;
insert into mc_c select i, 'w' || i % 3 from generate_series(1, 9) i;
insert into mc_d select i, i % 4 from generate_series(1, 6) i;
--! tests
-- The first column of the join is the merged one, whatever the tables have first.
select count(*) from (mc_a join mc_b using (x)) as j(p, q, r, s, v) where j.p = 3;
select count(*) from (mc_a join mc_b using (x)) as j(p, q, r, s, v) where j.q = 13;
select count(*) from (mc_a join mc_b using (x, k)) as j(p, q, r, s) where j.p = 3;
select count(*) from (mc_a join mc_b using (x, k)) as j(p, q, r, s) where j.q = 13;
select count(*) from (mc_a join mc_b using (x, k)) as j(p, q, r, s) join mc_a a on j.p = a.k;
select count(*) from (mc_a join mc_b using (x, k)) as j(p, q, r, s) join mc_a a on j.q = a.k;
select p, count(*) from (mc_a join mc_b using (x, k)) as j(p, q, r, s) group by p;
select p, q, row_number() over (partition by p order by q) from (mc_a join mc_b using (x, k)) as j(p, q, r, s);
select p, q from (mc_a right join mc_b using (x)) as j(p, q) where p = 4;
select p, q from (mc_a full join mc_b using (k)) as j(p, q) where p in (5, 15, 35);
select distinct p from (mc_a join mc_b using (x, k)) as j(p);
select j.p, c.w from (mc_a join mc_b using (x, k)) as j(p, q) join mc_c c on c.x = j.p;
select p, q, r from (mc_a natural join mc_d) as j(p, q, r) where p = 2;
select p, q from ((mc_a join mc_b using (k)) join mc_d on mc_d.code = mc_a.x) as j(p, q) where p < 15;
select p, q from ((mc_a join mc_b using (k, x)) left join mc_d using (x)) as j(p, q) where q = 13;
-- Of a function's columns nothing is known: neither of those behind them.
select count(*) from (generate_series(1, 3) g join mc_a on g = x) as j(p, q) where p = 3;
select count(*) from (generate_series(1, 3) g join mc_a on g = x) as j(p, q) where q = 10;
select count(*) from (generate_series(1, 9) g join mc_a on g = x) as j(p, q) join mc_b b on b.k = j.p;
-- Names of columns that a named join hides mean others.
select count(*) from (mc_a join mc_b using (k)) as j(p), mc_c where x = 5;
select count(*) from (mc_a join mc_b using (x)) as j(p, q, r, s, v), mc_c where x = 5;
-- `*`.
-- ordered
select * from mc_a join mc_b using (k) order by t, k;
-- ordered
select * from mc_a left join mc_b using (k) order by t, k;
-- ordered
select * from mc_a full join mc_b using (k) order by t, u;
-- ordered
select * from mc_a join mc_b using (x, k) order by 1, 2;
-- ordered
select * from mc_a natural join mc_b order by t desc;
-- ordered
select *, row_number() over (order by k) from mc_a join mc_b using (k) order by k;
select *, count(*) over (partition by x) from mc_a natural join mc_b;
select *, count(*) over () from (mc_a join mc_b using (k)) join mc_d d on d.code = mc_a.x;
select *, count(*) over () from mc_a join mc_b using (k), mc_d where mc_d.code = 2 and k < 20;
select *, count(*) over () from mc_a join mc_b using (k), mc_a other where other.k = 2 and mc_a.k < 20;
select distinct * from mc_a join mc_b using (k) where k > 25;
select s.k, s.t, count(*) from (select * from mc_a join mc_b using (k)) s group by s.k, s.t;
select s.q, s.p from (select * from mc_a join mc_b using (k)) s(p, q) where s.p = 20;
select count(*) from (select * from mc_a full join mc_b using (k)) s join mc_c c on c.x = s.k;
select count(*) from (select * from mc_a join mc_b using (k, x)) s join mc_b b on b.k = s.k;
select mc_a.*, mc_b.u from mc_a join mc_b using (k) order by t limit 3;
update mc_a set t = t from mc_b join mc_c using (x) where mc_b.k = mc_a.k and mc_a.k = 12 returning *;
-- HAVING alone does not look at rows.
select 1 as one from mc_a where 1 / (x - 3) = 1 having 1 < 2;
select 1 as one from mc_a where 1 / (x - 3) = 1 having 1 > 2;
select count(*) from (select 1 from mc_a having true) s;
-- columns of two types become one of a third
select avg(n) from mc_by_k join mc_double using (n);
-- ordered
select n, mc_by_k.n, count(*) over () from mc_by_k join mc_numeric using (n) order by 1, 2;
-- ordered
select n, mc_by_k.n, count(*) from mc_by_k join mc_numeric using (n) group by n, mc_by_k.n order by 1, 2;
select n, count(*) from mc_by_k left join mc_numeric using (n) group by n;
select count(*) from mc_char join mc_text using (code) where code like 'ab';
select count(*) from mc_char join mc_text using (code) where code <> 'ab ';
select count(*) from mc_char natural join mc_text;
select k, mc_by_k.k, n, v from mc_by_k join mc_big using (k) where k = 7;
select k, n, v from mc_by_k left join mc_big using (k) where k = 7;
select k, n, v from mc_by_k right join mc_big using (k) where k = 7;
select count(*), sum(k), avg(k), max(mc_by_k.k) from mc_by_k join mc_big using (k);
