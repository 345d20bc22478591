-- What triggers are told of their table, and what is said where rows of several tables go.
--! setup
create table tg (k int primary key, v text);
create table tg_names (id int primary key, n text);
create table tg_rows (k int primary key, name int references tg_names (id));
create function tg_by_name() returns trigger language plpgsql as $$ begin if tg_table_name = 'tg' then new.v := 'of tg'; end if; return new; end $$;
create function tg_by_argument() returns trigger language plpgsql as $$ begin new.v := tg_argv[0] || ' ' || tg_op; return new; end $$;
create function tg_says() returns trigger language plpgsql as $$ begin raise notice 'table %', tg_table_name; return null; end $$;
--! distribute tg k
--! reference tg_names
--! distribute tg_rows k
--! reset
drop trigger if exists tg_t on tg;
truncate tg, tg_rows, tg_names;
--! teardown
drop table if exists tg, tg_rows, tg_names;
drop function if exists tg_by_name, tg_by_argument, tg_says;
--! tests
create trigger tg_t before insert on tg for each row execute function tg_by_name();
create trigger tg_t after update on tg for each row execute function tg_says();
create trigger tg_t before insert on tg for each row execute function tg_by_argument('tg');
insert into tg values (1, 'x'), (2, 'y'), (3, 'z') returning *;
drop trigger tg_t on tg;
create trigger tg_t after insert on tg for each statement execute function tg_says();
insert into tg values (4, 'x'), (5, 'y'), (6, 'z');
drop trigger tg_t on tg;
insert into tg_names values (1, 'a'), (2, 'b');
insert into tg_rows values (1, 1), (2, 2), (3, 1);
-- plain refuses
truncate tg_names;
truncate tg_names cascade;
select count(*) from tg_rows;
