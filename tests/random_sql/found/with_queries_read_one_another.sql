-- A WITH query that is run by itself and reads another one was sent to the nodes without that.
--! {"setup": true}
create table d (k int, v int);
--! {"herd_only": true, "setup": true}
select create_distributed_table('d', 'k');
--! {"writes": true}
insert into d select n, n % 5 from generate_series(1, 20) n;
--! {}
with w0 as (select v from d), w1 as (select v from w0 where v = 1) select count(*) from w1 a join w1 b on a.v = b.v;
--! {}
with w0 as (select v c0 from d where k <> 7), w1 as (select c0 c1 from w0) select q3.c1 from w1 q3 join w1 a4 on q3.c1 = a4.c1 order by 1;
--! {"setup": true}
create table w2 (k int, v int);
--! {"herd_only": true, "setup": true}
select create_distributed_table('w2', 'k');
--! {"writes": true}
insert into w2 values (1, 77), (2, 78), (3, 79);
--! {}
with w1 as (select v from w2), w2 as (select v from d) select count(*), max(a.v) from w1 a join w1 b on a.v = b.v;
