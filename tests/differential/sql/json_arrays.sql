-- JSON, arrays and ranges in distributed columns.
--! setup
create table ja (id int primary key, j jsonb, a int[], t text[], r int4range, ts tsrange);
create table ja_src (id int primary key, js json);
--! distribute ja id
--! distribute ja_src id
insert into ja values (1, '{"a": 1, "b": [1, 2, {"c": "x"}], "s": "one"}', '{1,2,3}', '{a,b}', '[1,5)', '[2024-01-01,2024-01-02)'),
    (2, '{"a": 2, "b": [], "s": null}', '{}', '{}', '(,5)', '[2024-01-01,)'),
    (3, '[1, 2, 3]', '{4,NULL,6}', '{"x y",NULL}', 'empty', null),
    (4, '"str"', '{{1,2},{3,4}}', null, '[10,)', 'empty'), (5, null, null, null, null, null),
    (6, '{"a": 1.50, "s": "äö\"q"}', '[2:3]={7,8}', '{a}', '[3,7]', '[2024-01-01 12:00,2024-01-01 13:00]');
insert into ja_src values (1, '{"k":  1, "k": 2}'), (2, '[]');
--! teardown
drop table if exists ja, ja_src;
--! tests
select id, j -> 'a', j ->> 's', j #> '{b,2,c}', j #>> '{b,2,c}', j -> 0 from ja;
select id from ja where j @> '{"a": 1}';
select id from ja where j ? 'a' and j ?| array['s', 'z'] and not j ?& array['a', 'z'];
select id from ja where (j ->> 'a')::numeric > 1;
select id from ja where j @? '$.b[*] ? (@ == 2)';
select id, jsonb_path_query_array(j, '$.b[*]') from ja where id = 1;
select id, jsonb_typeof(j), jsonb_pretty(j) from ja where id in (1, 3);
select id, k from ja, jsonb_object_keys(j) k where jsonb_typeof(j) = 'object';
select id, e from ja, jsonb_array_elements(j -> 'b') e where id = 1;
select id, x.* from ja, jsonb_to_record(j) as x (a numeric, s text) where id in (1, 6);
select id, j || '{"new": true}', j - 'a', j #- '{b,0}' from ja where id = 1;
select id, jsonb_set(j, '{a}', '99'), jsonb_insert(j, '{b,0}', '0') from ja where id = 1;
select id, j['a'], j['b'][1] from ja where id = 1;
select jsonb_agg(j -> 'a' order by id), jsonb_object_agg(id, j -> 's' order by id) from ja;
select j -> 'a' as a, count(*) from ja group by 1;
-- ordered
select id, j from ja order by j nulls first, id;
select max((j ->> 'a')::numeric) from ja where jsonb_typeof(j) = 'object';
select json_build_object('id', id, 'a', a), json_build_array(id, t) from ja;
select to_jsonb(ja) from ja where id = 1;
select js, js -> 'k' from ja_src;
update ja set j = jsonb_set(j, '{a}', '5') where id = 2 returning j;
update ja set j['a'] = '2' where id = 2 returning j;
select id, a[1], a[2:3], array_length(a, 1), cardinality(a), array_dims(a), array_ndims(a) from ja;
select id from ja where 2 = any (a);
select id from ja where a @> array[1, 2];
select id from ja where a && array[7, 4];
select id from ja where a = '{1,2,3}';
select id from ja where a is null or cardinality(a) = 0;
select id, a || 9, 0 || a, array_append(a, 5), array_remove(a, 2), array_position(a, 2) from ja where id < 4;
select id, unnest(a) from ja where id in (1, 3, 4);
select id, u.x, u.n from ja, unnest(t) with ordinality u (x, n);
select array_agg(id order by id) from ja where t is not null;
select array_to_string(a, ',', '*'), string_to_array('1,2', ',') from ja where id = 3;
select array_agg(a order by id) from ja where id = 1;
-- ordered
select id, a from ja order by a nulls last, id;
-- ordered
select t, count(*) from ja group by t order by t nulls last;
update ja set a[1] = 100 where id = 1 returning a;
update ja set a = array_append(a, 1) where id = 2 returning a;
select id, lower(r), upper(r), isempty(r), lower_inc(r), upper_inf(r) from ja;
select id from ja where r @> 3;
select id from ja where r && '[4,11)';
select id, r * '[2,4)', r + '[5,6)' from ja where id = 1;
select range_agg(r) from ja where id in (1, 4);
-- ordered
select id, r from ja order by r nulls first, id;
select id from ja where ts @> timestamp '2024-01-01 12:30';
select count(*) from ja where ts is not null;
-- params: '{"a": 1}'
select id from ja where j @> $1;
-- params: '{1,2}'
select id from ja where a @> $1::int[];
-- params: 7, '{"n": [1, 2]}', '{5,6}'
insert into ja (id, j, a) values ($1, $2, $3) returning j, a;
delete from ja where id = 7;
update ja set a = '{1,2,3}' where id = 1;
update ja set a = '{}', j = '{"a": 2, "b": [], "s": null}' where id = 2;
