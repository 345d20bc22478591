"""A program on two servers: whatever it does is done on plain PostgreSQL and on the herd, and what they answer is compared."""

import re
from collections.abc import Iterable, Iterator

import psycopg

from harness.server import Server


def statements(text: str) -> Iterator[str]:
    """The statements of a program's text; each ends at a line's end."""
    return (s for s in (part.strip() for part in re.split(r";[ \t]*\n", text)) if s)


class Pair:
    """A connection to plain PostgreSQL and one to the herd, each with an empty schema of this name in front of its path."""

    def __init__(self, oracle: Server, herd: Server, schema: str):
        self.schema = schema
        self.plain, self.herd = oracle.connect(), herd.connect()
        for connection in (self.plain, self.herd):
            connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            connection.execute(f"CREATE SCHEMA {schema}")
            connection.execute(f"SET search_path = {schema}")

    def run(self, text: str) -> None:
        """The same statements on both; none may fail."""
        for connection in (self.plain, self.herd):
            for statement in statements(text):
                connection.execute(statement)

    def distribute(self, text: str) -> None:
        """Statements of the herd's alone."""
        for statement in statements(text):
            self.herd.execute(statement)

    def fill(self, tables: Iterable[tuple[str, Iterable]]) -> None:
        """The same rows on both, by COPY, and statistics of them. What is asked then may take 60 s: a plan that has gone wrong takes minutes."""
        for table, rows in tables:
            rows = list(rows)
            for connection in (self.plain, self.herd):
                with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                    for row in rows:
                        copy.write_row(row)
        for connection in (self.plain, self.herd):
            connection.execute("ANALYZE")
            connection.execute("SET statement_timeout = '60s'")

    def change(self, statements: list[str]) -> list[str]:
        """The same statements on both, a transaction on each; the tags, which are the same."""
        tags = []
        for connection in (self.plain, self.herd):
            with connection.transaction():
                tags.append([connection.execute(statement).statusmessage for statement in statements])
        assert tags[0] == tags[1], statements
        return tags[0]

    def both(self, query: str, parameters=None) -> tuple[list, list]:
        """What both answer: the tag, the columns' names and types, the rows in any order."""
        return tuple(_answer(connection, query, parameters) for connection in (self.plain, self.herd))

    def same(self, query: str, ordered: bool = False, parameters=None) -> list[tuple]:
        """Fails unless both answer alike; returns the rows."""
        plain, herd = self.both(query, parameters)
        assert herd[0] == plain[0], f"{query}\nplain: {plain[0]}\nherd:  {herd[0]}"
        keep = (lambda rows: rows) if ordered else (lambda rows: sorted(rows, key=repr))
        assert keep(herd[1]) == keep(plain[1]), query
        return plain[1]

    def close(self) -> None:
        for connection in (self.plain, self.herd):
            connection.rollback()
            connection.execute(f"DROP SCHEMA {self.schema} CASCADE")
            connection.close()


def _answer(connection: psycopg.Connection, query: str, parameters) -> tuple:
    try:
        done = connection.execute(query, parameters)
    except psycopg.Error as error:
        return (error.sqlstate, error.diag.message_primary, error.diag.message_hint), []
    columns = [(c.name, c.type_code) for c in done.description or []]
    return (done.statusmessage, columns), done.fetchall() if done.description else []
