-- Two colocated tables, a reference table and a local one, with NULLs, orphans on both sides and mixed-case text.
--! setup
create table events (
    id int primary key, k int, grp text, amount numeric(10,2), f float8, flag bool, at timestamp, note text
);
create table items (event_id int, no int, qty bigint, tag varchar(20), primary key (event_id, no));
create table kinds (code text primary key, label text not null, weight int);
create table plain_notes (n int primary key, remark text);
insert into events select i, nullif(i % 10, 0), case when i % 11 = 0 then null else chr(97 + i % 5) end,
    (i * 37 % 1000) / 10.0, i * 0.5, case when i % 7 = 0 then null else i % 3 = 0 end,
    timestamp '2024-01-01' + i * interval '1 hour',
    (array['apple', 'Banana', 'cherry', 'äpfel', 'Zebra', '_x', '10', '9', ''])[i % 9 + 1] || (i % 4)
    from generate_series(1, 60) i;
insert into items select e, n, e * n, case when (e + n) % 4 = 0 then null else 'tag' || (e + n) % 3 end
    from generate_series(1, 66) e, generate_series(1, 3) n where n <= e % 4;
insert into kinds values ('a', 'alpha', 1), ('b', 'beta', 2), ('c', 'gamma', null), ('d', 'delta', 4), ('z', 'unused', 0);
insert into plain_notes values (1, 'one'), (2, 'two'), (3, null);
--! distribute events id
--! distribute items event_id colocate_with => 'events'
--! reference kinds
--! teardown
drop table if exists items;
drop table if exists events;
drop table if exists kinds;
drop table if exists plain_notes;
