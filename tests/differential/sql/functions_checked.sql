-- Checks that PL/pgSQL makes where plpgsql.extra_errors asks for them.
--! setup
create table fck (k int primary key, v int);
create function fck_first() returns int language plpgsql as $$ declare x int; begin select v from fck into x; return x; end $$;
--! distribute fck k
--! reset
reset plpgsql.extra_errors;
delete from fck;
insert into fck values (1, 5), (2, 5), (3, 5);
--! teardown
drop function if exists fck_first();
drop table if exists fck;
--! tests
select fck_first();
set plpgsql.extra_errors = 'none';
select fck_first();
set plpgsql.extra_errors = 'too_many_rows';
select fck_first() as checked;
reset plpgsql.extra_errors;
select fck_first();
