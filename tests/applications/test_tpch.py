"""TPC-H's 22 queries, with the tables placed as a person would, and with each table by its own key: as plain PostgreSQL answers."""

import pytest

from .pairs import Pair
from .programs import tpch_queries, tpch_rows

pytestmark = pytest.mark.xdist_group("tpch")
SCALE = 0.01
OWN_KEYS = {
    "region": "r_regionkey", "nation": "n_nationkey", "supplier": "s_suppkey", "part": "p_partkey", "partsupp": "ps_partkey",
    "customer": "c_custkey", "orders": "o_orderkey", "lineitem": "l_orderkey",
}
PLACEMENTS = {
    "by order": "\n".join(
        f"SELECT create_distributed_table('{t}', '{OWN_KEYS[t]}', shard_count => 6);" if t in ("orders", "lineitem") else f"SELECT create_reference_table('{t}');"
        for t in tpch_rows.TABLES
    ) + "\n",
    "each by its key": "\n".join(f"SELECT create_distributed_table('{t}', '{key}', shard_count => 6);" for t, key in OWN_KEYS.items()) + "\n",
}


@pytest.fixture(scope="module", params=PLACEMENTS, ids=lambda name: name.replace(" ", "_"))
def pair(request, oracle, herd):
    made = Pair(oracle, herd, "tpch")
    made.run(tpch_rows.SCHEMA)
    made.distribute(PLACEMENTS[request.param])
    made.fill(tpch_rows.rows(SCALE))
    yield made
    made.close()


@pytest.mark.parametrize("number", tpch_queries.QUERIES)
def test_query(pair, number):
    query = tpch_queries.QUERIES[number].format(scale=SCALE)
    rows = pair.same(query, ordered="order by" in query)
    assert rows and any(value is not None for row in rows for value in row), "a query without rows shows nothing"
