-- Strings with backslashes in functions that run statement by statement over several nodes: patterns, above all.
--! setup
create table fbs_lines (id int primary key, v text);
--! distribute fbs_lines id
insert into fbs_lines select g, 'a  b\' || g from generate_series(1, 10) g;
create function fbs_clean(k int) returns text language plpgsql as $$
  declare v text := '\'; line fbs_lines;
  begin
    for line in select * from fbs_lines where id > k and fbs_lines.v ~ '\d$' and fbs_lines.v like '%\\%' order by id loop
      v := v || regexp_replace(line.v, '\s+', '\\', 'g') || E'\t' || '\n';
    end loop;
    if v ~ '\\' then execute 'insert into fbs_lines select max(id) + 1, ''x\y'' || $1 from fbs_lines' using E'\\'; end if;
    return v;
  end $$;
create function fbs_last(k int) returns text language sql as $$ select max(v) || '\' from fbs_lines; select min(v || '\b') from fbs_lines where id > k $$;
--! tests
select fbs_clean(7);
select id, v from fbs_lines where id > 9 order by id;
select fbs_last(3);
do $$ begin update fbs_lines set v = '\1' || v where v ~ '\s'; raise notice 'done: %', '\'; end $$;
select * from fbs_lines order by id;
set standard_conforming_strings = off;
set escape_string_warning = off;
do $$ begin update fbs_lines set v = E'\t' where id = 1; end $$;
select * from fbs_lines where id = 1;
--! teardown
drop table fbs_lines cascade;
drop function fbs_clean, fbs_last;
