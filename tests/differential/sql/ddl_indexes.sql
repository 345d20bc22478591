-- Indexes on distributed tables.
--! setup
create table idx (id int primary key, a int, b text, j jsonb, arr int[], r int4range, p point);
--! distribute idx id
insert into idx values (1, 1, 'x', '{"k": 1}', '{1,2}', '[1,5)', '(1,1)'), (2, 2, 'y', '{"k": 2}', '{3}', '[6,9)', '(2,2)'),
    (3, 2, 'z', null, null, null, null);
--! reset
drop index if exists idx_a, idx_b, idx_c, idx_new, idx_conc;
--! teardown
drop table if exists idx;
--! tests
create index idx_a on idx (a);
create index idx_a on idx (a);
create index if not exists idx_a on idx (a);
create index idx_b on idx (lower(b)) where a > 1;
create index on idx (a, b desc nulls last);
create index on idx using gin (j);
create index on idx using gin (arr);
create index on idx using gist (r);
create index on idx using gist (p);
create index on idx using brin (a);
create index on idx using hash (b);
create index on idx (b text_pattern_ops);
create index on idx (a) include (b);
create index on idx (b collate "C") with (fillfactor = 70);
create unique index idx_c on idx (id, a);
create unique index on idx (id, a, b) nulls not distinct;
insert into idx values (1, 1, 'dup');
alter index idx_a rename to idx_new;
alter index idx_new set (fillfactor = 80);
reindex index idx_new;
reindex table idx;
select indexname from pg_indexes where tablename = 'idx' and indexname in ('idx_new', 'idx_b', 'idx_c', 'idx_pkey');
select id from idx where a = 2;
select id from idx where j @> '{"k": 2}';
select id from idx where arr && array[3];
select id from idx where r @> 3;
comment on index idx_new is 'an index';
create index idx_bad on idx using nosuch (a);
create index idx_bad on idx (a nosuch_ops);
cluster idx using idx_pkey;
create statistics idx_stat (dependencies) on a, b from idx;
drop statistics idx_stat;
drop index idx_new;
drop index idx_new;
drop index if exists idx_new;
drop index idx_b, idx_c;
alter table idx add constraint idx_u unique (id, b);
alter table idx drop constraint idx_u;
alter table idx drop constraint idx_pkey;
alter table idx add primary key (id);
