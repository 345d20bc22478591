-- Reference tables: written everywhere, joined with every kind of table on any node.
--! setup
create table ref_kind (id int primary key, code text unique, weight int check (weight >= 0), parent int references ref_kind (id));
create table ref_tag (id bigserial primary key, tag text not null default 'none', made timestamptz default now());
create table ref_fact (id int primary key, kind int references ref_kind (id), n int);
create table ref_by_list (region text, id int, kind int);
create table ref_by_range (id int primary key, kind int);
create table ref_local (id int primary key, kind int);
--! reference ref_kind
--! reference ref_tag
--! distribute ref_fact id
--! distribute ref_by_list region strategy => 'list', bounds => array['IN (''a'')', 'DEFAULT']
--! distribute ref_by_range id strategy => 'range', bounds => array['FROM (MINVALUE) TO (10)', 'FROM (10) TO (MAXVALUE)']
--! reset
delete from ref_fact;
delete from ref_kind;
delete from ref_tag;
delete from ref_by_list;
delete from ref_by_range;
delete from ref_local;
alter sequence ref_tag_id_seq restart;
insert into ref_kind values (1, 'one', 1, null), (2, 'two', 2, 1), (3, 'three', null, 1), (4, 'four', 0, 3);
insert into ref_fact select i, nullif(i % 5, 0), i * 10 from generate_series(1, 30) i;
insert into ref_by_list select (array['a', 'b', 'c'])[i % 3 + 1], i, i % 5 from generate_series(1, 12) i;
insert into ref_by_range select i, i % 6 from generate_series(1, 20) i;
insert into ref_local select i, i from generate_series(1, 6) i;
--! teardown
drop table if exists ref_fact;
drop table if exists ref_kind, ref_tag, ref_by_list, ref_by_range, ref_local;
--! tests
select * from ref_kind;
-- params: 2
select code from ref_kind where id = $1;
-- ordered
select code from ref_kind order by code;
select k.code, p.code from ref_kind k left join ref_kind p on p.id = k.parent;
with recursive up as (select id, parent, 1 as depth from ref_kind where id = 4 union all select k.id, k.parent, depth + 1 from ref_kind k join up on k.id = up.parent) select * from up;
select f.id, k.code from ref_fact f join ref_kind k on k.id = f.kind;
select f.id, k.code from ref_fact f join ref_kind k on k.id = f.kind where f.id = 7;
select f.id, k.code, p.code from ref_fact f left join ref_kind k on k.id = f.kind left join ref_kind p on p.id = k.parent;
select k.code, count(*), sum(f.n) from ref_fact f join ref_kind k on k.id = f.kind group by k.code;
-- ordered
select k.code, f.id from ref_fact f join ref_kind k on k.id = f.kind order by k.code, f.id desc limit 6;
select f.id from ref_fact f where kind in (select id from ref_kind where weight > 1);
select f.id, (select code from ref_kind k where k.id = f.kind) from ref_fact f where f.id < 8;
select f.id from ref_fact f where not exists (select 1 from ref_kind k where k.id = f.kind);
select r.id, k.code from ref_by_range r join ref_kind k on k.id = r.kind;
select l.region, l.id, k.code from ref_by_list l join ref_kind k on k.id = l.kind;
select l.region, count(k.id) from ref_by_list l left join ref_kind k on k.id = l.kind group by l.region;
select l.id, k.code from ref_by_list l join ref_kind k on k.id = l.kind where l.region = 'a';
select r.id, k.code from ref_by_range r join ref_kind k on k.id = r.kind where r.id = 13;
select o.id, k.code from ref_local o join ref_kind k on k.id = o.kind;
select o.id, k.code from ref_local o left join ref_kind k on k.id = o.kind;
select o.id, k.code from ref_kind k right join ref_local o on k.id = o.kind;
select k.code, f.id from ref_kind k, ref_fact f where k.id = f.kind and k.code = 'two';
select k.code from ref_kind k where k.id = (select max(kind) from ref_fact);
select count(*) from ref_kind k, ref_tag t;
select max(k.weight), (select count(*) from ref_fact) from ref_kind k;
insert into ref_kind values (5, 'five', 5, 2) returning *;
insert into ref_kind values (6, 'six', -1, null);
insert into ref_kind values (1, 'again', 1, null);
insert into ref_kind values (7, 'one', 1, null);
insert into ref_kind values (7, 'seven', 1, 99);
insert into ref_kind values (7, 'seven', 7, 1), (8, 'eight', 8, 7) returning id;
insert into ref_kind values (7, 'sieben', 7, 1) on conflict (id) do update set code = excluded.code returning id, code;
insert into ref_kind select id + 100, code || '+', weight, null from ref_kind where id < 3 returning id, code;
insert into ref_kind (id, code) select 200 + kind, 'from fact ' || kind from ref_fact where kind is not null group by kind returning id, code;
-- rows vary
insert into ref_tag (tag) values ('x'), ('y') returning id, made;
insert into ref_tag (tag) values ('z') returning id, tag;
insert into ref_tag default values returning id, tag;
-- params: p
insert into ref_tag (tag) values ($1) returning id, tag;
select id, tag, made is null from ref_tag;
update ref_kind set weight = coalesce(weight, 0) + 1 where id < 4 returning id, weight;
update ref_kind set weight = -5 where id = 2;
update ref_kind k set weight = p.weight from ref_kind p where p.id = k.parent and k.id = 5 returning k.id, k.weight;
update ref_tag set tag = upper(tag) where id = 1 returning tag;
update ref_kind set id = 50 where id = 8 returning *;
delete from ref_kind where id = 1;
delete from ref_kind where id > 100 returning id;
delete from ref_kind where id = 12345;
insert into ref_fact values (100, 50, 0), (101, 999, 0);
insert into ref_fact values (100, 50, 0), (101, null, 0) returning *;
begin;
insert into ref_kind values (60, 'sixty', 1, null);
insert into ref_fact values (102, 60, 1);
select f.id, k.code from ref_fact f join ref_kind k on k.id = f.kind where k.id = 60;
select count(*) from ref_fact f join ref_kind k on k.id = f.kind;
savepoint s;
insert into ref_kind values (60, 'sixty', 1, null);
rollback to s;
update ref_kind set code = 'sechzig' where id = 60 returning code;
rollback;
select count(*) from ref_kind where id = 60;
copy ref_kind (id, code, weight) from stdin;
70	siebzig	7
71	einundsiebzig	\N
\.
select * from ref_kind where id >= 70 and id < 80;
copy ref_kind (id, code, weight) from stdin;
72	zweiundsiebzig	7
70	again	1
\.
copy (select id, code from ref_kind where id in (70, 71, 72) order by id) to stdout;
truncate ref_tag;
select count(*) from ref_tag;
select id from ref_kind for update;
