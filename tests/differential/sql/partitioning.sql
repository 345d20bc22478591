-- What rows are partitioned by, with what outer joins, NULLs, LIMIT and windows do to it.
--! setup
create table pa (k int, x int, s text);
create table pb (k int, x int, s text);
create table pc (k int, y int);
create table pt (k int primary key, x int);
--! distribute pa k
--! distribute pb k colocate_with => 'pa'
--! distribute pc k colocate_with => 'pa'
--! distribute pt k colocate_with => 'pa'
--! reset
truncate pa, pb, pc, pt;
insert into pa select g, g % 7, 's' || g % 3 from generate_series(1, 40) g;
insert into pb select g, g % 5, 's' || g % 4 from generate_series(1, 40, 3) g;
insert into pc select g, g % 4 from generate_series(1, 40, 2) g;
--! tests
select b.k is null as missing, count(*) from pa a left join pb b on a.k = b.k group by b.k having count(*) > 1;
select count(*) from (select b.k, count(*) from pa a left join pb b on a.k = b.k group by b.k) g;
select count(*) from (select distinct b.k from pa a left join pb b on a.k = b.k) d;
select count(*) from (select distinct on (b.k) b.k, a.x from pa a left join pb b on a.k = b.k order by b.k, a.x) d;
select max(n) from (select count(*) over (partition by b.k) as n from pa a left join pb b on a.k = b.k) w;
select count(*) from (select a.k, count(*) from pb b right join pa a using (k) group by a.k) g;
select count(*) from (select b.k from pb b right join pa a on a.k = b.k group by b.k) g;
select count(*) from (select k from pa full join pb using (k) group by k) g;
select count(*) from (select b.k from pa a full join pb b on a.k = b.k and a.x = 1 group by b.k) g;
select count(*) from (select s.k from pa a left join (select k from pb where x = 1) s on s.k = a.k group by s.k) g;
select count(*) from (select s.k from pa a left join lateral (select b.k from pb b where b.k = a.k) s on true group by s.k) g;
select count(*) from (select c.k from pa a left join (pb b join pc c on b.k = c.k) on a.k = b.k group by c.k) g;
select count(*), count(b.k), count(c.k) from pa a left join pb b on a.k = b.k left join pc c on c.k = b.k;
select count(*), count(b.k), count(c.k) from pa a left join pb b on a.x = b.x left join pc c on a.k = c.k and c.k = b.k;
select a.k, b.k from pa a left join pb b on a.k = b.k where b.k = 4;
select a.k, b.k from pa a left join pb b on a.k = b.k where a.k = 5;
select a.k, b.k from pa a left join pb b on a.k = b.k and a.k = 4 where a.k < 6;
select a.k, b.k from pa a left join pb b on a.k = b.k and b.k = 4 where a.k < 6;
select count(*) from pa where k not in (select k from pb where k is not null);
select count(*) from pa a where not (a.k in (select k from pb));
select count(*) from pa a where (a.k in (select k from pb)) is null;
select count(*) from pa a where (a.k in (select k from pb)) is not true;
select count(*) from pa a where a.k in (select k from pb) or a.x = 1;
select count(*) from pa a where a.k in (select k from pb);
select a.k in (select k from pb) as found, count(*) from pa a group by 1;
select count(*) from pa a where a.k in (select k from pb order by x, k limit 5);
select count(*) from (select k from pa order by x, k limit 5) s where s.k = 14;
select n from (select k, row_number() over (order by x, k) as n from pa) s where s.k = 14;
select x from (select distinct on (x) k, x from pa order by x, k desc) s where s.k = 14;
select n from (select k, row_number() over (partition by k order by x) as n from pa) s where s.k = 14;
select count(*) from pa a where exists (select 1 from pb b where b.k = a.k);
select count(*) from pa a where not exists (select 1 from pb b where b.k = a.k);
insert into pb values (null, 1, 'n'), (null, 2, 'n');
insert into pa select b.k, a.x, 'j' from pa a left join pb b on a.k = b.k where a.k in (2, 3, 5, 6);
select count(*) from pa where k is null;
delete from pa where k not in (select k from pb);
delete from pa where (k in (select k from pb)) is null;
update pa set x = 0 where k not in (select k from pc);
merge into pt t using (select 5 as k, 1 as x union all select 6, 2) s on t.k = s.k and s.k = 5 when not matched then insert values (s.k, s.x);
--! teardown
drop table pa, pb, pc, pt;
