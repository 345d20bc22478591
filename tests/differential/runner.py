"""Runs one corpus file on a herd and on the oracle, statement by statement in lock step, and gathers the differences."""

import time
from dataclasses import dataclass, field

from harness.server import Server

from . import corpus
from .compare import differences
from .corpus import CorpusFile, Statement
from .talk import MODES, Hang, Outcome, Talk

NOT_SUPPORTED = "0A000"
UNDEFINED_OBJECT = "42704"
# Hangs cost their whole timeout: a file that keeps breaking connections is not run to its end.
_BROKEN_CONNECTIONS_MAX = 3
# Fails a transaction of the oracle's where the herd refused a statement, so that both are in the same state.
_ABORT = Statement("do $$ begin raise exception 'aborted, as the herd did'; end $$;", 0)


@dataclass
class Report:
    """What came of one file on one herd."""

    same: int = 0
    documented: int = 0
    failures: list[str] = field(default_factory=list)

    def text(self, name: str) -> str:
        head = f"{name}: {len(self.failures)} of {self.same + self.documented + len(self.failures)} comparisons differ"
        return "\n\n".join([head, *self.failures])


class SetupFailed(Exception):
    """A set-up statement failed, so that nothing of the file could be compared."""


class FileRun:
    """One corpus file against one herd variant (`1x1` or `2x32`)."""

    def __init__(self, file: CorpusFile, herd: Server, oracle: Server, variant: str, is_fake: bool):
        self.file, self.herd, self.oracle, self.variant, self.is_fake = file, herd, oracle, variant, is_fake
        self.listed = corpus.unsupported()
        self.report = Report()

    def run(self) -> Report:
        sections = self.file.sections
        self._prepare(sections["teardown"], may_fail=True)
        try:
            self._prepare(sections["setup"])
            for mode in self.file.modes or MODES:
                self._prepare(sections["reset"])
                self._compare_all(mode)
        finally:
            self._prepare(sections["teardown"], may_fail=True)
        return self.report

    def _prepare(self, statements: list[Statement], may_fail: bool = False) -> None:
        for server, is_herd in ((self.oracle, False), (self.herd, True)):
            talk = Talk(server)
            try:
                for statement in statements:
                    if "herd only" in statement.flags and not is_herd:
                        continue
                    self._prepare_one(talk, statement, may_fail)
            finally:
                talk.close()

    def _prepare_one(self, talk: Talk, statement: Statement, may_fail: bool) -> None:
        outcome = talk.run(statement, "simple")
        if outcome.sqlstate and not may_fail:
            raise SetupFailed(
                f"{self.file.path.name}:{statement.line} on {talk.server.name}: {outcome.sqlstate} {outcome.message}\n{statement.sql}"
            )

    def _compare_all(self, mode: str) -> None:
        pair = _Pair(self.herd, self.oracle)
        broken = 0
        try:
            for statement in self.file.sections["tests"]:
                if broken == _BROKEN_CONNECTIONS_MAX:
                    self.report.failures.append(f"{self.file.path.name} [{mode}]: gave up after {broken} broken connections")
                    break
                if "simple only" in statement.flags and mode != "simple":
                    continue
                try:
                    self._compare(pair, statement, mode)
                except (ConnectionError, Hang) as error:
                    self._fail(statement, mode, [f"connection: {error}"])
                    broken += 1
                    pair.close()
                    # A server that crashed takes a moment to come back.
                    time.sleep(0.5)
                    pair = _Pair(self.herd, self.oracle)
        finally:
            pair.close()

    def _compare(self, pair: "_Pair", statement: Statement, mode: str) -> None:
        got = pair.herd.run(statement, mode)
        if "herd only" in statement.flags:
            # The fake herd has stubs for the admin functions, but knows none of the herd's settings.
            if got.sqlstate and not (self.is_fake and got.sqlstate == UNDEFINED_OBJECT):
                self._fail(statement, mode, [f"{got.sqlstate} {got.message}"])
            return
        if got.sqlstate == NOT_SUPPORTED and "plain refuses" not in statement.flags:
            self._refused(statement, mode, got)
            if pair.oracle_in_transaction():
                pair.oracle.run(_ABORT, "simple")
            return
        found = differences(statement, pair.oracle.run(statement, mode), got)
        if not found and self._reason(statement) and not self.is_fake:
            found = ["works, but is listed as unsupported: remove it from unsupported.txt"]
        if found:
            self._fail(statement, mode, found)
        else:
            self.report.same += 1

    def _refused(self, statement: Statement, mode: str, got: Outcome) -> None:
        if self._reason(statement):
            self.report.documented += 1
        else:
            self._fail(statement, mode, [f"0A000, which unsupported.txt does not list: {got.message}"])

    def _reason(self, statement: Statement) -> str | None:
        return self.listed.get((self.variant, corpus.normalised(statement.sql)))

    def _fail(self, statement: Statement, mode: str, found: list[str]) -> None:
        place = f"{self.file.path.name}:{statement.line} [{mode}, {self.variant}]"
        self.report.failures.append("\n    ".join([place, statement.sql, *found]))


class _Pair:
    """A connection to the herd and one to the oracle, in the same state."""

    def __init__(self, herd: Server, oracle: Server):
        self.herd, self.oracle = Talk(herd), Talk(oracle)

    def oracle_in_transaction(self) -> bool:
        return self.oracle.pg.transaction_status != 0

    def close(self) -> None:
        self.herd.close()
        self.oracle.close()
