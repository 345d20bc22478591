-- Tables as PostgreSQL's regression tests have them, each in a place of its own: hardly any two are colocated. Keys with NULLs, rows that are alike.
--! setup
create table rr_ten (u1 int primary key, u2 int not null, two int, four int, ten int, hundred int, odd int, name text, str4 char(4));
create table rr_one (a int, b int, c int, s text);
create table rr_int8 (q1 bigint, q2 bigint);
create table rr_int4 (f1 int);
create table rr_text (f1 text);
create table rr_j1 (i int, j int, t text);
create table rr_j2 (i int, k int);
create table rr_emp (depname text, empno bigint primary key, salary int, enroll date);
create table rr_dept (depname text primary key, floor int, boss bigint);
create table rr_gs (id int primary key, a int, b int, c int, v int);
create table rr_tree (id int primary key, parent int, label text);
create table rr_doc (id int primary key, d jsonb, tags text[], span int4range, n numeric(8,3));
create table rr_loc (id int primary key, q bigint, t text);
insert into rr_ten select i, (i * 37 + 11) % 120, i % 2, i % 4, i % 10, i % 100, i * 2 + 1, chr(65 + i % 26) || to_char(i, 'FM000'), (array['AAAA','HHHH','OOOO','VVVV'])[i % 4 + 1] from generate_series(0, 119) i;
insert into rr_one select i % 7, i % 5, nullif(i % 11, 3), 's' || i % 3 from generate_series(1, 40) i;
insert into rr_int8 values (123, 456), (123, 4567890123456789), (4567890123456789, 123), (4567890123456789, 4567890123456789), (4567890123456789, -4567890123456789);
insert into rr_int4 values (0), (123456), (-123456), (2147483647), (-2147483647);
insert into rr_text values ('doh!'), ('hi de ho neighbor'), (''), (null);
insert into rr_j1 values (1, 4, 'one'), (2, 3, 'two'), (3, 2, 'three'), (4, 1, 'four'), (5, 0, 'five'), (6, 6, 'six'), (7, 7, 'seven'), (8, 8, 'eight'), (0, null, 'zero'), (null, null, 'null'), (null, 0, 'zero');
insert into rr_j2 values (1, -1), (2, 2), (3, -3), (2, 4), (5, -5), (5, -5), (0, null), (null, null), (null, 0);
insert into rr_emp values ('develop', 10, 5200, '2007-08-01'), ('sales', 1, 5000, '2006-10-01'), ('personnel', 5, 3500, '2007-12-10'), ('sales', 4, 4800, '2007-08-08'), ('personnel', 2, 3900, '2006-12-23'),
    ('develop', 7, 4200, '2008-01-01'), ('develop', 9, 4500, '2008-01-01'), ('sales', 3, 4800, '2007-08-01'), ('develop', 8, 6000, '2006-10-01'), ('develop', 11, 5200, '2007-08-15');
insert into rr_dept values ('develop', 3, 8), ('sales', 1, 1), ('personnel', 2, null), ('legal', 2, 99);
insert into rr_gs select i, i % 3 + 1, i % 4, nullif(i % 5, 2), i * 7 % 23 from generate_series(1, 30) i;
insert into rr_tree values (1, null, 'root'), (2, 1, 'a'), (3, 1, 'b'), (4, 2, 'aa'), (5, 2, 'ab'), (6, 3, 'ba'), (7, 6, 'baa'), (8, 8, 'self'), (9, 10, 'x'), (10, 9, 'y');
insert into rr_doc select i, jsonb_build_object('k', i % 3, 'name', 'n' || i, 'list', jsonb_build_array(i, i + 1)), array['t' || i % 2, 't' || i % 3], int4range(i, i + 3), i * 1.125 from generate_series(1, 12) i;
insert into rr_loc select i, i * 123, 'loc' || i from generate_series(1, 8) i;
--! distribute rr_ten u1
--! distribute rr_one b colocate_with => 'none'
--! distribute rr_int8 q1
--! distribute rr_int4 f1 colocate_with => 'none'
--! distribute rr_text f1
--! distribute rr_j1 i colocate_with => 'none'
--! distribute rr_j2 i colocate_with => 'rr_j1'
--! distribute rr_emp empno colocate_with => 'none'
--! distribute rr_gs id colocate_with => 'none'
--! distribute rr_tree id colocate_with => 'none'
--! distribute rr_doc id colocate_with => 'none'
--! reference rr_dept
--! teardown
drop table if exists rr_ten, rr_one, rr_int8, rr_int4, rr_text, rr_j1, rr_j2, rr_emp, rr_dept, rr_gs, rr_tree, rr_doc, rr_loc cascade;
