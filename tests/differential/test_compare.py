"""The comparison itself: each kind of difference is seen, and none is seen where there is none."""

from dataclasses import replace

import pytest

from differential.compare import differences
from differential.corpus import Statement
from differential.talk import Answer, Outcome, Talk, UserType

ROWS = [(b"1", b"a"), (b"2", None)]
ANSWER = Answer("TUPLES_OK", "SELECT 2", [("id", "23", -1, 0, 4), ("t", "25", -1, 0, -1)], ROWS)
ERROR = Answer("FATAL_ERROR", error={"sqlstate": "22012", "message_primary": "division by zero", "table_name": ""})
PLAIN = Statement("select", 1)
ORDERED = Statement("select", 1, frozenset({"ordered"}))


def outcome(*answers, notices=(), transaction="IDLE"):
    return Outcome(list(answers), list(notices), transaction)


def test_the_same_is_the_same():
    assert differences(ORDERED, outcome(ANSWER), outcome(ANSWER)) == []


def test_order_counts_only_where_it_is_said():
    turned = outcome(replace(ANSWER, rows=ROWS[::-1]))
    assert differences(PLAIN, outcome(ANSWER), turned) == []
    assert "order of rows" in differences(ORDERED, outcome(ANSWER), turned)[0]


@pytest.mark.parametrize(
    "other, said",
    [
        (outcome(replace(ANSWER, tag="SELECT 3")), "command tag"),
        (outcome(replace(ANSWER, rows=ROWS[:1])), "missing [(2, NULL)]"),
        (outcome(replace(ANSWER, rows=ROWS + ROWS[:1])), "extra [(1, a)]"),
        (outcome(replace(ANSWER, rows=[ROWS[0], (b"2", b"")])), "missing [(2, NULL)]"),
        (outcome(replace(ANSWER, columns=[("id", "20", -1, 0, 8), ANSWER.columns[1]])), "columns"),
        (outcome(replace(ANSWER, columns=[("ID", "23", -1, 0, 4), ANSWER.columns[1]])), "columns"),
        (outcome(ERROR), "SQLSTATE"),
        (outcome(ANSWER, ANSWER), "number of results"),
        (outcome(ANSWER, notices=[("NOTICE", "00000", "hello")]), "notices"),
        (outcome(ANSWER, transaction="INTRANS"), "transaction status"),
    ],
)
def test_each_difference_is_seen(other, said):
    assert said in " ".join(differences(PLAIN, outcome(ANSWER), other))


@pytest.mark.parametrize("name", ["message_primary", "table_name"])
def test_error_fields_count(name):
    other = replace(ERROR, error=ERROR.error | {name: "t_17"})
    assert name in " ".join(differences(PLAIN, outcome(ERROR), outcome(other)))
    varies = Statement("select", 1, frozenset({"message varies"}))
    assert differences(varies, outcome(ERROR), outcome(other)) == []


def test_oids_of_user_types_are_named_where_they_stand_and_nowhere_else():
    talk = Talk.__new__(Talk)
    # An oid whose bytes also stand across an array's flags and element type.
    talk.user_types = {16640: UserType("mood", False, False), 65536: UserType("_mood", False, True), 65537: UserType("pair", True, False)}
    flags, dimension = b"\0\0\0\1", b"\0\0\0\2\0\0\0\1"
    elements = b"\0\0\0\3sad" + b"\xff\xff\xff\xff"
    array = b"\0\0\0\1" + flags + b"\0\0\x41\0" + dimension + elements
    named = b"\0\0\0\1" + flags + b"<mood>" + dimension + elements
    assert talk._value(array, 65536, 1) == named
    record = b"\0\0\0\2" + b"\0\0\0\x17\0\0\0\4\0\1\0\0" + b"\0\1\0\0" + len(array).to_bytes(4, "big") + array
    assert talk._value(record, 65537, 1) == record[:16] + b"<_mood>" + record[20:24] + named
    assert talk._value(array, 17, 1) == array
    assert talk._value(array, 65536, 0) == array
