"""What applications compute with each type, as templates: «int4» stands for any expression of that type.

None of them fails for any value that values.py makes (see expressions.py for why). Much of it is shown by the session's
settings (DateStyle, TimeZone, extra_float_digits …), which every node must have.
"""

import random
import re
from collections.abc import Callable

_SLOT = re.compile("«(\\w+)»")

FORMULAS: dict[str, list[str]] = {
    "int4": [
        "strpos(«text», 'a')", "regexp_count(«text», '[a-c]')", "array_position(«ints», 2)", "coalesce((«ints»)[1], 0) % 9", "array_upper(«ints», 1)", "num_nulls(«int4», «text»)", "(«bool»)::int",
        "masklen(«inet»)", "(select case when isfinite(x) then x - date '2024-01-01' end from (select «date») y (x))", "case «int4» % 3 when 0 then 10 when 1 then «int4» else -1 end", "cardinality(string_to_array(«text», 'a'))",
        "extract(hour from «time»)::int4", "(«int4» # 5)", "(«int4» >> 2)", "sign(«int4»)::int4", "(select «int4»)", "(array[«int4», 7])[1]", "(date '2024-02-29' - date '2024-01-01' + «int4» % 5)", "div(«int4», 4)::int4",
        "jsonb_array_length(jsonb_build_array(«int4», «text»))", "octet_length(«text»)", "((«text») collate \"C\" < 'b')::int",
    ],
    "int8": ["(«int4»::int8 * 1000003)", "bit_length(«text»)::int8", "(«int8» % 1000 + «int4»)", "abs(«int8» % 7)", "hashtext(«text»)::int8", "(extract(epoch from «interval») % 1000)::int8"],
    "text": [
        "regexp_replace(«text», '[aeiou]', '<\\&>', 'g')", "regexp_replace(«text», '(.)(.)', '\\2\\1')", "substring(«text» from 'a.')", "substring(«text» from 2 for 3)", "overlay(«text» placing 'Z' from 2 for 1)", "lpad(«text», 5, '*')",
        "rpad(«text», 4)", "initcap(«text»)", "translate(«text», 'abc', 'xyz')", "encode(«bytea», 'base64')", "encode(convert_to(«text», 'UTF8'), 'hex')", "(«date»)::text", "(«timestamp»)::text", "(«timestamptz»)::text", "(«interval»)::text",
        "(«float8»)::text", "(«bytea»)::text", "(«time»)::text", "to_char(«timestamp», 'YYYY-MM-DD HH24:MI:SS')", "to_char(«timestamptz», 'Dy DD Mon, HH12:MI TZ')", "to_char(«int4», '999,999,990S')", "to_char(«numeric», 'FM999990.00')", "chr(65 + abs(«int4» % 26))",
        "concat_ws('-', «text», «int4», «bool»)", "quote_nullable(«text»)", "host(«inet»)", "(«inet»)::text", "(«ints»)::text", "(«texts»)::text", "(«jsonb»)::text", "(«jsonb» #>> '{a,b}')", "case when «bool» then «text» else 'no' end", "upper(«text» collate \"C\")",
        "(«text»)::varchar(3)::text", "pg_typeof(«numeric»)::text", "format('%I %L', coalesce(«text», 'n'), «date»)", "(regexp_match(«text», '(a)(b)?'))[1]", "left(«text», -1)", "repeat(«text», 2)", "(row(«int4», «text»))::text", "coalesce(«text», («int4»)::text)", "(«float8»)::numeric::text",
        "to_hex(«int4»)", "btrim(«text», ' a')",
        # An order is part of the expression, so that there is one answer.
        "(select string_agg(x, ',' order by x) from unnest(array[«text», 'm']) x)",
    ],
    "numeric": ["(«int4»::numeric / 7)", "trunc(«numeric», 1)", "ceil(«numeric»)", "extract(epoch from «timestamp»)", "extract(dow from «date»)", "(«numeric» * 2 + 1)", "(«numeric» - «int4»)", "(«float8»)::numeric", "power(«int4» % 5, 3)::numeric", "abs(«numeric»)", "mod(«int4», 7)::numeric"],
    "float8": ["(«float8» * 2)", "(«int4»::float8 / 3)", "abs(«float8»)", "atan(«float8»)", "(«numeric»)::float8", "sqrt(abs(«int4»::float8))", "(- «float8»)", "round(«float8»)", "cbrt(«int4»::float8)", "(«float8» / 3)"],
    "bool": [
        "«text» ~ 'a+'", "«text» !~* '^A'", "«text» similar to '%(a|b)%'", "«jsonb» ? 'a'", "«jsonb» @> '{\"a\": 1}'", "«ints» && array[1, 2]", "«ints» @> array[1]", "«int4» = any («ints»)", "«range» @> «int4»", "«range» && int4range(1, 5)", "«inet» << '10.0.0.0/8'",
        "«timestamptz» < now()", "isfinite(«date»)", "starts_with(«text», 'a')", "(«int4», «text») < (3, 'b')", "row(«int4», «text») is null", "(«int4», «int4») in ((1, 2), (3, 3), (5, «int4»))", "jsonb_path_exists(«jsonb», '$.a')", "«text» is json",
        "(«date», interval '3 days') overlaps (date '2024-02-21', date '2024-02-28')", "«float8» > 'NaN'", "«numeric» = 'Infinity'", "«text» < all (array['b', «text»])", "(«int4» between 2 and 5) = («bool»)", "«text» like any (array['a%', '%b'])", "«int4» % 2 = 0", "isempty(«range»)",
    ],
    "date": ["(«date» + «int4» % 10)", "date_trunc('month', «timestamp»)::date", "make_date(2024, 1 + abs(«int4» % 12), 1)", "(«timestamptz»)::date", "(«date» - 1)", "to_date('2024-0' || (1 + abs(«int4» % 9)), 'YYYY-MM')"],
    "timestamp": ["(«timestamp» + interval '1 day')", "(«timestamptz» at time zone 'UTC')", "(«date»)::timestamp", "date_bin('15 minutes', «timestamp», '2001-01-01')", "(«timestamptz»)::timestamp", "(«date» + time '03:04')"],
    "timestamptz": ["(«timestamp» at time zone 'America/New_York')", "(«timestamptz» - interval '3 hours')", "date_trunc('day', «timestamptz»)", "to_timestamp(«int4»)", "(«timestamp»)::timestamptz", "(«date»)::timestamptz", "make_timestamptz(2024, 7, 1 + abs(«int4» % 20), 2, 0, 0)"],
    "time": ["(«time» + interval '1 hour')", "(«timestamp»)::time", "make_time(abs(«int4» % 24), 5, 0)", "(«timestamptz»)::time"],
    "interval": ["(«interval» * 2)", "justify_days(«interval»)", "make_interval(days => «int4» % 100)", "(«interval» + interval '1 month')", "(- «interval»)", "age(timestamp '2024-03-01', case when isfinite(«timestamp») then «timestamp» end)"],
    "jsonb": [
        "jsonb_build_array(«int4», «text»)", "(«jsonb» || '{\"z\": 1}')", "jsonb_set(jsonb_build_object('a', «jsonb»), '{a}', '2')", "(jsonb_build_object('a', «jsonb», 'b', «int4») - 'b')", "jsonb_strip_nulls(«jsonb»)", "(«jsonb» #> '{a,b}')", "to_jsonb(«date»)", "to_jsonb(«ints»)", "to_jsonb(«timestamptz»)",
        "jsonb_path_query_first(«jsonb», '$.a')", "to_jsonb(row(«int4», «text»))", "(«jsonb» -> 0)", "jsonb_build_object(coalesce(«int4», 0), «bool», 'n', «numeric»)", "to_jsonb(«float8»)", "json_build_object('a', «text»)::jsonb", "(«jsonb»)['a']",
    ],
    "int4[]": ["array_remove(«ints», 2)", "array_append(«ints», «int4»)", "(«ints»)[1:2]", "array_cat(«ints», «ints»)", "array_replace(«ints», 1, 9)", "array_fill(«int4», array[2])", "array(select generate_series(1, abs(«int4» % 4)))", "array(select x from unnest(«ints») x order by x)"],
    "text[]": ["string_to_array(«text», 'a')", "regexp_split_to_array(«text», '[ ab]')", "array[«text», «text»]", "array_append(«texts», «text»)"],
    "bytea": ["convert_to(«text», 'UTF8')", "substring(«bytea» from 1 for 2)", "(«bytea» || '\\x00')", "decode(md5(«text»), 'hex')", "sha256(«bytea»)"],
    "uuid": ["md5(«text»)::uuid"],
    "int4range": ["int4range(«int4» % 10, 20)", "(«range» * int4range(2, 8))", "int4range(null, abs(«int4» % 10), '(]')"],
    "inet": ["set_masklen(«inet», 8)", "broadcast(«inet»)"],
}

def formula(rng: random.Random, name: str, slot: Callable[[str], str]) -> str | None:
    """One for the type of this name; `slot` says what stands for a type's slot."""
    found = FORMULAS.get(name)
    return _SLOT.sub(lambda m: slot(m[1]), rng.choice(found)) if found else None
