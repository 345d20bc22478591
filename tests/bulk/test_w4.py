"""W4's script as it is, with each of its settings on and off."""

import pytest

pytestmark = pytest.mark.real_herd

ROWS = 30000


@pytest.mark.parametrize("upsert", ["off", "on"])
@pytest.mark.parametrize("bulk_load", ["off", "on"])
@pytest.mark.parametrize("batch", [0, 700])
def test_the_script(bulk_herd, bulk_load, upsert, batch):
    with bulk_herd.server.connect() as db:
        db.execute("DROP TABLE IF EXISTS demo")
        db.execute("CREATE TABLE demo (id int primary key, a int, b int, c int, d int)")
        db.execute("SELECT create_distributed_table('demo', 'id')")
        db.execute(f"set yb_disable_transactional_writes = {bulk_load}")
        db.execute(f"set yb_enable_upsert_mode = {upsert}")
        db.execute(f"set ysql_session_max_batch_size = {batch}")
        db.execute("set ysql_max_in_flight_ops = 10000")
        for value in [0] if upsert == "off" else [0, 1]:
            lines = db.execute(
                f"explain (costs off, analyze) insert into demo select generate_series(1,{ROWS}),{value},0,0,0"
            ).fetchall()
            assert f"Rows: {ROWS}" in [line for (line,) in lines]
            found = db.execute("SELECT count(*), min(id), max(id), sum(a) FROM demo").fetchone()
            assert found == (ROWS, 1, ROWS, ROWS * value)
        db.execute("DROP TABLE demo")
