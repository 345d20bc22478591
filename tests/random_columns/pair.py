"""A herd with column copies and a plain PostgreSQL: waits for copies, and counts what columns have answered."""

import re
import time
from collections import Counter
from dataclasses import replace
import urllib.request

from harness.herd import Herd
from harness.server import Server
from random_sql.pair import Done, Pair
from random_sql.step import Step

_READY_SECONDS_MAX = 60
_READS = re.compile(r'herd_column_reads_total\{by="(\w+)"\} (\d+)')
_NOT_READY = "select relation, node, state, why from herd.column_copies where state <> 'ready'"


class ColumnPair(Pair):
    """As any pair. A step that adds a copy or takes its table away from it is followed when all copies are there."""

    def __init__(self, herd: Herd, plain: Server):
        super().__init__(herd.server, herd.node_servers, plain)
        # Why rows answer, by EXPLAIN's words, if somebody wants to know: it is one question more a query.
        self.why: Counter | None = None
        self._metrics = f"http://{herd.status()['router']['metrics']}/metrics"

    def run(self, step: Step) -> Done:
        if self.why is not None and step.sql.startswith(("select", "with", "(")) and not step.herd_only and self._sessions:
            self._explain(step)
        done = super().run(step)
        if not done.sqlstate and ("herd.add_column_copy" in step.sql or step.sql.startswith(("truncate", "alter table"))):
            self._ready()
        return done

    def _explain(self, step: Step) -> None:
        said = self._session(step.session)[0].send(Step(f"explain {replace(step, mode='simple').text()}"))
        lines = [row[0].decode() for answer in said.answers for row in answer.rows]
        columns = [line.strip() for line in lines if line.strip().startswith("Columns")]
        no = [line for line in columns if " FROM copy_" not in line and " FROM (copy_" not in line]
        self.why.update({re.sub(r"[\"'].*[\"']|\d+", "…", (no or columns or ["no Columns"])[0]) if no or not columns else "columns"})

    def _ready(self) -> None:
        deadline = time.monotonic() + _READY_SECONDS_MAX
        with self.herd.connect() as connection:
            while waits := connection.execute(_NOT_READY).fetchall():
                if time.monotonic() > deadline:
                    raise ConnectionError(f"copies are not ready: {waits}")
                time.sleep(0.1)

    def reads(self) -> tuple[int, int]:
        """How many statements columns have answered so far, and how many went to rows although stores were asked."""
        with urllib.request.urlopen(self._metrics, timeout=10) as page:
            found = dict(_READS.findall(page.read().decode()))
        return int(found["columns"]), int(found["rows"])
