"""Shapes of queries beside the plain ones: functions in FROM, joins by USING, windows with frames, queries that follow edges.

Each is a function of the Queries that asks for it, and keeps to the same rule: one answer.
"""

from . import values
from .expressions import Column, Expressions, Relation
from .values import INT4, INT8, NUMERIC, TEXT, Type

Outputs = list[tuple[str, Type]]
# What two sides of a join by USING call the column they share.
_SHARED = "join_key"


def function_in_from(queries, laterals: list[Relation]) -> tuple[str, list[Type]]:
    """A function that returns rows, of what stands left of it, and its columns' types."""
    rng = queries.rng
    make = Expressions(queries.context, laterals)
    array, texts, number, text, document = make.of(values.INTS, 1), make.of(values.TEXTS, 1), make.of(INT4, 1), make.of(TEXT, 1), make.of(values.JSONB, 1)
    return rng.choice([
        (f"lateral unnest({array})", [INT4]),
        (f"lateral unnest({array}) with ordinality", [INT4, INT8]),
        (f"lateral unnest({array}, {texts})", [INT4, TEXT]),
        (f"lateral generate_series(1, abs({number} % 4))", [INT4]),
        (f"lateral regexp_split_to_table({text}, '[ a]')", [TEXT]),
        (f"lateral string_to_table({text}, 'a')", [TEXT]),
        (f"lateral jsonb_array_elements(jsonb_build_array({document}, 1, {number}))", [values.JSONB]),
        (f"lateral jsonb_each_text(jsonb_build_object('a', {text}, 'b', {number}))", [TEXT, TEXT]),
        (f"lateral rows from (unnest({array}), generate_series(1, 2))", [INT4, INT4]),
        (f"lateral (values ({number}, {text}), (7, 'seven'))", [INT4, TEXT]),
        (f"lateral (select {number}, {text} where {make.condition(1)})", [INT4, TEXT]),
    ])


def joined_by_name(queries) -> tuple[str, Relation] | None:
    """Two tables joined by USING or NATURAL, on their keys where they have such."""
    rng = queries.rng
    left = queries.pick_table()
    if left.key is None:
        return None
    right = queries.pick_table(left.group)
    of = left.key.type
    right_key = right.key if right.group == left.group else None
    right_key = right_key or next((c for c in right.columns if c.type.kind == of.kind), None)
    if right_key is None or not of.has_equality:
        return None
    a, b = rng.choice(left.columns), rng.choice(right.columns)
    sides = [f"(select {k.sql} as {_SHARED}, {c.sql} as {name} from {t.sql}) as {queries.context.alias()}" for k, c, name, t in ((left.key, a, "l1", left), (right_key, b, "l2", right))]
    how = rng.choice(["join", "left join", "right join", "full join"])
    text = f"{sides[0]} natural {how} {sides[1]}" if rng.random() < 0.3 else f"{sides[0]} {how} {sides[1]} using ({_SHARED})"
    shared, l1, l2 = _SHARED, "l1", "l2"
    if rng.random() < 0.3:
        # The merged column is the first, whatever the tables have first.
        shared, l1, l2 = "m1", "m2", "m3"
        text = f"({text}) as {queries.context.alias()}({shared}, {l1}, {l2})"
    same_type = of == right_key.type
    columns = [Column(l1, a.type), Column(l2, b.type)] + ([Column(shared, of)] if same_type else [])
    return text, Relation("", columns, None, columns[2] if same_type and right.group == left.group and how == "join" else None, left.group)


def windows(queries, make: Expressions, scope: list[Relation]) -> tuple[Outputs, str]:
    """Window functions with frames, by name and by place, and the WINDOW clause they need."""
    rng = queries.rng
    groupable = [c for c in make.columns if c.type.has_order and c.type.has_equality] or [Column("1::int4", INT4)]
    keyed = [r.key for r in scope if r.key is not None]
    partition = rng.choice(keyed if keyed and rng.random() < 0.5 else groupable).sql
    unique = scope[0].unique if len(scope) == 1 else []
    ints = [c.sql for c in make.columns if c.type == INT4]
    number, text = make.of(INT4, 1), make.of(TEXT, 1)
    ordered = rng.choice(groupable).sql
    filtered = rng.choice(["", "", f" filter (where {make.condition(1)})"])
    choices: list[tuple[str, Type, str]] = [
        (f"sum({number}){filtered}", INT8, f"order by {ordered} groups between 1 preceding and 1 following{rng.choice(['', ' exclude group', ' exclude ties'])}"),
        (f"count({text}){filtered}", INT8, f"order by {ordered} range between unbounded preceding and current row"),
        ("percent_rank()", values.FLOAT8, f"order by {ordered}"),
        (f"max({number})", INT4, f"order by {ordered} desc range between current row and unbounded following"),
        (f"avg({number})", NUMERIC, ""),
    ]
    if ints:
        choices.append((f"count(*){filtered}", INT8, f"order by {ints[0]} range between 2 preceding and 1 following"))
    if unique:
        total = "order by " + ", ".join(c.sql + rng.choice(["", " desc"]) for c in unique)
        frame = rng.choice(["", " rows between 2 preceding and current row", " rows between unbounded preceding and unbounded following exclude current row", " rows between 1 following and 3 following"])
        choices += [(f"sum({number}){filtered}", INT8, total + frame), (f"nth_value({text}, 2)", TEXT, total + frame), (f"last_value({number})", INT4, total + frame), (f"lead({number}, 2, 0)", INT4, total), (f"array_agg({number})", values.INTS, total + frame)]
    outputs: Outputs = []
    is_named = rng.random() < 0.4
    for sql, of, how in rng.sample(choices, rng.choice([1, 1, 2])):
        over = f"(w {how})" if is_named else f"(partition by {partition} {how})" if rng.random() < 0.8 else f"({how})"
        outputs.append((f"{sql} over {over}", of))
    return outputs, f" window w as (partition by {partition})" if is_named else ""


def whole_row(queries, scope: list[Relation]) -> tuple[str, Type] | None:
    named = [r for r in scope if r.alias]
    if not named:
        return None
    alias = queries.rng.choice(named).alias
    return queries.rng.choice([(f"to_jsonb({alias})", values.JSONB), (f"({alias})::text", TEXT), (f"({alias} is null)", values.BOOL), (f"num_nonnulls({alias})", INT4), (f"row_to_json({alias})::text", TEXT)])


def recursive(queries) -> str:
    """Rows reached from rows of a table, over its key or another column."""
    rng = queries.rng
    table = queries.pick_table()
    first = table.key or table.columns[0]
    of, name = first.type, first.sql
    union = rng.choice(["union", "union all"])
    pin = f" where {name} = {queries.context.constant(queries.schema.key_text(first, 0), of)}" if of in values.KEYS and rng.random() < 0.6 else ""
    step = f"select t.{name}, n.depth + 1 from n join {table.sql} t on t.{name} = n.k where n.depth < 2"
    return f"with recursive n (k, depth) as (select {name}, 1 from {table.sql}{pin} {union} {step}) select depth, count(*) from n group by depth order by depth"
