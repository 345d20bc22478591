-- COPY in and out: text and CSV with options; errors in the data.
--! setup
create table cpy (id int primary key, a int, t text, at timestamp default '2024-01-01');
create table cpy_text (k text primary key, v int);
create table cpy_ref (id int primary key, t text);
create table cpy_local (id int primary key, t text);
create table cpy_count (k int primary key, v int);
create function cpy_n() returns bigint language sql stable as 'select count(*) from cpy_count';
create function cpy_change(int) returns bool language plpgsql as 'begin update cpy_count set v = v + 1; return true; end';
create function cpy_text_run(int) returns bool language plpgsql as $$declare n int; begin execute 'select count(*) from cpy_count' into n; return n = 9; end$$;
create function cpy_of_local() returns bool language sql stable as 'select count(*) = 0 from cpy_local';
create function cpy_own(int) returns bool language sql immutable as 'select $1 > 11';
--! distribute cpy id
--! distribute cpy_count k
--! distribute cpy_text k
--! reference cpy_ref
--! reset
delete from cpy;
delete from cpy_text;
delete from cpy_ref;
delete from cpy_local;
--! teardown
drop function if exists cpy_n, cpy_change, cpy_text_run, cpy_of_local, cpy_own;
drop table if exists cpy, cpy_text, cpy_ref, cpy_local, cpy_count;
--! tests
-- Code in WHERE finds all of the tables it names, or it is not run.
begin; insert into cpy_count select i, 0 from generate_series(1, 9) i;
copy cpy (id) from stdin where cpy_n() = 9;
1
2
3
\.
rollback;
begin; insert into cpy_count select i, 0 from generate_series(1, 9) i;
copy cpy_local (id) from stdin where cpy_n() = 9;
1
2
\.
rollback;
begin; insert into cpy_count select i, 0 from generate_series(1, 9) i;
copy cpy_ref (id) from stdin where cpy_n() = 9;
1
\.
rollback;
begin; insert into cpy_count select i, 0 from generate_series(1, 9) i;
copy cpy (id) from stdin where cpy_change(id);
1
2
\.
rollback;
begin; insert into cpy_count select i, 0 from generate_series(1, 9) i;
copy cpy_local (id) from stdin where cpy_change(id);
1
\.
rollback;
begin; insert into cpy_count select i, 0 from generate_series(1, 9) i;
copy cpy (id) from stdin where cpy_text_run(id);
1
2
\.
rollback;
begin;
copy cpy (id) from stdin where cpy_of_local();
1
2
\.
rollback;
begin;
copy cpy (id) from stdin where set_config('cpy.left', id::text, false) <> '';
1
2
\.
rollback;
begin;
copy cpy_local (id) from stdin where set_config('cpy.left', id::text, true) <> '';
1
2
\.
select current_setting('cpy.left', true);
rollback;
copy cpy (id) from stdin where cpy_own(id) and id % 2 = 0;
10
12
13
14
\.
select id from cpy order by id;
delete from cpy;
-- Columns are named once; values come in the encoding that is asked for, or not at all.
copy cpy (id, id) to stdout;
copy cpy (id, a, id) from stdin;
1	2	3
\.
copy cpy (nope) to stdout;
insert into cpy (id, t) values (1, 'ü'), (2, 'é');
copy (select id from cpy where t > 'a') to stdout (encoding 'sql_ascii');
copy (select id, t from cpy) to stdout (encoding 'latin1');
copy (select count(*), max(t) from cpy) to stdout (format csv, encoding 'latin1');
copy (select id, t from cpy order by id) to stdout (encoding 'utf-8');
copy cpy_text from stdin (encoding 'latin1');
a	1
\.
delete from cpy;
-- One time for all rows: the transaction's.
begin;
select length(set_config('cpy.now', now()::text, true)) > 0;
select pg_sleep(0.01);
copy cpy (id) from stdin where now()::text = current_setting('cpy.now') and id < 100;
1
2
3
4
5
6
200
\.
select count(*) from cpy;
rollback;
copy cpy from stdin;
1	10	one	2024-05-05 10:00:00
2	\N	tab\there	2024-05-06 10:00:00
3	30	back\\slash	\N
\.
copy cpy (id, t) from stdin;
4	four
5	
6	new\nline
7	äöü
\.
copy cpy (t, id) from stdin;
eight	8
nine	9
\.
copy cpy (id, a, t) from stdin with (format csv);
10,100,plain
11,,"quoted, comma"
12,120,"a ""quote"""
13,130,
14,140,""
15,150,"two
lines"
\.
copy cpy (id, a, t) from stdin with (format csv, header, delimiter ';', null 'NIL', quote '''');
id;a;t
20;200;'x;y'
21;NIL;NIL
22;220;'NIL'
\.
copy cpy (id, a, t) from stdin csv header;
id,a,t
23,230,old syntax
\.
copy cpy (id, a, t) from stdin with (format csv, force_null (t));
24,1,""
\.
copy cpy (id, a, t) from stdin with delimiter '|' null '-';
25|1|pipe
26|-|-
\.
copy cpy (id, a) from stdin where a > 5;
27	1
28	10
\.
copy cpy from stdin;
\.
copy public.cpy (id) from stdin;
29
\.
-- ordered
select * from cpy order by id;
copy cpy (id, a) from stdin;
40	1
41	x
42	3
\.
copy cpy (id, a) from stdin;
43	1	3
\.
copy cpy (id, a) from stdin;
44
\.
copy cpy (id, a) from stdin;
45	1
1	1
46	1
\.
copy cpy (id, a) from stdin;
\N	1
\.
copy cpy (id, a) from stdin;
99999999999	1
\.
copy cpy (a) from stdin;
1
\.
copy cpy (id, nosuch) from stdin;
1	1
\.
copy nosuch from stdin;
1	1
\.
copy cpy (id, a, t) from stdin with (format csv);
47,1,"open quote
\.
copy cpy (id) from stdin with (format nosuch);
1
\.
select count(*) from cpy where id > 39;
copy cpy_text from stdin;
	1
a	2
A	3
ä	4
b\tc	5
\.
copy cpy_text from stdin;
\N	6
\.
select v from cpy_text where k = E'b\tc';
select v from cpy_text where k = '';
copy cpy_ref from stdin;
1	r
2	s
\.
copy cpy_local from stdin;
1	l
2	m
\.
copy cpy to stdout;
copy cpy (t, id) to stdout;
copy cpy (id, a, t) to stdout with (format csv);
copy cpy (id, t) to stdout with (format csv, delimiter ';', null 'NIL', force_quote (t));
copy (select id, t from cpy where id = 11) to stdout;
copy (select id, t from only cpy where id = 11) to stdout;
copy (select tableoid::regclass, id from cpy where id = 11) to stdout with (format csv, delimiter '|', header, force_quote *);
copy (with unused as (select * from cpy_local) select id from cpy where id = 11) to stdout;
copy (select id, a from cpy where a > 100) to stdout with (format csv);
-- ordered
copy (select id, t from cpy order by id) to stdout;
-- ordered
copy (select id from cpy order by id desc limit 3) to stdout csv;
copy (select count(*), sum(a) from cpy) to stdout;
copy (select count(*), sum(a) from cpy) to stdout with (format csv, header);
copy (values (1, 'a'), (2, 'b')) to stdout;
copy cpy_ref to stdout;
copy cpy_local to stdout with (format csv, header);
copy cpy_text to stdout;
copy (delete from cpy where id = 1 returning id, t) to stdout;
copy nosuch to stdout;
copy cpy (nosuch) to stdout;
copy (select 1 / 0) to stdout;
select count(*) from cpy;
begin;
copy cpy (id, a) from stdin;
200	1
201	2
\.
select count(*) from cpy where id >= 200;
rollback;
select count(*) from cpy where id >= 200;
begin;
copy cpy (id, a) from stdin;
210	1
211	x
\.
commit;
select count(*) from cpy where id >= 200;
-- message varies
copy cpy from '/nonexistent/file';
-- message varies
copy cpy to program 'false';
