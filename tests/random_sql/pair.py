"""A herd and a plain PostgreSQL in the same state: runs steps on both and says what differs, stored rows included.

What is stored is read from each node itself, not through the router, so that a wrong read hides no wrong write.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from differential.talk import Hang, Outcome
from harness.server import Server

from .compare import NOT_SUPPORTED, differences, multisets
from .step import Step
from .talk import STATEMENT_SECONDS_MAX, Connection
from .values import ident, quoted

SCHEMA = "random_sql"
# A role that owns nothing.
READER = "random_sql_reader"
# A plan that takes too long says nothing.
_CANCELED = "57014"
# Clients of the herd that send what goes together.
_CROWD = 6
_FORBIDDEN = re.compile(r"expected success \(SELECT .*got 42501 \(permission denied for (?:table|view) (.*)\)$")


@dataclass
class Done:
    """What came of a step. `refused`: the herd's words, where it answered 0A000 and PostgreSQL would not."""

    different: list[str] = field(default_factory=list)
    refused: str | None = None
    sqlstate: str | None = None
    rows: int = 0


class Pair:
    """Both servers, with the sessions of one program open on each."""

    def __init__(self, herd: Server, nodes: list[Server], plain: Server):
        self.herd, self.nodes, self.plain = herd, nodes, plain
        self._sessions: dict[int, tuple[Connection, Connection]] = {}
        self._readers: dict[str, Connection] = {}
        self._crowd: list[tuple[Connection, Connection]] = []
        self._together: list[Step] = []
        self._sequence = 1000
        self._is_stale = False

    def close(self) -> None:
        for pair in self._sessions.values():
            for connection in pair:
                connection.close()
        for connection in self._readers.values():
            connection.close()
        for pair in self._crowd:
            for connection in pair:
                connection.close()
        self._sessions, self._readers, self._crowd, self._together = {}, {}, [], []

    def fresh(self) -> None:
        """Both sides empty, new sessions."""
        self.close()
        self._sequence, self._is_stale = 1000, False
        for server in (self.herd, self.plain):
            connection = Connection(server)
            for sql in (f"drop schema if exists {SCHEMA} cascade", f"create schema {SCHEMA}"):
                outcome = connection.send(Step(sql))
                if outcome.sqlstate:
                    connection.close()
                    raise ConnectionError(f"{server.name}: {sql}: {outcome.sqlstate} {outcome.message}")
            # It stays when programs end.
            connection.send(Step(f"create role {READER}"))
            connection.send(Step(f"grant usage on schema {SCHEMA} to {READER}"))
            connection.close()

    def _session(self, number: int) -> tuple[Connection, Connection]:
        if number not in self._sessions:
            self._sessions[number] = self._connected()
        return self._sessions[number]

    def _connected(self) -> tuple[Connection, Connection]:
        made = (Connection(self.herd), Connection(self.plain))
        for connection in made:
            connection.send(Step(f"set search_path = {SCHEMA}, public"))
        return made

    def check(self, step: Step) -> Done:
        """`run`, and after a write what is stored, as soon as nobody has a transaction open."""
        done = self.run(step)
        if not done.different and step.writes and self.is_idle():
            done.different = self.stored()
        return done

    def run(self, step: Step) -> Done:
        if step.together:
            self._together.append(step)
            return Done()
        if self._together and (different := self._run_together()):
            return Done(different)
        done = self._run_alone(step)
        # COPY takes values ahead of its rows.
        takes_more = done.sqlstate or step.data is not None
        if takes_more and step.writes and not any(d.startswith("connection") for d in done.different):
            self._is_stale = True
        if self._is_stale:
            self._is_stale = not (self.next_values() and self.is_idle())
        return done

    def _run_together(self) -> list[str]:
        """What was gathered, from several clients at once: statements that meet on a node travel together."""
        steps, self._together = self._together, []
        try:
            while len(self._crowd) < _CROWD:
                self._crowd.append(self._connected())

            def one_client(number: int) -> list[Outcome]:
                return [self._crowd[number][0].send(step) for step in steps[number::_CROWD]]

            with ThreadPoolExecutor(_CROWD) as pool:
                answers = list(pool.map(one_client, range(_CROWD)))
        except (ConnectionError, Hang) as error:
            self.close()
            return [f"connection: together: {type(error).__name__}: {error}".strip()]
        found = []
        for i, step in enumerate(steps):
            got = answers[i % _CROWD][i // _CROWD]
            if got.sqlstate == NOT_SUPPORTED:
                continue
            # What a client has prepared is its own.
            expected = self._crowd[i % _CROWD][1].send(step)
            found += [f"together: {step.text()[:300]}: {text}" for text in differences(step, expected, got)]
        return found

    def _run_alone(self, step: Step) -> Done:
        try:
            herd, plain = self._session(step.session)
            got = herd.send(step)
        except (ConnectionError, Hang) as error:
            self.close()
            return Done([f"connection: {type(error).__name__}: {error}".strip()])
        if step.herd_only:
            if got.sqlstate:
                return Done(refused=got.message, sqlstate=got.sqlstate) if got.sqlstate == NOT_SUPPORTED else Done([f"herd only: {got.sqlstate} {got.message}"])
            return Done()
        in_transaction = plain.status != "IDLE"
        if got.sqlstate == NOT_SUPPORTED:
            if _refuses(plain, step):
                return Done(sqlstate=NOT_SUPPORTED)
            if in_transaction and plain.status == "INTRANS":
                plain.send(Step("select 1/0"))
            elif not in_transaction and plain.status != "IDLE":
                plain.send(Step("rollback"))
            return Done(refused=got.message, sqlstate=NOT_SUPPORTED)
        expected = plain.send(step)
        done = Done(differences(step, expected, got), sqlstate=expected.sqlstate, rows=sum(len(a.rows) for a in expected.answers))
        return done

    def is_idle(self) -> bool:
        return all(plain.status == "IDLE" for _, plain in self._sessions.values())

    def next_values(self) -> bool:
        """Values taken and not used are not given back, and how many were taken is open: both go on from one number. False: nobody could be told yet."""
        for pair in self._sessions.values():
            if all(connection.status in ("IDLE", "INTRANS") for connection in pair):
                for name in self.sequences():
                    self._sequence += 1000
                    for connection in pair:
                        connection.send(Step(f"select setval({quoted(ident(name))}, {self._sequence})"))
                return True
        return False

    def stored(self) -> list[str]:
        """How what is stored differs: rows of all nodes together for distributed tables, each copy of reference tables."""
        try:
            tables = self._tables()
            places = dict(self._ask("node0", self.nodes[0], f"select name, kind from herd.tables where schema = {quoted(SCHEMA)}"))
            plain = self._rows("plain", self.plain, tables)
            nodes = [self._rows(f"node{i}", node, [t for t in tables if i == 0 or t in places]) for i, node in enumerate(self.nodes)]
        except ConnectionError as error:
            return [f"contents: {error}"]
        found = []
        for table in tables:
            if places.get(table) == "distributed":
                got = [row for node in nodes for row in node[table]]
                found += [f"contents of {table}: {text}" for text in multisets(plain[table], got)]
            else:
                copies = nodes if table in places else nodes[:1]
                for number, copy in enumerate(copies, 1):
                    found += [f"contents of {table} on node {number}: {text}" for text in multisets(plain[table], copy[table])]
        return found

    def _tables(self) -> list[str]:
        return [name for name, in self._ask("plain", self.plain, f"select tablename from pg_tables where schemaname = {quoted(SCHEMA)} order by 1")]

    def _ask(self, name: str, server: Server, sql: str) -> list[tuple[str, ...]]:
        if name not in self._readers:
            self._readers[name] = Connection(server)
        outcome = self._readers[name].send(Step(sql))
        if outcome.sqlstate:
            raise ConnectionError(f"{server.name}: {outcome.sqlstate} {outcome.message}")
        return [tuple(v.decode() for v in row) for row in outcome.answers[0].rows]

    def _rows(self, name: str, server: Server, tables: list[str]) -> dict[str, list[tuple]]:
        found: dict[str, list[tuple]] = {table: [] for table in tables}
        if tables:
            # A row of a table by its alias would be a column, if one has that name.
            sql = " union all ".join(f"select {quoted(table)}, (t.*)::text from {SCHEMA}.{ident(table)} t" for table in tables)
            for table, row in self._ask(name, server, sql):
                found[table].append((row.encode(),))
        return found

    def sequences(self) -> list[str]:
        return [name for name, in self._ask("plain", self.plain, f"select sequencename from pg_sequences where schemaname = {quoted(SCHEMA)}")]

    def is_unasked(self, different: str) -> bool:
        """The herd refuses a table that the role may not read, where plain PostgreSQL never asks for the right: its planner has thrown the subquery away."""
        named = _FORBIDDEN.search(different)
        if not named:
            return False
        may = "select has_any_column_privilege(%s, c.oid, 'select') from pg_class c where c.relname = %s and c.relnamespace = %s::regnamespace"
        with self.plain.connect() as connection:
            return connection.execute(may, [READER, named[1], SCHEMA]).fetchone() == (False,)

    def is_at_the_limit(self, different: str, step: Step) -> bool:
        """The herd took longer than it may, and plain PostgreSQL takes almost as long: which of them is in time is open."""
        if "(canceling statement due to statement timeout)" not in different:
            return False
        _, plain = self._session(step.session)
        plain.send(Step(f"set statement_timeout = '{STATEMENT_SECONDS_MAX / 3}s'"))
        alone = plain.send(step)
        plain.send(Step(f"set statement_timeout = '{STATEMENT_SECONDS_MAX}s'"))
        return alone.sqlstate == _CANCELED

    def is_determined(self, step: Step) -> bool:
        """Whether plain PostgreSQL gives one answer to a read however it plans it. What it leaves open can't be compared."""
        _, plain = self._session(step.session)
        answers = []
        plain.send(Step("set statement_timeout = '5s'"))
        for off in ((), ("enable_hashjoin", "enable_hashagg"), ("enable_mergejoin", "enable_nestloop", "enable_sort"), ("enable_seqscan", "enable_material", "enable_memoize")):
            for name in off:
                plain.send(Step(f"set {name} = off"))
            answers.append(plain.send(step))
            for name in off:
                plain.send(Step(f"reset {name}"))
        plain.send(Step(f"set statement_timeout = '{STATEMENT_SECONDS_MAX}s'"))
        answers = [a for a in answers if a.sqlstate != _CANCELED]
        return all(not differences(step, answers[0], other) for other in answers[1:])


def _refuses(plain, step: Step) -> bool:
    """PostgreSQL answers 0A000, too. What it does where it does not is undone; of a transaction that has failed nothing can be said."""
    if not step.writes:
        return plain.send(step).sqlstate == NOT_SUPPORTED
    if plain.status == "INTRANS":
        return plain.send(step).sqlstate == NOT_SUPPORTED
    # A string that commits by itself can't be undone.
    if plain.status != "IDLE" or re.search(r";\s*commit\b", step.sql):
        return False
    plain.send(Step("begin"))
    refuses = plain.send(step).sqlstate == NOT_SUPPORTED
    plain.send(Step("rollback"))
    return refuses
