"""Each corpus file on a herd of 1 shard and on a herd of 2 nodes × 32 shards, against a plain PostgreSQL."""

import dataclasses
import os

import pytest

from differential import corpus
from differential.runner import FileRun

# All of the small herd's files on one worker: the others then need not start one.
VARIANTS = [
    pytest.param("1x1", marks=pytest.mark.xdist_group("herd-1x1")),
    pytest.param("2x32"),
]
FILES = corpus.files()
# Those with joins of tables that are not colocated.
JOINS = {"gather", "outer_references", "joins", "subqueries", "cte", "window", "setops", "grouping"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
@pytest.mark.parametrize("variant", VARIANTS)
def test_same_as_plain_postgres(file, variant, request, oracle, record_property):
    herd = request.getfixturevalue("herd_one" if variant == "1x1" else "herd_many")
    is_fake = os.environ.get("PGHERD_TEST_FAKE") == "1"
    report = FileRun(file, herd.server, oracle, variant, is_fake).run()
    record_property("differential:same", report.same)
    record_property("differential:documented 0A000", report.documented)
    record_property("differential:different", len(report.failures))
    if report.failures:
        pytest.fail(report.text(f"{file.name} on {variant}"), pytrace=False)


@pytest.mark.parametrize("way", ["shuffle", "semijoin"])
@pytest.mark.parametrize("file", [file for file in FILES if file.name in JOINS], ids=lambda file: file.name)
def test_same_by_other_ways(file, way, herd_many, oracle, record_property):
    if os.environ.get("PGHERD_TEST_FAKE") == "1":
        pytest.skip("the fake herd has none of the herd's settings")
    forced = dataclasses.replace(herd_many.server, options=f"-c herd.{way}=on")
    report = FileRun(file, forced, oracle, "2x32", False).run()
    record_property("differential:same", report.same)
    if report.failures:
        pytest.fail(report.text(f"{file.name}, herd.{way} = on"), pytrace=False)


def test_the_corpus_is_large_enough():
    """Some hundreds of statements: guards against a file that is no longer read."""
    assert sum(len(file.sections["tests"]) for file in FILES) >= 400


def test_every_listed_statement_is_in_the_corpus():
    """An entry that names no statement says nothing and hides a typing error."""
    known = {corpus.normalised(s.sql) for file in FILES for s in file.sections["tests"]}
    assert [sql for _, sql in corpus.unsupported() if sql not in known] == []
