-- Calls of functions over distributed tables among other things: in expressions, as arguments of each other, in FROM with conditions.
--! setup
create table fa_items (id int primary key, of int, v int);
create table fa_log (n serial, said text);
--! distribute fa_items id
create function fa_adds(k int, by int) returns int language plpgsql as $$
  begin update fa_items set v = v + by where id = k; insert into fa_log (said) values (k || '+' || by); raise notice '% and %', k, by; return (select v from fa_items where id = k); end $$;
create function fa_says(t text) returns text language plpgsql as $$ begin insert into fa_log (said) values (t); perform count(*) from fa_items; return t || '!'; end $$;
create function fa_strict(t text) returns text language plpgsql strict as $$ begin insert into fa_log (said) values (t); perform count(*) from fa_items; return t || '?'; end $$;
create function fa_of(k int) returns setof fa_items language plpgsql as $$
  begin insert into fa_log (said) values ('of ' || k); return query update fa_items set v = v + 1 where of = k returning *; end $$;
create function fa_two(k int, out a int, out b text) language plpgsql as $$ begin delete from fa_items where id = k; a := k; b := 'gone'; end $$;
create function fa_reads(k int) returns bigint language plpgsql stable as $$ declare n bigint; begin select count(*) into n from fa_items where of = k; return n; end $$;
create function fa_any(k int) returns setof record language plpgsql as $$ begin return query select id, v from fa_items where of = k order by id; end $$;
create function fa_own(t int) returns int language sql immutable as 'select case when t > 0 then t else 0 end';
create function fa_calls(k int) returns int language plpgsql as $$
  declare r record; n int := 0;
  begin
    if fa_adds(k, 1) > 5 then n := fa_adds(k, 1) * 2 + fa_adds(k + 1, 1); end if;
    for r in select x.id, x.v as w from fa_of(k) x where x.id > 3 order by x.id loop n := n + r.w; end loop;
    perform fa_says('a') || fa_says('b');
    return n + length(fa_says(fa_says('c')));
  end $$;
--! reset
truncate fa_items, fa_log;
insert into fa_items select g, g % 5, g * 2 from generate_series(1, 20) g;
--! tests
select fa_adds(1, 2) + 1;
select fa_adds(1, 1) * 10 - fa_adds(2, 1), fa_adds(1, 1)::text || 'x' as t, 5 as five;
select fa_adds(fa_adds(1, 1), fa_adds(2, 1)), fa_says(fa_says('in')), upper(fa_says('up'));
select row(fa_adds(3, 1), fa_says('r')), array[fa_adds(3, 1), fa_adds(3, 1)], greatest(1, 2);
select fa_strict('y') || fa_says(null), concat(fa_says('p'), fa_strict(fa_strict('q'))), fa_strict(null), fa_says(fa_strict(null));
select length(fa_says('abc')) = 4, fa_says('a') like 'a%', not (fa_says('b') is null);
select format('%s and %s', fa_says('f'), fa_says('g')) || fa_adds(4, 100);
select 10 / (fa_adds(5, -10) - fa_adds(5, 0));
select fa_adds(99, 1) + 1;
-- params: 6, 'p'
select fa_adds($1, 1) + 1, fa_says($2::text) || $2, $1;
select * from fa_log order by n;
select id, v * 2 as d from fa_of(3) where v > 10 order by id desc;
select count(*), sum(v), max(id) from fa_of(2);
select x.*, x.v + 1 from fa_of(1) as x order by x.id limit 2;
select o.a, o.b || '.', a + 1 from fa_two(20) o;
select n + 1 from fa_adds(2, 2) as n;
select fa_adds + 1 from fa_adds(2, 2);
select b, a from fa_any(4) as t (a int, b int) where a > 5 order by a;
select a from fa_of(77) as y (a);
select count(*) from fa_of(77);
select distinct of from fa_of(4);
select x from fa_of(1) x;
-- params: 3, 4
select id from fa_of($1) where id > $2 order by id;
select fa_reads(3) + fa_reads(2), fa_reads(1)::text || '.';
select n * 2 from fa_reads(4) n;
select fa_calls(3);
select fa_calls(4);
select said from fa_log order by n;
begin;
select fa_says('in a transaction') || fa_says('again');
savepoint s;
select 1 / (fa_adds(1, 1) - fa_adds(1, 0));
rollback to s;
select count(*) from fa_log;
rollback;
-- Where what else there is decides whether they are made, or sees what they do.
select case when fa_adds(1, 1) > 0 then fa_adds(2, 1) end;
select coalesce(fa_adds(1, 1), fa_adds(2, 1));
select fa_adds(1, 1) > 0 or fa_adds(2, 1) > 0;
select fa_own(fa_adds(1, 1));
select fa_adds(1, 1) between 2 and 5;
select fa_adds(1, 1) + (select count(*) from fa_items);
select fa_adds(1, 1) + random();
select fa_adds(1, 1) + fa_reads(1);
select (fa_two(1)).*;
select row(fa_adds(3, 1), fa_says('r')) is null;
select row(fa_adds(3, 1), 1) = row(2, fa_adds(3, 1));
select fa_strict(null) || fa_says('x');
select fa_adds(1, 1) + null;
select nullif(1, 1) + fa_adds(1, 1);
-- params: NULL
select fa_adds(1, 1) + $1::int;
select * from fa_of(1) a, fa_of(2) b;
select fa_adds(id, 1) from fa_of(1);
select count(*) from fa_items where id in (select id from fa_of(1));
select fa_adds(1, 1) + 1 limit 0;
select id from fa_of(1) limit 0;
select id from fa_of(1) where false;
select id from fa_of(1) where id > null;
select id from fa_of(1) where id > 0 and 1 = 2;
select count(*) from fa_of(1) having false;
select fa_adds(1, 1) + length(substring('a' from 'b'));
-- params: NULL
select id from fa_of(1) where id > $1::int;
select said from fa_log order by n;
--! teardown
drop function if exists fa_adds, fa_says, fa_strict, fa_of, fa_two, fa_reads, fa_any, fa_own, fa_calls;
drop table if exists fa_items, fa_log;
