-- SQL's own PREPARE, EXECUTE, DEALLOCATE.
--! setup
create table prep (id int primary key, v int, t text);
--! distribute prep id
--! reset
delete from prep;
insert into prep values (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, 40, 'd');
--! teardown
drop table if exists prep;
--! tests
prepare one (int) as select * from prep where id = $1;
execute one (1);
execute one (2);
execute one (1 + 2);
execute one (null);
execute one ('4');
-- simple only
execute one;
-- simple only
execute one (1, 2);
-- simple only
execute one ('x');
prepare one as select 1;
prepare unt as select * from prep where id = $1 and t = $2;
execute unt (1, 'a');
execute unt (1, 'b');
prepare agg (int) as select count(*), sum(v) from prep where v > $1;
execute agg (15);
execute agg (25);
prepare ins (int, int) as insert into prep values ($1, $2) returning *;
execute ins (5, 50);
execute ins (6, 60);
execute ins (5, 50);
prepare upd (int) as update prep set v = v + 1 where id = $1;
execute upd (5);
execute upd (500);
prepare del as delete from prep where id = $1 returning id;
execute del (6);
prepare lst (int[]) as select id from prep where id = any ($1);
execute lst ('{1,3}');
execute lst (array[2, 4]);
prepare lim (int) as select id from prep order by id limit $1;
-- ordered
execute lim (2);
select name, parameter_types::text from pg_prepared_statements where name in ('one', 'agg');
begin;
prepare intx (int) as select v from prep where id = $1;
execute intx (1);
rollback;
execute intx (2);
create table prep_as as execute agg (15);
-- rows vary
explain (costs off) execute one (1);
deallocate one;
-- simple only
execute one (1);
deallocate prepare agg;
deallocate nosuch;
deallocate all;
-- simple only
execute upd (1);
prepare bad as select nosuch from prep;
prepare nope (nosuchtype) as select id from prep where id = 1;
execute nope (1);
-- Parameters that stand nowhere are read all the same.
prepare unused (date, int) as select count(*) from prep where id = $2;
execute unused ('nodate', 1);
execute unused ('2024-01-01', 1);
execute unused ('2024-01-01');
execute unused (1, 1);
execute unused (date '2024-01-01' + 1, 1);
prepare unused_all (int) as select count(*) from prep;
execute unused_all;
execute unused_all ('x');
execute unused_all ('1'::text);
execute unused_all (7);
prepare gap (int, text) as select $2 as second;
execute gap (1, 'x');
execute gap (1);
-- plain refuses
execute gap (1, (select 'w'));
deallocate unused;
deallocate unused_all;
deallocate gap;
-- simple only
execute bad;
prepare bad as selec;
select count(*) from prep_as;
prepare picks (int) as select id, count(*) as n from prep where id < $1 group by id order by id;
create table if not exists prep_as as execute picks(4);
prepare changes as update prep set v = v where id = 1 returning id;
create table prep_more as execute changes;
create table prep_more as execute nosuch;
create table prep_more as execute picks(1, 2);
drop table prep_as;
-- Arguments that are computed, under settings that change other types' texts.
set extra_float_digits = 0;
set datestyle = 'German, DMY';
prepare lists (int[], int, varchar(3)[]) as select $1[2] + $2 as n, cardinality($3) as c;
execute lists (array[1, 2], 2 + 3, array['a', 'b'] || 'c'::varchar);
deallocate lists;
reset extra_float_digits;
reset datestyle;
-- What comes out of a statement stays what it was when it was prepared.
create table prep_change (id int primary key, v int);
--! distribute prep_change id
insert into prep_change values (1, 10), (2, 20);
prepare whole as select * from prep_change where id < 100 order by id;
prepare some as select id, v from prep_change where id = 2;
prepare changes_more (int) as update prep_change set v = v + 1 where id = $1 returning *;
execute whole;
alter table prep_change add column w int default 7;
-- plain refuses
execute whole;
-- plain refuses
create table prep_as as execute whole;
execute some;
-- plain refuses
execute changes_more (2);
alter table prep_change drop column w;
execute whole;
execute changes_more (2);
alter table prep_change rename column v to u;
-- plain refuses
execute whole;
alter table prep_change rename column u to v;
execute whole;
alter table prep_change alter column v type bigint;
-- plain refuses
execute whole;
-- plain refuses
execute some;
deallocate whole;
deallocate some;
deallocate changes_more;
drop table prep_change;
-- Arguments are assigned to their parameters, as values to columns: no cast that has to be written is made.
prepare arg_int (int) as select * from prep where id = $1;
-- simple only
execute arg_int ('2'::text);
-- simple only
execute arg_int (true);
-- simple only
execute arg_int ('2024-01-01'::date);
execute arg_int (2.4);
execute arg_int (3::bigint);
execute arg_int ('2'::bpchar::int);
-- simple only
execute arg_int (1::bit(3));
prepare arg_bool (bool) as select count(*) from prep where (id = 3) = $1;
-- simple only
execute arg_bool (1);
execute arg_bool (2 > 1);
prepare arg_text (text) as select count(*), $1 from prep;
execute arg_text (12);
execute arg_text (1.50);
execute arg_text ('2024-01-01'::date);
execute arg_text (array[1, 2]);
prepare arg_ints (int[]) as select count(*) from prep where id = any ($1);
execute arg_ints (array[1, 2]::bigint[]);
execute arg_ints ('{1,2,3}');
-- simple only
execute arg_ints (array['1', '2']::text[]);
-- simple only
execute arg_ints (array[true]);
prepare arg_date (date) as select count(*), $1 from prep;
execute arg_date ('2024-01-01 10:00'::timestamp);
-- simple only
execute arg_date ('2024-01-01'::text);
-- simple only
execute arg_date (20240101);
prepare arg_ins (int, text) as insert into prep (id, t) values ($1, $2) returning *;
-- simple only
execute arg_ins ('77'::varchar, 'x');
execute arg_ins (77.4, 12);
-- simple only
execute arg_ins (78, 'x', (select 1));
-- simple only
-- plain refuses
execute arg_ins ((select 78), 'x');
-- simple only
-- message varies
execute arg_ins (count(78), 'x');
-- simple only
-- message varies
execute arg_ins (row_number() over (), 'x');
-- simple only
-- plain refuses
-- message varies
execute arg_ins (generate_series(78, 79), 'x');
-- simple only
execute arg_ins (id, 'x');
prepare arg_json (jsonb) as select $1, count(*) from prep;
execute arg_json ('{"a": 1}'::json);
-- simple only
execute arg_json ('{"a": 1}'::text);
deallocate all;
prepare empty (int) as select id, v from prep where id > $1;
create table prep_empty as execute empty (1) with no data;
create table if not exists prep_empty as execute empty (1) with no data;
select * from prep_empty;
drop table prep_empty;
create temp table prep_empty as execute empty (1) with no data;
drop table prep_empty;
deallocate empty;
