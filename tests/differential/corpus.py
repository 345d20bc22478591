"""Reads the corpus: SQL files with a little syntax around the statements. See sql/README.md for that syntax.

Knows nothing of servers; a file becomes data here.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

DIRECTORY = Path(__file__).parent / "sql"
UNSUPPORTED = Path(__file__).parent / "unsupported.txt"

SECTIONS = ("setup", "reset", "tests", "teardown")
FLAGS = ("ordered", "simple only", "rows vary", "message varies", "notices vary", "plain refuses", "herd only")


class Malformed(Exception):
    """A corpus file that does not follow the syntax; the message has file and line."""


@dataclass
class Statement:
    """One statement, what was said about it, and the COPY data that follows it."""

    sql: str
    line: int
    flags: frozenset[str] = frozenset()
    params: tuple[str | None, ...] | None = None
    copy_data: str | None = None

    def with_literals(self) -> str:
        """The statement for the simple protocol: parameters as literals of unknown type, which is what they are."""
        if self.params is None:
            return self.sql
        return re.sub(r"\$(\d+)", lambda m: _literal(self.params[int(m.group(1)) - 1]), self.sql)


@dataclass
class CorpusFile:
    path: Path
    sections: dict[str, list[Statement]] = field(default_factory=lambda: {name: [] for name in SECTIONS})
    # In which ways its statements are run; none: in all.
    modes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.stem


def normalised(sql: str) -> str:
    """A statement's text as the list of unsupported ones spells it: one line, single spaces, no last semicolon."""
    return re.sub(r"\s+", " ", sql).strip().rstrip(";").strip()


def unsupported() -> dict[tuple[str, str], str]:
    """(variant, normalised statement) → reason, from unsupported.txt."""
    found: dict[tuple[str, str], str] = {}
    reason = ""
    for number, line in enumerate(UNSUPPORTED.read_text().splitlines(), 1):
        line = line.strip()
        if line.startswith("#"):
            reason = line.lstrip("# ")
        elif line:
            variant, separator, sql = line.partition("|")
            variants = {"both": ("1x1", "2x32"), "1x1": ("1x1",), "2x32": ("2x32",)}.get(variant.strip())
            if not separator or variants is None:
                raise Malformed(f"{UNSUPPORTED}:{number}: expected `both|1x1|2x32 | statement`")
            for each in variants:
                found[each, normalised(sql)] = reason
    return found


def files() -> list[CorpusFile]:
    return [read(path) for path in sorted(DIRECTORY.glob("*.sql"))]


def read(path: Path) -> CorpusFile:
    return _Reader(path).read()


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def _params(text: str) -> tuple[str | None, ...]:
    """`1, NULL, 'a, b'` as a tuple of text values; quotes are needed only around commas."""
    found = re.findall(r"\s*(?:'((?:[^']|'')*)'|([^,]*))\s*(?:,|$)", text.strip())
    # The expression also matches the empty string at the end.
    values = [quoted.replace("''", "'") if quoted else bare.strip() for quoted, bare in found[:-1] or found]
    return tuple(None if value == "NULL" else value for value in values)


class _Reader:
    def __init__(self, path: Path):
        self.file = CorpusFile(path)
        self.lines = path.read_text().splitlines()
        self.at = 0
        self.section = "setup"
        self._forget()

    def _forget(self) -> None:
        self.flags: set[str] = set()
        self.params: tuple[str | None, ...] | None = None

    def read(self) -> CorpusFile:
        while self.at < len(self.lines):
            line = self.lines[self.at].strip()
            if line.startswith("--!"):
                self._directive(line[3:].strip())
                self.at += 1
            elif line.startswith("--"):
                self._remark(line[2:].strip())
                self.at += 1
            elif not line:
                self.at += 1
            else:
                self._statement()
        return self.file

    def _fail(self, what: str):
        raise Malformed(f"{self.file.path}:{self.at + 1}: {what}")

    def _directive(self, text: str) -> None:
        word, _, rest = text.partition(" ")
        if text in SECTIONS:
            self.section = text
        elif word == "distribute":
            table, _, rest = rest.partition(" ")
            column, _, options = rest.partition(" ")
            self._herd_only(f"select create_distributed_table('{table}', '{column}'{', ' + options if options else ''})")
        elif word == "include":
            included = read(DIRECTORY / "include" / f"{rest}.sql")
            for section, statements in included.sections.items():
                self.file.sections[section] += statements
        elif word == "modes":
            self.file.modes = tuple(rest.split())
        elif word == "reference":
            self._herd_only(f"select create_reference_table('{rest}')")
        else:
            self._fail(f"unknown directive {text!r}")

    def _herd_only(self, sql: str) -> None:
        self.file.sections[self.section].append(Statement(sql, self.at + 1, frozenset({"herd only"})))

    def _remark(self, text: str) -> None:
        if text in FLAGS:
            self.flags.add(text)
        elif text.startswith("params:"):
            self.params = _params(text.removeprefix("params:"))

    def _statement(self) -> None:
        first, taken = self.at, []
        while True:
            if self.at >= len(self.lines):
                self.at = first
                self._fail("a statement without a semicolon at the end of a line")
            taken.append(self.lines[self.at])
            self.at += 1
            text = "\n".join(taken)
            if text.rstrip().endswith(";") and len(re.findall(r"\$[a-z]*\$", text)) % 2 == 0:
                break
        copy_data = None
        if re.match(r"copy\b.*\bfrom stdin\b", text, re.IGNORECASE | re.DOTALL):
            copy_data = self._copy_data()
        made = Statement(text.strip(), first + 1, frozenset(self.flags), self.params, copy_data)
        self.file.sections[self.section].append(made)
        self._forget()

    def _copy_data(self) -> str:
        taken = []
        while self.at < len(self.lines) and self.lines[self.at] != "\\.":
            taken.append(self.lines[self.at])
            self.at += 1
        if self.at >= len(self.lines):
            self._fail("COPY data without a closing \\.")
        self.at += 1
        return "".join(line + "\n" for line in taken)
