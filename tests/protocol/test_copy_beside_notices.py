"""COPY FROM STDIN while nodes have something to say: every row arrives, however the client's messages are cut."""

import pytest

pytestmark = pytest.mark.real_herd
ROWS = 120_000


@pytest.fixture(scope="module")
def noisy(herd):
    herd.run(
        "create function noisy_says() returns trigger language plpgsql as $$ begin raise notice 'row %', new.id; return new; end $$",
        "create table noisy_local (id int, v text)", "create table noisy_spread (id int, v text)",
        "create trigger t before insert on noisy_local for each row execute function noisy_says()",
        "select create_distributed_table('noisy_spread', 'id')", "create trigger t before insert on noisy_spread for each row execute function noisy_says()",
    )
    yield herd
    herd.run("drop table noisy_local, noisy_spread", "drop function noisy_says()")


def _messages(cut: int):
    """Lines of a table; `cut`: bytes of a message, 0: one for each line."""
    lines = [b"%d\tvalue %d\n" % (n, n) for n in range(1, ROWS + 1)]
    if not cut:
        return lines
    data = b"".join(lines)
    return [data[at:at + cut] for at in range(0, len(data), cut)]


@pytest.mark.parametrize("cut", [0, 8191])
@pytest.mark.parametrize("table", ["noisy_local", "noisy_spread"])
def test_every_row_arrives(noisy, table, cut):
    with noisy.connect() as connection:
        heard = []
        connection.add_notice_handler(lambda diag: heard.append(diag.message_primary))
        cursor = connection.cursor()
        with cursor.copy(f"copy {table} from stdin") as copy:
            for message in _messages(cut):
                copy.write(message)
        assert cursor.statusmessage == f"COPY {ROWS}"
        assert len(heard) == ROWS
        answer = connection.execute(f"select count(*), sum(id), count(*) filter (where v = 'value ' || id) from {table}").fetchone()
        assert answer == (ROWS, ROWS * (ROWS + 1) // 2, ROWS)
        connection.execute(f"truncate {table}")
