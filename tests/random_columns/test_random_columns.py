"""Random queries over column copies for a short while. For long: `make promises`, or `python -m random_columns.run`."""

import os
from pathlib import Path

import pytest

from harness import needs
from random_sql.pair import Done
from random_sql.replay import replayed

from .pair import ColumnPair
from .program import Program
from .run import go

pytestmark = pytest.mark.xdist_group("random_columns")

SEED = int(os.environ.get("PROMISES_SEED", "1"))
STATEMENTS = int(os.environ.get("RANDOM_COLUMNS_STATEMENTS", "600"))


@pytest.fixture(scope="module")
def pair(oracle):
    from harness.herd import Herd

    needs.herd_column()
    herd = Herd(nodes=2, shards=8, columns=True)
    made = ColumnPair(herd, oracle)
    yield made
    made.close()
    herd.stop()


@pytest.mark.real_herd
@pytest.mark.timeout(600 + STATEMENTS)
def test_columns_answer_as_one_postgres(pair, tmp_path):
    figures, share = go(pair, SEED, tmp_path, STATEMENTS, 0)
    print(f"{figures.statements} statements, different {figures.different}, undetermined {figures.undetermined}; {share}")
    assert figures.different == 0, {path: open(path).read()[-3000:] for path in figures.files}
    # What rows have answered proves nothing of columns.
    assert share["share"] >= 0.5, share
    assert figures.errors < figures.statements / 5


@pytest.mark.real_herd
@pytest.mark.parametrize("file", sorted((Path(__file__).parent / "found").glob("*.sql")), ids=lambda file: file.stem)
def test_what_was_found_once(file, pair):
    assert replayed(pair, file.read_text()) == []


def test_one_seed_is_one_program():
    def texts(seed):
        made = Program(seed).steps(60)
        found = []
        try:
            found.append(next(made))
            while True:
                found.append(made.send(Done()))
        except StopIteration:
            return found

    assert texts("1/1") == texts("1/1") != texts("1/2")
