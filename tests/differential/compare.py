"""Says how two outcomes of one statement differ, in words for a report. Pure."""

from .corpus import Statement
from .talk import Answer, Outcome

_SHOWN_ROWS_MAX = 6


def differences(statement: Statement, expected: Outcome, got: Outcome) -> list[str]:
    """What `got` (the herd's) has otherwise than `expected` (plain PostgreSQL's); empty when all is the same."""
    if expected.sqlstate != got.sqlstate:
        return [f"SQLSTATE: expected {_error(expected)}, got {_error(got)}"]
    if len(expected.answers) != len(got.answers):
        return [f"number of results: expected {_shape(expected)}, got {_shape(got)}"]
    found = []
    for mine, theirs in zip(expected.answers, got.answers):
        found += _answer_differences(statement, mine, theirs)
    if "notices vary" not in statement.flags and expected.notices != got.notices:
        found.append(f"notices: expected {expected.notices}, got {got.notices}")
    if expected.transaction != got.transaction:
        found.append(f"transaction status: expected {expected.transaction}, got {got.transaction}")
    return found


def _answer_differences(statement: Statement, expected: Answer, got: Answer) -> list[str]:
    found = []
    if expected.status != got.status:
        found.append(f"result status: expected {expected.status}, got {got.status}")
    if expected.tag != got.tag:
        found.append(f"command tag: expected {expected.tag!r}, got {got.tag!r}")
    if "message varies" not in statement.flags:
        for name in expected.error.keys() & got.error.keys():
            if expected.error[name] != got.error[name]:
                found.append(f"error's {name}: expected {expected.error[name]!r}, got {got.error[name]!r}")
    if expected.columns != got.columns:
        found.append(f"columns (name, type, typmod, format, size): expected {expected.columns}, got {got.columns}")
    if "rows vary" not in statement.flags:
        found += _row_differences("ordered" in statement.flags, expected.rows, got.rows)
        found += _row_differences("ordered" in statement.flags, [(c,) for c in expected.copied], [(c,) for c in got.copied])
    return found


def _row_differences(ordered: bool, expected: list[tuple], got: list[tuple]) -> list[str]:
    if not ordered:
        expected, got = sorted(expected, key=_sort_key), sorted(got, key=_sort_key)
    if expected == got:
        return []
    if sorted(expected, key=_sort_key) == sorted(got, key=_sort_key):
        at = next(i for i, (a, b) in enumerate(zip(expected, got)) if a != b)
        return [f"order of rows, first at {at}: expected {_rows(expected[at:])}, got {_rows(got[at:])}"]
    missing, extra = _without(expected, got), _without(got, expected)
    return [f"rows: {len(expected)} expected, {len(got)} got; missing {_rows(missing)}; extra {_rows(extra)}"]


def _without(these: list[tuple], those: list[tuple]) -> list[tuple]:
    left = list(those)
    found = []
    for row in these:
        if row in left:
            left.remove(row)
        else:
            found.append(row)
    return found


def _sort_key(row: tuple) -> tuple:
    return tuple((value is None, value or b"") for value in row)


def _rows(rows: list[tuple]) -> str:
    shown = ["(" + ", ".join("NULL" if v is None else v.decode(errors="backslashreplace") for v in row) + ")" for row in rows]
    more = f" … {len(shown) - _SHOWN_ROWS_MAX} more" if len(shown) > _SHOWN_ROWS_MAX else ""
    return "[" + ", ".join(shown[:_SHOWN_ROWS_MAX]) + "]" + more


def _error(outcome: Outcome) -> str:
    return f"{outcome.sqlstate} ({outcome.message})" if outcome.sqlstate else f"success ({_shape(outcome)})"


def _shape(outcome: Outcome) -> str:
    return ", ".join(answer.tag or answer.status for answer in outcome.answers)
