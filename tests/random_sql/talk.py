"""Sends a step in its mode over libpq, and the tables' contents as the servers hold them."""

import hashlib

from psycopg import pq

from differential.talk import Hang, Outcome, Talk
from harness.server import Server

from .step import Step

__all__ = ["STATEMENT_SECONDS_MAX", "Connection", "Hang"]

STATEMENT_SECONDS_MAX = 12


class Connection(Talk):
    """One session of a random program."""

    def __init__(self, server: Server):
        super().__init__(server)
        self._names: dict[str, bytes] = {}
        # Tables joined with themselves and put into themselves grow: what takes too long does so on both sides.
        for sql in ("set timezone = 'Europe/Paris'", "set lock_timeout = '4s'", f"set statement_timeout = '{STATEMENT_SECONDS_MAX}s'"):
            self.pg.exec_(sql.encode())

    def send(self, step: Step) -> Outcome:
        self.notices = []
        sql = step.text().encode()
        values, formats = step.encoded()
        if step.mode == "simple":
            self.pg.send_query(sql)
        elif step.mode == "prepared":
            # Kept and used again: what was prepared before a change of the schema is executed after it.
            name = self._names.get(step.sql)
            if name is None:
                name = b"p" + hashlib.sha1(sql).hexdigest()[:12].encode()
                self.pg.send_prepare(name, sql)
                prepared = self._answers(step)
                if prepared[-1].error:
                    return self._outcome(prepared)
                self._names[step.sql] = name
            self.pg.send_query_prepared(name, values, param_formats=formats, result_format=0)
        else:
            self.pg.send_query_params(sql, values, param_formats=formats, result_format=1 if step.mode == "binary" and not step.any_of_equals else 0)
        return self._outcome(self._answers(step))

    def _outcome(self, answers: list) -> Outcome:
        return Outcome(answers, sorted(set(self.notices)), pq.TransactionStatus(self.pg.transaction_status).name)

    def _answers(self, step: Step) -> list:
        return super()._answers(_CopyData(step.data))

    @property
    def status(self) -> str:
        return pq.TransactionStatus(self.pg.transaction_status).name


class _CopyData:
    """What `Talk` wants to know of a statement while it reads answers."""

    def __init__(self, data: str | None):
        self.copy_data = data
