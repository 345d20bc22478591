"""CH-benCHmark's 22 queries, with the tables placed by warehouse, and with each table by its own key: as plain PostgreSQL answers."""

import pytest

from .pairs import Pair
from .programs import chbench_queries, chbench_rows

pytestmark = pytest.mark.xdist_group("chbench")
_BY_WAREHOUSE = {
    "warehouse": "w_id", "district": "d_w_id", "customer": "c_w_id", "history": "h_w_id", "orders": "o_w_id", "new_order": "no_w_id", "order_line": "ol_w_id", "stock": "s_w_id",
}
_OWN_KEYS = {
    "warehouse": "w_id", "district": "d_id", "customer": "c_id", "history": "h_c_id", "orders": "o_id", "new_order": "no_o_id", "order_line": "ol_i_id", "stock": "s_i_id",
    "item": "i_id", "region": "r_regionkey", "nation": "n_nationkey", "supplier": "su_suppkey",
}
PLACEMENTS = {
    "by warehouse": "\n".join([f"SELECT create_distributed_table('{t}', '{key}', shard_count => 6);" for t, key in _BY_WAREHOUSE.items()]
                              + [f"SELECT create_reference_table('{t}');" for t in ("item", "region", "nation", "supplier")]) + "\n",
    # No two tables are colocated.
    "each by its key": "\n".join(f"SELECT create_distributed_table('{t}', '{key}', shard_count => 6, colocate_with => 'none');" for t, key in _OWN_KEYS.items()) + "\n",
}


# Two sums may be the same.
NOT_TOTALLY_ORDERED = (3, 5, 10, 18)


def schema_of(placement: str) -> str:
    """A primary key holds the distribution key."""
    if placement == "by warehouse":
        return chbench_rows.SCHEMA
    return chbench_rows.SCHEMA.replace("(ol_w_id, ol_d_id, ol_o_id, ol_number)", "(ol_w_id, ol_d_id, ol_o_id, ol_number, ol_i_id)")


@pytest.fixture(scope="module", params=PLACEMENTS, ids=lambda name: name.replace(" ", "_"))
def pair(request, oracle, herd):
    made = Pair(oracle, herd, "chbench")
    made.run(schema_of(request.param))
    made.distribute(PLACEMENTS[request.param])
    made.fill(chbench_rows.rows())
    yield made
    made.close()


@pytest.mark.parametrize("number", chbench_queries.QUERIES)
def test_query(pair, number):
    query = chbench_queries.QUERIES[number]
    rows = pair.same(query, ordered="order by" in query and number not in NOT_TOTALLY_ORDERED)
    assert rows and any(value is not None for row in rows for value in row), "a query without rows shows nothing"
