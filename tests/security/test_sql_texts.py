"""What routers ask on clients' connections names PostgreSQL's own functions, operators and types by their schema: a client may have
others of the same name in front of pg_catalog. Found in the sources, so that tomorrow's texts are judged like today's.

Functions of schema herd are looked up by a path of their own (test_inventory.py), so their texts are not judged here.
"""

import pathlib
import re

_CRATES = pathlib.Path(__file__).parents[2] / "crates"
# All that has clients' connections in its hands, or makes texts for them.
_LOOKED_THROUGH = ["exec/src", "session/src", "txn/src", "pool/src", "plan/src", "share/src", "catalog/src/distribute/node.rs"]
# Texts that run behind a search path of the router's own (test_the_catalog_is_read_by_a_path_of_its_own): what they do not qualify is pg_catalog's.
_BEHIND_A_PATH = "catalog/src"

# By the router's own connections, which no client's path reaches.
_OWN = {"exec/src/router/barrier.rs", "exec/src/router/herd.rs", "exec/src/router/names.rs", "exec/src/router/roles.rs", "txn/src/recover.rs",
        "session/src/cancel_forward.rs", "exec/src/admin/automatic.rs", "exec/src/admin/background.rs", "exec/src/admin/move_shard/weights.rs", "exec/src/admin/move_shard/facts.rs", "exec/src/admin/job.rs", "exec/src/admin/fill_column_copy.rs", "exec/src/admin/move_shard/stream.rs"}

# DuckDB's SQL, for stores, which have no search path and no operators of users' own.
_OF_STORES = "plan/src/columns/"

# On clients' connections, behind a path that is set for them alone (`in_catalog`); and what a hint tells people to run.
_ELSEWHERE = {"exec/src/admin/time_partitions.rs", "plan/src/apart.rs"}

_LITERAL = re.compile(r'(?<![A-Za-z0-9_\'])r?#?"((?:[^"\\]|\\.)*)"', re.S)
_SQL = re.compile(r"\b(SELECT|WITH|EXISTS|JOIN|FROM|WHERE|AND|VALUES|DECLARE|CASE)\b|^\s*pg_catalog\.", re.S)
# A sentence, for people.
_PROSE = re.compile(r"^[A-Z][a-z]+ |^\W*[a-z]+ [a-z]+ |\b(?:is|are|can't|cannot) (?:not|be)\b")
# Not functions: grammar of PostgreSQL's own, which no schema can shadow (kwlist.h: COL_NAME_KEYWORD and reserved ones).
_GRAMMAR = {
    "and", "any", "all", "array", "as", "by", "case", "cast", "coalesce", "copy", "distinct", "else", "end", "exists", "explain", "extract", "filter",
    "from", "greatest", "in", "insert", "into", "join", "lateral", "least", "limit", "not", "nullif", "on", "operator", "or", "over", "row", "select",
    "substring", "then", "do", "begin", "loop", "trim", "union", "using", "values", "when", "where", "with", "materialized", "options", "buffers", "format", "timing", "prepare", "execute",
}
_OPERATOR = re.compile(r"(?<![A-Za-z0-9_'\"{}])(=|<>|!=|<=|>=|<|>|\|\||!?~\*?|\+|/|%|&|#|->>?|@>|<@)(?![A-Za-z])(?=\s|$)")
_CALL = re.compile(r"(?<![.\w\"])([a-z_][a-z0-9_]*)\(")
# What looks operators up without showing them.
_HIDDEN = re.compile(r"\b(IN \(|LIKE\b|IS (?:NOT )?DISTINCT FROM|BETWEEN\b|NULLIF\(|nullif\(|USING \((?!SELECT\b))")
_CAST = re.compile(r"::\s*(?!pg_catalog\.|herd\.)(?!\{)([a-z\"][\w\"]*)")


def _texts(places=_LOOKED_THROUGH):
    for place in places:
        path = _CRATES / place
        for file in sorted(path.rglob("*.rs")) if path.is_dir() else [path]:
            name = str(file.relative_to(_CRATES))
            if name in _OWN | _ELSEWHERE or name.startswith(_OF_STORES):
                continue
            source = re.split(r"\n#\[cfg\(test\)\]", file.read_text())[0]
            source = re.sub(r"^\s*//.*$", "", source, flags=re.M)
            for found in _LITERAL.finditer(source):
                text = re.sub(r"\\\n\s*", " ", found.group(1)).replace('\\"', '"')
                if _SQL.search(text) and not _PROSE.search(text) and len(text) > 12:
                    yield f"{file.relative_to(_CRATES)}:{source[: found.start()].count(chr(10)) + 1}", text


def _faults(text):
    bare = re.sub(r"'(?:[^']|'')*'", "''", text)
    bare = re.sub(r"OPERATOR\(pg_catalog\.[^)]*\)", " ", bare)
    # A list of columns' names.
    bare = re.sub(r"\bAS \w+\(", "AS (", bare)
    # What a statement sets, or gives a name to, is no operator.
    bare = re.sub(r"\bSET\s+(LOCAL\s+|SESSION\s+)?\w+\s*=", "SET ", bare)
    bare = re.sub(r"\bWITH\s*\(\w+\s*=", "WITH (", bare)
    yield from (f"bare cast ::{m.group(1)}" for m in _CAST.finditer(bare))
    yield from (f"unqualified {m.group(1)}()" for m in _CALL.finditer(bare) if m.group(1) not in _GRAMMAR)
    yield from (f"hidden operator of {m.group(1)}" for m in _HIDDEN.finditer(bare))
    yield from (f"bare operator {m.group(1)}" for m in _OPERATOR.finditer(bare))


def test_the_rule_finds_faults():
    assert list(_faults("SELECT count(*) FROM pg_catalog.pg_class c WHERE c.oid = $1::int8")) == ["bare cast ::int8", "unqualified count()", "bare operator ="]
    assert list(_faults("SELECT pg_catalog.count(*) FROM t WHERE a OPERATOR(pg_catalog.=) $1::pg_catalog.int8 AND b OPERATOR(pg_catalog.<>) '= f(x)'")) == []
    assert list(_faults("SELECT a FROM t WHERE a IN ('x') OR NULLIF(a, b) LIKE c")) == [f"hidden operator of {word}" for word in ("IN (", "NULLIF(", "LIKE")]


def test_texts_on_clients_connections():
    texts = list(_texts())
    assert len(texts) > 40, "the sources are somewhere else now"
    faults = [f"{place}: {', '.join(found)}\n    {text}" for place, text in texts if (found := list(_faults(text)))]
    assert not faults, "\n".join(faults)


def test_every_crate_with_texts_is_looked_through():
    """A crate that begins to ask nodes something is judged from that day on."""
    judged = {place.split("/")[0] for place in _LOOKED_THROUGH} | {_BEHIND_A_PATH.split("/")[0]}
    # Copy, keys, the lexer and messages ask nobody; the binaries have connections of their own, and pg_dump's.
    others = {crate.name for crate in _CRATES.iterdir() if crate.is_dir()} - judged
    assert others == {"copy", "key", "sql", "wire", "herd", "column"}
    for crate in sorted(others - {"herd", "column"}):
        assert not [text for _, text in _texts([f"{crate}/src"]) if re.search(r"\bFROM (?:pg_catalog|herd)\.|\bpg_catalog\.\w+\(", text)], crate


def test_the_catalog_is_read_by_a_path_of_its_own():
    """Its texts are long and name much; so every one that names something without its schema is run where only pg_catalog is in front."""
    load = (_CRATES / "catalog/src/load.rs").read_text()
    asked = (_CRATES / "exec/src/admin/time_partitions.rs").read_text()
    assert '"search_path", "pg_catalog, pg_temp"' in asked and asked.count("ask_home(") == 1
    assert '("search_path", "pg_catalog, pg_temp")' in load
    assert "search_path=pg_catalog,pg_temp" in (_CRATES / "pool/src/own.rs").read_text()
    assert "SET LOCAL search_path = pg_catalog, pg_temp" in (_CRATES / "catalog/src/schema.rs").read_text()
    # Tables of others could stand in front of pg_temp's only: none is read that is not pg_catalog's or the herd's.
    names = re.compile(r"\b(?:FROM|JOIN)\s+(?!LATERAL\b)(?:ONLY\s+)?([a-z_]+\.)?([a-z_][a-z0-9_]*)(?!\w*\()", re.I)
    for place, text in _texts([_BEHIND_A_PATH]):
        for schema, name in names.findall(text):
            assert schema in ("", "pg_catalog.", "herd.", "information_schema."), f"{place}: {schema}{name}"
