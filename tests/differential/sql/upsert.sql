-- ON CONFLICT on one and on many shards.
--! setup
create table ups (id int primary key, n int not null default 0, t text);
create table ups_pair (x int, y int, n int, primary key (x, y));
create table ups_ref (id int primary key, n int);
--! distribute ups id
--! distribute ups_pair x
--! reference ups_ref
--! reset
delete from ups;
delete from ups_pair;
delete from ups_ref;
insert into ups values (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c');
insert into ups_pair values (1, 1, 1);
insert into ups_ref values (1, 1);
--! teardown
drop table if exists ups, ups_pair, ups_ref;
--! tests
insert into ups values (1, 10, 'x') on conflict do nothing;
insert into ups values (1, 10, 'x') on conflict (id) do nothing;
insert into ups values (4, 4, 'd') on conflict (id) do nothing;
insert into ups values (1, 10, 'x') on conflict do nothing returning id;
insert into ups values (1, 10, 'x') on conflict (id) do update set n = excluded.n;
insert into ups values (1, 10, 'x') on conflict (id) do update set n = ups.n + excluded.n, t = 'up' returning *;
insert into ups as u values (1, 5, 'x') on conflict (id) do update set n = u.n + 1 where u.n > 100;
insert into ups values (2, 20, 'x') on conflict on constraint ups_pkey do update set t = excluded.t returning id, t;
insert into ups values (1, 0, 'm'), (2, 0, 'm'), (50, 0, 'm'), (51, 0, 'm') on conflict (id) do update set t = excluded.t;
insert into ups values (1, 0, 'n'), (60, 0, 'n') on conflict do nothing returning id;
insert into ups values (70, 0, 'n'), (70, 1, 'n') on conflict (id) do update set n = excluded.n;
insert into ups values (71, 0, 'n'), (71, 1, 'n') on conflict do nothing;
-- params: 3, 33, p
insert into ups values ($1, $2, $3) on conflict (id) do update set n = excluded.n, t = excluded.t;
-- params: 3
insert into ups (id) values ($1) on conflict (id) do update set n = ups.n + 1 returning n;
insert into ups (id) select g from generate_series(1, 5) g on conflict (id) do update set n = 99;
insert into ups values (1, 1) on conflict (n) do nothing;
insert into ups values (1, 1) on conflict (nosuch) do nothing;
insert into ups values (1, 1) on conflict do update set n = 1;
insert into ups values (1, null) on conflict (id) do update set n = 5;
insert into ups values (1, 5) on conflict (id) do update set n = null;
insert into ups values (1, 5) on conflict (id) do update set n = 1 / 0;
insert into ups_pair values (1, 1, 5) on conflict (x, y) do update set n = ups_pair.n + 5 returning *;
insert into ups_pair values (1, 1, 5), (2, 2, 6) on conflict (x, y) do nothing;
insert into ups_ref values (1, 5), (2, 6) on conflict (id) do update set n = excluded.n returning *;
-- ordered
select * from ups order by id;
-- ordered
select * from ups_pair order by x, y;
-- ordered
select * from ups_ref order by id;
-- ordered
select id, xmax = 0 as fresh from ups where id = 1 order by id;
