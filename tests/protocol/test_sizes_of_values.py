"""What is asked of long values is asked on their nodes: answers are small, whichever of several functions of a name is meant."""

import pytest

pytestmark = pytest.mark.timeout(120)

_ASKS = [
    "avg(length(b)), sum(length(b)), max(length(b))", "avg(octet_length(b)), avg(length(t)), avg(length(v)), avg(length(c))",
    "stddev(length(b)), count(distinct length(v))", "avg(length(upper(t))), avg(length(substr(b, k)))", "avg(length(path)), avg(length(bits))",
    "avg(late - early), avg(late - 3 - early)", "avg(abs(k)), avg(round(n)), stddev(mod(k, 7))",
]


@pytest.fixture(scope="module")
def made(oracle, herd_many):
    columns = "k int primary key, b bytea, t text, v varchar(9000), c char(9000), n numeric, path path, bits bit(3), early date, late date"
    values = "g, decode(repeat(md5(g::text), 250), 'hex'), repeat('t', g * 90), repeat('v', g * 90), repeat('c', g), g / 7.0, '((0,0),(3,4))', b'101', '2024-01-01', date '2024-02-01' + g"
    for server in (oracle, herd_many.server):
        server.run("drop table if exists sizes", f"create table sizes ({columns})")
    herd_many.server.run("select create_distributed_table('sizes', 'k')")
    for server in (oracle, herd_many.server):
        server.run(f"insert into sizes select {values} from generate_series(1, 40) g")
    yield oracle, herd_many.server
    for server in (oracle, herd_many.server):
        server.run("drop table sizes")


@pytest.mark.parametrize("asks", _ASKS)
def test_answers(made, asks):
    answers = []
    for server in made:
        with server.connect() as connection:
            answers.append(connection.execute(f"select {asks} from sizes").fetchall())
    assert answers[1] == answers[0]


@pytest.mark.parametrize("asks", _ASKS)
def test_values_stay_where_they_are(made, asks):
    with made[1].connect() as connection:
        ((document,),) = connection.execute(f"explain (format json) select {asks} from sizes").fetchall()
    statements = [plan["Statement"] for plan in document[0]["Plan"]["Plans"] if plan["Node Type"] == "Node"]
    assert statements
    for statement in statements:
        asked = statement.split(" FROM ")[0].removeprefix("SELECT ").split(", ")
        assert not {"b", "t", "v", "c", "path", "bits"} & {item.split(".")[-1] for item in asked}, statement
