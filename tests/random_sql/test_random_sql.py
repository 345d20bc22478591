"""Random programs for a short while, and the tools they rest on. For long: `make promises`, or `python -m random_sql.run`."""

import os
from pathlib import Path

import pytest
from differential import talk

from . import compare, queries, shrink, step
from .pair import Pair
from .program import Program
from .replay import replayed
from .run import Run
from .step import Step, mark

# One group: both want a herd of three nodes.
pytestmark = pytest.mark.xdist_group("random_sql")

SEED = int(os.environ.get("PROMISES_SEED", "1"))


@pytest.fixture(scope="module")
def herd_three():
    from harness.herd import Herd

    herd = Herd(nodes=3, shards=8)
    yield herd
    herd.stop()


@pytest.fixture(scope="module")
def herd_single():
    """One node, eight shards."""
    from harness.herd import Herd

    herd = Herd(nodes=1, shards=8)
    yield herd
    herd.stop()


@pytest.mark.real_herd
@pytest.mark.timeout(600)
@pytest.mark.parametrize("herd, seconds", [("herd_three", 40), ("herd_single", 15)], ids=["three nodes", "one node"])
def test_a_herd_answers_as_one_postgres(request, herd, seconds, oracle, tmp_path):
    herd = request.getfixturevalue(herd)
    pair = Pair(herd.server, herd.node_servers, oracle)
    try:
        figures = Run(pair, SEED, tmp_path, shrink_seconds=60).go(statements=5000, seconds=seconds)
    finally:
        pair.close()
    assert figures.different == 0, {path: open(path).read()[-3000:] for path in figures.files}
    # Most of it is answered, not refused and not wrong on both sides.
    assert figures.statements > 100 and figures.compared - figures.errors > figures.statements / 2


@pytest.mark.real_herd
@pytest.mark.parametrize("file", sorted((Path(__file__).parent / "found").glob("*.sql")), ids=lambda file: file.stem)
def test_what_was_found_once(file, herd_three, oracle, monkeypatch):
    # Queries whose ways have ways of their own take long on a busy machine.
    monkeypatch.setattr(talk, "_ANSWER_SECONDS_MAX", 60)
    pair = Pair(herd_three.server, herd_three.node_servers, oracle)
    try:
        assert replayed(pair, file.read_text()) == []
    finally:
        pair.close()


def test_a_difference_is_made_small():
    """A herd that loses one row is found out by one statement."""

    class Lossy:
        """Answers wrongly whatever reads `t` after a row of 7 was put in."""

        rows: list[int] = []

        def fresh(self):
            self.rows = []

        def is_idle(self):
            return True

        def is_determined(self, _):
            return True

        def run(self, one: Step):
            from .pair import Done

            if one.sql.startswith("insert into t"):
                self.rows.append(7 if "7" in one.sql else 0)
            wrong = one.sql.startswith("select") and "from t" in one.sql and 7 in self.rows
            return Done(["rows: 1 expected, 0 got"] if wrong else [])

        check = run

    program = [Step("create table t (a int)", setup=True), *(Step(f"insert into t values ({n}), (100)", writes=True) for n in range(9)), Step("select 1"), Step("select a, b from t where a = 1 order by a")]
    small = shrink.shrink(Lossy(), program, ["rows: 2 expected, 1 got"], 20)
    assert [s.sql.replace(" ", "") for s in small.steps] == ["insertintot(7)", "selectfromt"]


def test_files_are_read_as_they_were_written():
    steps = [Step("select 1"), Step(f"select {mark(0)}::text, '$1', E'\\n'", mode="binary", params=("a;\n--! x", None), types=("text", "int4"), ordered_by=(0,)), Step("copy t from stdin", data="1\t\\N\n")]
    assert step.read(step.written(steps, ["why"])) == steps


def test_one_seed_is_one_program():
    def texts(seed):
        from .pair import Done

        made = Program(seed).steps(40)
        found, one = [], next(made)
        try:
            while True:
                found.append(one)
                one = made.send(Done())
        except StopIteration:
            return found

    assert texts("1/1") == texts("1/1") != texts("1/2")


def test_parameters_are_literals_in_the_simple_protocol():
    one = Step(f"select {mark(1)}, '$2'", params=("unused", "it's"), types=("text", "text"))
    assert one.text() == "select 'it''s', '$2'"
    assert step.replace(one, mode="extended").text() == "select $1, '$2'"
    assert step.replace(one, mode="extended").encoded() == ([b"it's"], [0])


def test_what_is_open_is_no_difference():
    assert compare._number(b"1.00") == compare._number(b"1.0") == b"1" and compare._number(b"-0") == b"0"
    assert compare._number(b'{"a": 1.50, "b": 10}') == b'{"a": 1.5, "b": 10}' and compare._number(b"100") == b"100" and compare._number(b"0.0010") == b"0.001"
    assert compare._interval(b"1 mon") == compare._interval(b"30 days") == compare._interval(b"720:00:00") != compare._interval(b"-1 years -2 mons +3 days -00:00:01")
    assert compare.reason('a join of "x" and "y" with 7 rows') == compare.reason('a join of "a" and "it""s" with 8 rows')


def test_reads_are_told_from_writes():
    assert queries.Queries and shrink.is_read(Step("select 1")) and not shrink.is_read(Step("with x as (…) …", writes=True))
