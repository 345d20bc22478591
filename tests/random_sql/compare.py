"""What counts as a difference between two answers, and what does not. Pure.

Compared: SQLSTATEs (and the constraint, table and column an error names), tags, columns with their types, rows, the
transaction's state. Not compared: messages' wording, notices.

Four rules for what SQL leaves open:
- Rows come in the order of `ordered_by`; among those that are equal there, in any.
- Where one of several equal values stands for all (`any_of_equals`: DISTINCT, GROUP BY, UNION, min), which one is open: 1.0
  or 1.00, 0 or -0, '1 day' or '24:00:00'. These are compared as equal.
- Of a write, only that a row was refused (classes 21, 22, 23 and 44) is compared: where several rows are wrong, which is met first is open.
- An error of the herd with SQLSTATE 0A000 that plain PostgreSQL does not raise is a refusal: counted by reason, no difference.
"""

import re
from collections import Counter

from differential.talk import Answer, Outcome

from .step import Step

NOT_SUPPORTED = "0A000"
_SHOWN_MAX = 5
_OF_ROWS = ("21", "22", "23", "44")
_FIELDS = ("constraint_name", "table_name", "column_name")
_INTERVAL = "1186"
# numeric, float4, float8, jsonb, their arrays.
_OPEN_TYPES = {"1700", "700", "701", _INTERVAL, "3802", "1231", "1021", "1022"}


def differences(step: Step, expected: Outcome, got: Outcome) -> list[str]:
    if got.sqlstate == "XX000":
        return [f"internal error: {got.message}"]
    if step.writes and expected.sqlstate and got.sqlstate and expected.sqlstate[:2] in _OF_ROWS and got.sqlstate[:2] in _OF_ROWS:
        # Several rows may each be wrong in their own way: nobody knows which comes first.
        return []
    if expected.sqlstate != got.sqlstate:
        return [f"SQLSTATE: expected {_error(expected)}, got {_error(got)}"]
    if [a.tag for a in expected.answers] != [a.tag for a in got.answers]:
        return [f"tags: expected {[a.tag for a in expected.answers]}, got {[a.tag for a in got.answers]}"]
    found = []
    for mine, theirs in zip(expected.answers, got.answers):
        found += _answer(step, mine, theirs)
    if expected.transaction != got.transaction:
        found.append(f"transaction: expected {expected.transaction}, got {got.transaction}")
    return found


def _answer(step: Step, expected: Answer, got: Answer) -> list[str]:
    if expected.error:
        return [
            f"error's {name}: expected {expected.error[name]!r}, got {got.error[name]!r} ({got.error['message_primary']})"
            for name in _FIELDS if expected.error[name] != got.error[name]
        ]
    if expected.columns != got.columns:
        return [f"columns: expected {expected.columns}, got {got.columns}"]
    mine, theirs = _canonical(step, expected), _canonical(step, got)
    found = multisets(mine, theirs)
    if not found and step.ordered_by:
        keys = [[tuple(row[i] for i in step.ordered_by if i < len(row)) for row in rows] for rows in (mine, theirs)]
        if keys[0] != keys[1]:
            found.append(f"order of rows: expected {_rows(mine)}, got {_rows(theirs)}")
    return found


def _canonical(step: Step, answer: Answer) -> list[tuple]:
    rows = answer.rows or [(line,) for line in answer.copied]
    if not step.any_of_equals:
        return rows
    if answer.copied:
        return [(_number(line),) for line, in rows]

    def one(type_oid: str, value: bytes | None) -> bytes | None:
        # A row as JSON may be text, too.
        is_open = value is not None and (type_oid in _OPEN_TYPES or value.startswith(b'{"'))
        return _one_text(type_oid, value) if is_open else value

    return [tuple(one(column[1], value) for column, value in zip(answer.columns, row)) for row in rows]


def _one_text(type_oid: str, text: bytes) -> bytes:
    """One text for all values that are equal to this one."""
    return _interval(text) if type_oid == _INTERVAL else _number(text)


def _interval(text: bytes) -> bytes:
    """In microseconds, a month being 30 days, as PostgreSQL compares them. All are one where another IntervalStyle writes them."""
    if not re.fullmatch(rb"((-|\+)?\d+ (years?|mons?|days?) ?)*(-?\d+:\d+:\d+(\.\d+)?)?", text):
        return b"?"
    total = 0
    for number, unit in re.findall(rb"(-?\d+) (year|mon|day)", text):
        total += int(number) * {b"year": 360, b"mon": 30, b"day": 1}[unit] * 86_400_000_000
    if clock := re.search(rb"(-?)(\d+):(\d+):(\d+)(?:\.(\d+))?", text):
        sign, hours, minutes, seconds, rest = clock.groups()
        micros = (int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1_000_000 + int((rest or b"0").ljust(6, b"0"))
        total += -micros if sign else micros
    return str(total).encode()


def _number(text: bytes) -> bytes:
    """Numbers without the zeros at their ends, in JSON too."""
    text = re.sub(rb"(\.\d*?)0+(?=\D|$)", rb"\1", text)
    text = re.sub(rb"\.(?=\D|$)", b"", text)
    return re.sub(rb"(?<![\w.])-0(?=[,}\]]|$)", b"0", text)


def multisets(expected: list[tuple], got: list[tuple]) -> list[str]:
    mine, theirs = Counter(expected), Counter(got)
    if mine == theirs:
        return []
    missing, extra = list((mine - theirs).elements()), list((theirs - mine).elements())
    return [f"rows: {len(expected)} expected, {len(got)} got; missing {_rows(missing)}; extra {_rows(extra)}"]


def _rows(rows: list[tuple]) -> str:
    shown = ["(" + ", ".join("NULL" if v is None else v.decode(errors="backslashreplace") for v in row) + ")" for row in rows[:_SHOWN_MAX]]
    return "[" + ", ".join(shown) + (f", … {len(rows) - _SHOWN_MAX} more" if len(rows) > _SHOWN_MAX else "") + "]"


def _error(outcome: Outcome) -> str:
    return f"{outcome.sqlstate} ({outcome.message})" if outcome.sqlstate else f"success ({', '.join(a.tag or a.status for a in outcome.answers)})"


def reason(message: str) -> str:
    """A refusal's message without the names and numbers in it."""
    message = re.sub(r'"(?:[^"]|"")*"', "…", message)
    # These stand without quotes.
    message = re.sub(r"\b(join of|function|local table) .+? (over|uses|can't|is|reads|writes)\b", r"\1 … \2", message)
    return re.sub(r"\b\d+\b", "N", message)


def kind(found: list[str]) -> str:
    """What sort of difference this is: two of one kind have, as far as can be told from outside, one cause."""
    text = re.sub(r"^together: .*: (?=SQLSTATE|tags|rows|columns|error's|internal)", "", found[0], flags=re.DOTALL)
    if text.startswith(("SQLSTATE", "internal", "error's")):
        return reason(re.sub(r"'[^']*'", "…", text))[:200]
    return re.sub(r"^(contents) of .*", r"\1", text.split(":")[0])
