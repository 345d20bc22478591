"""Values of a sequence are taken beside the transaction: one that holds the sequence itself is told so, and waits for nobody."""

import psycopg
import pytest

pytestmark = pytest.mark.real_herd
SELECTED = "insert into seq_held (v) select g from generate_series(1, 9) g"


@pytest.fixture
def connection(herd):
    with herd.connect() as made:
        made.execute("create table seq_held (id bigserial primary key, v int)")
        made.execute("set statement_timeout = '20s'")
        yield made
        made.execute("rollback")
        made.execute("drop table if exists seq_held")


def _copied(connection):
    with connection.cursor().copy("copy seq_held (v) from stdin") as copy:
        copy.write("1\n2\n")


@pytest.mark.parametrize("change", [
    "select create_distributed_table('seq_held', 'id')", "alter sequence seq_held_id_seq restart 100", "truncate seq_held restart identity",
    "alter sequence seq_held_id_seq owned by none", "alter table seq_held owner to current_user",
])
@pytest.mark.parametrize("fills", [lambda c: c.execute(SELECTED), _copied], ids=["insert", "copy"])
def test_who_holds_it_is_told(connection, change, fills):
    if "create_distributed" not in change:
        connection.execute("select create_distributed_table('seq_held', 'id')")
    connection.execute("begin")
    connection.execute(change)
    try:
        fills(connection)
    except psycopg.errors.FeatureNotSupported as error:
        assert "can't be taken beside it before it commits" in str(error) and error.diag.message_hint
        connection.execute("rollback")
        connection.execute(change)
        fills(connection)
    else:
        connection.execute("commit")
    assert connection.execute("select count(*) = count(distinct id), count(*) > 1 from seq_held").fetchone() == (True, True)


def test_who_only_took_values_goes_on(connection):
    connection.execute("select create_distributed_table('seq_held', 'id')")
    with connection.transaction():
        connection.execute("select nextval('seq_held_id_seq'), setval('seq_held_id_seq', 1, false)")
        connection.execute("lock table seq_held in row exclusive mode")
        connection.execute(SELECTED)
        _copied(connection)
    assert connection.execute("select count(*), min(id) from seq_held").fetchone() == (11, 1)
