-- Built-in functions over columns, now() and volatile functions over many shards, DO blocks.
--! include events
--! tests
select id, now() = transaction_timestamp() as same from events where id < 4;
select count(distinct now()) from events;
select count(distinct n) from (select now() as n from events) s;
select count(distinct statement_timestamp()) from events;
select count(distinct transaction_timestamp()) from events;
select count(distinct current_timestamp), count(distinct current_date), count(distinct localtimestamp) from events;
select id from events where at < now() and id < 4;
select id from events where at > now() - interval '100 years' and id = 4;
select id from events where at < current_date and id in (4, 5);
begin;
select count(distinct n) from (select now() as n from events union all select now() from items union all select now()) s;
select now() = (select max(now()) from events);
commit;
-- rows vary
select now(), current_date, current_time, localtime;
-- rows vary
select id, now() from events where id = 5;
-- rows vary
select clock_timestamp(), random(), gen_random_uuid();
-- rows vary
select id, random() from events where id < 5;
select count(distinct gen_random_uuid()) from events;
select count(distinct r) > 1 from (select random() as r from events) s;
select count(*) from events where random() >= 0;
select count(*) from events where random() < 0;
select max(random()) < 1 from events;
-- rows vary
select pg_backend_pid(), version();
select length(version()) > 5;
select count(*) = 60 from events where pg_backend_pid() > 0;
select lower(note), upper(note), initcap(note), length(note), reverse(note) from events where id < 9;
select left(note, 2), right(note, 2), substr(note, 2, 3), substring(note from 2 for 2), position('a' in note) from events where id < 9;
select lpad(note, 10, '*'), rpad(note, 10), trim(note), replace(note, 'a', 'b'), split_part(note, 'a', 1) from events where id < 9;
select concat(id, note, null), concat_ws('-', id, k, note), format('%s/%I/%L', id, note, grp) from events where id < 13;
select md5(note), sha256(note::bytea), encode(note::bytea, 'base64') from events where id < 4;
select regexp_replace(note, '[aeiou]', '_', 'g'), regexp_match(note, '(.)(.)') from events where id < 9;
select ascii(note), chr(65 + id), to_hex(id), repeat(note, 2) from events where id < 5;
select abs(-id), ceil(amount), floor(amount), round(amount), trunc(amount, 1), sign(f), mod(id, 7), power(id, 2) from events where id < 9;
select sqrt(f), exp(1.0), ln(amount + 1), log(100.0), cbrt(27.0), pi() from events where id = 8;
select div(amount, 3), amount % 3, id / 7, f / 7, id::numeric / 7 from events where id < 5;
select extract(epoch from at), date_part('dow', at), date_trunc('month', at), at + interval '1 month', age(at, '2023-01-01') from events where id < 4;
select to_char(at, 'YYYY-MM-DD HH24:MI:SS Day'), to_char(amount, '999D99'), to_timestamp(id) from events where id < 4;
select to_number('12,454.8-', '99G999D9S'), to_date('05 Dec 2000', 'DD Mon YYYY');
select at::date - date '2023-12-25', make_date(2024, id, 1), date '2024-01-31' + id from events where id < 4;
select coalesce(grp, '?'), nullif(k, 1), greatest(k, 5, null), least(id, 3) from events where id < 14;
select case k when 1 then 'one' when 2 then 'two' else 'many' end from events where id < 5;
select width_bucket(f, 0, 30, 5), count(*) from events group by 1;
select id::text, id::float8, amount::int, flag::int, note::bytea, at::date from events where id < 4;
select cast(id as numeric(10,2)), id::bool, '5'::int + id from events where id < 3;
select generate_series(1, 3) as g;
select id, generate_series(1, 2) as g from events where id < 3;
select id, unnest(array['a', 'b']) from events where id < 3;
select * from generate_series(timestamp '2024-01-01', '2024-01-02', '6 hours') g;
select * from unnest(array[1, 2], array['a', 'b']) with ordinality u (a, b, n);
select string_to_table('a,b,c', ',');
select count(*) from generate_series(1, 1000) g where g % 7 = 0;
select row_to_json(e) from (select id, note from events where id < 3) e;
select pg_typeof(id)::text, pg_typeof(amount)::text, pg_typeof(sum(id))::text from events where id = 1 group by id, amount;
select current_setting('server_version_num')::int > 100000;
select quote_ident('a b'), quote_literal('it''s'), quote_nullable(null);
do $$ begin raise notice 'hello %', 5; end $$;
do $$ begin raise warning 'careful'; raise notice 'go on'; end $$;
do $$ declare n int; begin select count(*) into n from plain_notes; raise notice 'n = %', n; end $$;
do $$ begin update plain_notes set remark = 'done' where n = 1; end $$;
select remark from plain_notes where n = 1;
do $$ begin update plain_notes set remark = 'one' where n = 1; end $$;
do $$ declare n int; begin select count(*) into n from events; raise notice 'n = %', n; end $$;
do $$ begin perform 1 from events where id = 1; end $$;
