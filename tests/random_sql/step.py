"""One statement of a random program, how it is sent, and how it is written to a file and read back.

Parameters are marked in the text by characters that no generated text contains, so that one statement can be sent with
literals or with parameters, and data like `$1` stays data.
"""

import json
import re
from dataclasses import dataclass, replace

from . import values

# Around a parameter's number.
_OPEN, _CLOSE = "\x01", "\x02"
_MARK = re.compile("\x01(\\d+)\x02")
MODES = ("simple", "extended", "binary", "prepared")


def mark(number: int) -> str:
    return f"{_OPEN}{number}{_CLOSE}"


@dataclass(frozen=True)
class Step:
    """`mode`: simple (literals), extended (text), binary (parameters and results), prepared (named; sent again by its name)."""

    sql: str
    mode: str = "simple"
    session: int = 0
    # Texts, or None, by number.
    params: tuple[str | None, ...] = ()
    # Names of their types: what `binary` encodes them as.
    types: tuple[str, ...] = ()
    # Only the herd knows this statement (its settings, create_distributed_table); its answer is not compared.
    herd_only: bool = False
    # Positions of output columns the rows are ordered by; rows that are equal there may come in any order.
    ordered_by: tuple[int, ...] = ()
    # Of equal values any may be shown (DISTINCT, GROUP BY): 1.0 or 1.00.
    any_of_equals: bool = False
    # COPY FROM's data.
    data: str | None = None
    # It may change what is stored.
    writes: bool = False
    # Part of the schema: kept as long as possible when a difference is made small.
    setup: bool = False
    # Runs beside its neighbours of this sort, from several clients of the herd at once; one by one on plain PostgreSQL.
    together: bool = False

    def text(self) -> str:
        """The statement as this mode sends it."""
        if self.mode == "simple":
            return _MARK.sub(lambda m: self._literal(int(m[1])), self.sql)
        return _MARK.sub(lambda m: f"${self._place(int(m[1]))}", self.sql)

    def _used(self) -> list[int]:
        """Shrinking may leave gaps; parameters that are not in the text have no type."""
        return sorted({int(n) for n in _MARK.findall(self.sql)})

    def _place(self, number: int) -> int:
        return self._used().index(number) + 1

    def _literal(self, number: int) -> str:
        text = self.params[number]
        return "NULL" if text is None else values.quoted(text)

    def encoded(self) -> tuple[list[bytes | None], list[int]]:
        """Values and their formats."""
        found, formats = [], []
        for number in self._used():
            text, of = self.params[number], self.types[number]
            encoded, form = (None if text is None else text.encode()), 0
            if self.mode == "binary":
                try:
                    encoded, form = values.binary(text, _type(of)), 1
                except (ValueError, KeyError, OverflowError):
                    pass
            found.append(encoded)
            formats.append(form)
        return found, formats


def _type(name: str) -> values.Type:
    for each in (*values.COMMON, *values.KEYS):
        if each.name == name:
            return each
    raise KeyError(name)


_DEFAULTS = Step("")


def written(steps: list[Step], head: list[str]) -> str:
    """A file of statements: what psql would run, but for parameters, with what else there is to know in comments."""
    lines = [f"-- {line}" for line in head]
    for step in steps:
        more = {
            name: getattr(step, name)
            for name in ("mode", "session", "params", "types", "herd_only", "ordered_by", "any_of_equals", "data", "writes", "setup", "together")
            if getattr(step, name) != getattr(_DEFAULTS, name)
        }
        lines.append(f"--! {json.dumps(more)}")
        lines.append(_MARK.sub(lambda m: f":{{{m[1]}}}", step.sql) + ";")
    return "\n".join(lines) + "\n"


def read(text: str) -> list[Step]:
    """What `written` wrote."""
    found = []
    for block in re.split(r"^--! ", text, flags=re.MULTILINE)[1:]:
        head, sql = block.split("\n", 1)
        more = {k: tuple(v) if isinstance(v, list) else v for k, v in json.loads(head).items()}
        sql = re.sub(r":\{(\d+)\}", lambda m: mark(int(m[1])), sql.strip().removesuffix(";"))
        found.append(replace(Step(sql), **more))
    return found
