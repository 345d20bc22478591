-- UPDATEs that may change keys where what guards them must not change which rows they find: policies, foreign keys at other levels, values that are equal only by type.
--! setup
create role kg_bob;
create table kg_seen (id int, v text, seen bool default true);
create table kg_num (k numeric primary key, b int);
create table kg_float (k float8 primary key, b int);
create table kg_json (k jsonb primary key, v int);
create table kg_time (id int, at date, v int, primary key (id, at)) partition by range (at);
create table kg_ref (id int, at date);
alter table kg_seen enable row level security;
create policy kg_update on kg_seen for update using (true);
create policy kg_select on kg_seen for select using (seen);
grant all on kg_seen to kg_bob;
--! distribute kg_seen id
--! distribute kg_num k
--! distribute kg_float k
--! distribute kg_json k
--! distribute kg_time id
--! distribute kg_ref id
--! reset
alter table kg_ref drop constraint if exists kg_ref_fk;
delete from kg_ref;
drop table if exists kg_time_1;
delete from kg_seen;
delete from kg_num;
delete from kg_float;
delete from kg_json;
create table kg_time_1 partition of kg_time for values from ('2026-01-01') to ('2027-01-01');
insert into kg_seen values (1, 'a', true), (1, 'b', false), (2, 'c', false);
insert into kg_num values (0.1000000000000000055, 1), (2, 2);
insert into kg_float values (0.1, 3), (2, 4);
insert into kg_json values ('{"a": 1}', 1);
insert into kg_time values (3, '2026-05-01', 1), (4, '2026-05-01', 1);
insert into kg_ref values (3, '2026-05-01');
alter table kg_ref add constraint kg_ref_fk foreign key (id, at) references kg_time (id, at) on delete cascade on update cascade;
--! teardown
drop table if exists kg_seen, kg_num, kg_float, kg_json, kg_ref;
drop table if exists kg_time;
drop role if exists kg_bob;
--! tests
set role kg_bob;
update kg_seen set id = 1, v = 'new';
update kg_seen set id = 7;
update kg_seen set id = 1, v = 'read' where v = 'a';
update kg_seen set id = 1, seen = false;
reset role;
merge into kg_num using kg_float s on kg_num.k = s.k when matched then update set k = s.k, b = s.b;
update kg_json set k['a'] = k where v = 1;
update kg_time_1 set id = id + 20 where id = 3;
update kg_time set id = id + 20 where id = 3;
update kg_time set id = 3, v = 5 where id = 3 returning *;
select * from kg_ref;
