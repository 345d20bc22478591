-- ORDER BY: expressions, positions, aliases, NULLs, collations, columns that are not selected.
--! include events
--! setup
create table ord_r (k int primary key, r int4range, t text);
insert into ord_r select i, case when i % 5 > 0 then int4range(i % 3, null) end, 'T' || i % 4 from generate_series(1, 30) i;
--! distribute ord_r k
--! teardown
drop table if exists ord_r;
--! tests
-- Types that PostgreSQL alone compares, some of the items among the columns and some not.
-- ordered
select m.r, k from ord_r m order by m.r, m.k;
-- ordered
select m.r, k from ord_r m order by m.r nulls first, m.k desc limit 4 offset 1;
-- ordered
select k, m.r from ord_r m order by m.k % 3, r, m.k;
-- ordered
select *, k + 1 as n from ord_r m order by m.r, n desc;
-- ordered
select m.r, k, t from ord_r m order by 1 desc, m.t, m.k limit 5;
-- ordered
select lower(m.r), k from ord_r m order by lower(m.r), m.r, m.k desc;
-- ordered
select m.r, k from ord_r m order by k % 2, m.r, m.k offset 25;
-- ordered
select m.t collate "C", k from ord_r m order by m.t collate "C", m.r, m.k;
-- ordered
select id from events order by id;
-- ordered
select id from events order by id desc;
-- ordered
select id, note from events order by note, id;
-- ordered
select id, note from events order by note desc, id desc;
-- ordered
select note from events order by note collate "C", id;
-- ordered
select note from events order by lower(note), id;
-- ordered
select note from events order by note collate "POSIX" desc, id;
-- ordered
select k, id from events order by k, id;
-- ordered
select k, id from events order by k desc, id;
-- ordered
select k, id from events order by k nulls first, id;
-- ordered
select k, id from events order by k desc nulls last, id desc;
-- ordered
select id from events order by k, id;
-- ordered
select id from events order by grp nulls first, amount desc, id;
-- ordered
select id from events order by note, id;
-- ordered
select note from events order by id;
-- ordered
select id, k * 2 as twice from events order by twice nulls first, id;
-- ordered
select id, grp from events order by 2, 1;
-- ordered
select id, grp from events order by 2 desc nulls last, 1 desc;
-- ordered
select id from events order by -id;
-- ordered
select id from events order by id % 7, -id;
-- ordered
select id from events order by case when flag then 0 when not flag then 1 else 2 end, id;
-- ordered
select id from events order by length(note) desc, note, id;
-- ordered
select id from events order by abs(id - 30), id;
-- ordered
select id, amount from events order by amount, id;
-- ordered
select id, f from events order by f desc;
-- ordered
select id, at from events order by at desc;
-- ordered
select id, flag from events order by flag, id;
-- ordered
select id, flag from events order by flag desc nulls first, id;
-- ordered
select * from events order by grp, id;
-- ordered
select * from events order by 4 desc, id;
-- ordered
select id as note, note as other from events order by note;
-- ordered
select id from events where k = 3 order by note desc, id;
-- ordered
select id from events where id in (3, 30, 44) order by id desc;
-- ordered
select id from events where id = 3 order by id;
-- ordered
select id from events order by id using >;
-- ordered
select event_id, no, tag from items order by tag nulls first, event_id desc, no;
-- ordered
select event_id, no from items order by qty desc, event_id, no;
-- ordered
select array[k, id] as a from events order by a desc;
-- ordered
select (k, id) from events order by row(k, id);
-- ordered
select id from events order by at::date desc, id;
-- ordered
select id, upper(grp) as grp from events order by grp nulls first, id;
-- ordered
select id, note || '!' as n from events order by note || '!' , id;
-- ordered
select code from kinds order by weight nulls first, code;
-- ordered
select remark from plain_notes order by remark desc nulls last;
-- params: 3
-- ordered
select id from events order by id % $1::int, id;
select id from events order by 3;
select id as a, k as a from events order by a;
select id from events order by nosuch;
select id from events order by note collate "nosuch";
-- ordered
select 'x' as x, id from events order by x, id desc;
-- ordered
select id from events order by null, id;
-- ordered
select id from events order by (select 1), id;
-- The order of a subquery, where what reads it lets it through: PostgreSQL keeps it.
-- ordered
select * from (select id, k from events order by k, id desc) s;
-- ordered
select s.* from (select id, k from events order by note, id) s limit 7;
-- ordered
select x.n + 1 from (select s.id as n from (select id, k from events order by k desc nulls last, id) s where s.k > 3) x offset 2 limit 5;
-- params: 5
-- ordered
select id from (select id, note from events order by note desc, id) s where id > $1 limit 9;
-- ordered
select row_to_json(s) from (select id, k from events order by k, id) s;
-- ordered
select * from (select distinct k from events order by k) s;
-- ordered
select s.id, (select count(*) from items i where i.event_id = s.id) from (select id from events order by id desc) s;
-- ordered
with s as (select id from events order by id) select id from s limit 4;
-- ordered
with s as materialized (select id from events order by id desc) select id from s where id > 5;
select array_agg(id) from (select id from events order by id) s;
select string_agg(note, '|') from (select note from events order by note desc, id) s;
select json_agg(id), count(*), sum(k) from (select id, k from events order by k, id) s;
select json_arrayagg(id) from (select id, k from events order by k, id) s;
select array_agg(s) from (select id, k from events where id < 9 order by k, id) s;
select grp, array_agg(id), max(k) from (select grp, k, id from events order by k desc, id) s group by grp;
select grp, array_agg(id order by id) from (select grp, k, id from events order by k desc, id) s group by grp;
select id, array_agg(no) from (select event_id as id, no from items order by no desc) s group by id;
select n, array_agg(id) from (select id, n from (select id, k as n from events order by id desc) x) s group by 1 having count(*) > 2;
select array_agg(id) from (select id from events order by id limit 5) s;
select (array_agg(id))[1:3] from (with w as (select id from events order by id desc) select id from w) s;
select count(*), min(id) from (select id from events order by id) s;
select array(select id from (select id from events order by id desc) s where id < 6);
-- ordered
select id, row_number() over (), lag(id) over () from (select id from events order by id) s;
-- ordered
select id, count(*) over (partition by id) from (select id, k from events order by k, id) s order by id;
