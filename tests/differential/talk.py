"""Runs a statement over libpq's low-level calls in three ways and records all a client can see of the answer.

simple: a Query message. extended: unnamed Parse/Bind/Describe/Execute, text results. prepared: a named statement,
described, then executed with binary results. Knows nothing of what the answer should be.
"""

import select
import time
from dataclasses import dataclass, field

from psycopg import pq

from harness.server import Server

from .corpus import Statement

MODES = ("simple", "extended", "prepared")
_ANSWER_SECONDS_MAX = 20
_ERROR_FIELDS = ("sqlstate", "message_primary", "schema_name", "table_name", "column_name", "datatype_name", "constraint_name")
_FIRST_USER_OID = 16384
_RECORD_OID = 2249
_RECORD_ARRAY_OID = 2287


class Hang(Exception):
    """No answer in time."""


@dataclass
class UserType:
    name: str
    is_record: bool
    is_array: bool


@dataclass
class Answer:
    """What one command of a statement gave."""

    status: str
    tag: str = ""
    columns: list[tuple] = field(default_factory=list)
    rows: list[tuple] = field(default_factory=list)
    error: dict[str, str] = field(default_factory=dict)
    copied: list[bytes] = field(default_factory=list)


@dataclass
class Outcome:
    """All answers to one statement, the notices, and the transaction's state after it."""

    answers: list[Answer]
    notices: list[tuple[str, str, str]]
    transaction: str

    @property
    def sqlstate(self) -> str | None:
        return next((a.error["sqlstate"] for a in self.answers if a.error), None)

    @property
    def message(self) -> str:
        return next((a.error["message_primary"] for a in self.answers if a.error), "")


class Talk:
    """One libpq connection."""

    def __init__(self, server: Server):
        self.server = server
        self.pg = pq.PGconn.connect(server.conninfo.encode())
        if self.pg.status != pq.ConnStatus.OK:
            raise ConnectionError(f"{server.name}: {self.pg.error_message.decode()}")
        self.notices: list[tuple[str, str, str]] = []
        self.pg.notice_handler = self._on_notice
        self.user_types: dict[int, UserType] = {}
        self._prepared = 0

    def close(self) -> None:
        self.pg.finish()

    def run(self, statement: Statement, mode: str) -> Outcome:
        self.notices = []
        if mode == "simple":
            self.pg.send_query(statement.with_literals().encode())
            answers = self._answers(statement)
        elif mode == "extended":
            self.pg.send_query_params(statement.sql.encode(), _encoded(statement.params), result_format=0)
            answers = self._answers(statement)
        else:
            answers = self._run_prepared(statement)
        return Outcome(answers, sorted(set(self.notices)), pq.TransactionStatus(self.pg.transaction_status).name)

    def _run_prepared(self, statement: Statement) -> list[Answer]:
        self._prepared += 1
        name = f"differential_{self._prepared}".encode()
        self.pg.send_prepare(name, statement.sql.encode())
        prepared = self._answers(statement)
        if prepared[-1].error:
            return prepared
        self.pg.send_describe_prepared(name)
        described = self._answers(statement)
        if described[-1].error:
            return described
        self.pg.send_query_prepared(name, _encoded(statement.params), result_format=1)
        return described + self._answers(statement)

    def _answers(self, statement: Statement) -> list[Answer]:
        self.pg.flush()
        found = []
        deadline = time.monotonic() + _ANSWER_SECONDS_MAX
        while (result := self._next(deadline)) is not None:
            answer = self._answer(result)
            if result.status == pq.ExecStatus.COPY_IN:
                self.pg.put_copy_data((statement.copy_data or "").encode())
                self.pg.put_copy_end()
                self.pg.flush()
            elif result.status == pq.ExecStatus.COPY_OUT:
                answer.copied = self._copy_out(deadline)
            found.append(answer)
        if self.pg.status != pq.ConnStatus.OK:
            raise ConnectionError(self.pg.error_message.decode())
        if not found:
            raise ConnectionError("no result at all")
        return found

    def _next(self, deadline: float):
        while self.pg.is_busy():
            self._wait(deadline)
        return self.pg.get_result()

    def _wait(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([self.pg.socket], [], [], left)[0]:
            raise Hang(f"no answer in {_ANSWER_SECONDS_MAX} s")
        self.pg.consume_input()

    def _copy_out(self, deadline: float) -> list[bytes]:
        lines = []
        while True:
            count, data = self.pg.get_copy_data(1)
            if count == 0:
                self._wait(deadline)
            elif count < 0:
                return lines
            else:
                lines.append(bytes(data))

    def _answer(self, result) -> Answer:
        status = pq.ExecStatus(result.status).name
        if result.status == pq.ExecStatus.FATAL_ERROR:
            return Answer(status, error={name: _field(result, name) for name in _ERROR_FIELDS})
        answer = Answer(status, tag=(result.command_status or b"").decode())
        types = [result.ftype(i) for i in range(result.nfields)]
        params = [result.param_type(i) for i in range(result.nparams)]
        answer.columns = [("param", self._type(oid)) for oid in params] + [
            ((result.fname(i) or b"").decode(), self._type(oid), result.fmod(i), result.fformat(i), result.fsize(i))
            for i, oid in enumerate(types)
        ]
        answer.rows = [
            tuple(self._value(result.get_value(row, i), types[i], result.fformat(i)) for i in range(result.nfields))
            for row in range(result.ntuples)
        ]
        return answer

    def _type(self, oid: int) -> str:
        if oid < _FIRST_USER_OID:
            return str(oid)
        if oid not in self.user_types:
            self._learn()
        type = self.user_types.get(oid)
        return type.name if type else f"unknown user type {oid}"

    def _value(self, value: bytes | None, oid: int, format_code: int) -> bytes | None:
        return value if value is None or format_code == 0 else self._by_names(value, oid)

    def _by_names(self, value: bytes, oid: int) -> bytes:
        """A binary array or record with names in the place of the oids it carries: those differ from server to server."""
        type = self.user_types.get(oid)
        if oid == _RECORD_OID or (type and type.is_record):
            return self._record_by_names(value)
        if oid == _RECORD_ARRAY_OID or (type and type.is_array):
            return self._array_by_names(value)
        return value

    def _record_by_names(self, value: bytes) -> bytes:
        named, at = value[:4], 4
        for _ in range(int.from_bytes(value[:4], "big")):
            oid = int.from_bytes(value[at : at + 4], "big")
            named += self._oid(oid)
            field, at = self._field_by_names(value, at + 4, oid)
            named += field
        return named

    def _array_by_names(self, value: bytes) -> bytes:
        oid = int.from_bytes(value[8:12], "big")
        at = 12 + 8 * int.from_bytes(value[:4], "big")
        named = value[:8] + self._oid(oid) + value[12:at]
        while at < len(value):
            element, at = self._field_by_names(value, at, oid)
            named += element
        return named

    def _field_by_names(self, value: bytes, at: int, oid: int) -> tuple[bytes, int]:
        """A field or element as it is sent, its length before it, and where the next one starts."""
        length = int.from_bytes(value[at : at + 4], "big", signed=True)
        end = at + 4 + max(length, 0)
        return value[at : at + 4] + (self._by_names(value[at + 4 : end], oid) if length > 0 else b""), end

    def _oid(self, oid: int) -> bytes:
        return oid.to_bytes(4, "big") if oid < _FIRST_USER_OID else f"<{self._type(oid)}>".encode()

    def _learn(self) -> None:
        """Names of user types, asked on another connection so that this one's transaction is left alone."""
        with self.server.connect() as connection:
            rows = connection.execute(
                "select oid::int8, typname, typcategory = 'C', typcategory = 'A' from pg_catalog.pg_type where oid >= 16384"
            ).fetchall()
        self.user_types = {oid: UserType(*rest) for oid, *rest in rows}

    def _on_notice(self, result) -> None:
        self.notices.append(tuple(_field(result, name) for name in ("severity_nonlocalized", "sqlstate", "message_primary")))


def _encoded(params) -> list[bytes | None] | None:
    return None if params is None else [None if p is None else p.encode() for p in params]


def _field(result, name: str) -> str:
    return (result.error_field(getattr(pq.DiagnosticField, name.upper())) or b"").decode()
