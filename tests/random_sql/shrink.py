"""Makes a difference small: fewer statements, then fewer parts of each, as long as it stays of its kind.

Statements are left out by halves, quarters and so on (Zeller's delta debugging); then, of those that are left, parts of the
text: what stands in parentheses, items between commas, clauses, runs of tokens. What is no SQL any more fails on both
sides alike, so that no grammar is needed. What decides the order of rows is not touched where LIMIT needs it.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from .compare import kind
from .pair import Pair
from .step import Step

_TOKEN = re.compile(r"""\s*(?:(\$q\$.*?\$q\$|\$f\$.*?\$f\$|E?'(?:[^'\\]|''|\\.)*'|E?'(?:[^']|'')*'|"(?:[^"]|"")*"|\x01\d+\x02(?:::\w+(?:\(\d+(?:,\d+)?\))?(?:\[\])?)?|[\w.]+(?:\.\w+)*|::|\|\||<=|>=|<>|->>|->|.))""", re.DOTALL)
_NEEDS_ORDER = re.compile(r"\b(limit|fetch|offset|over|distinct on)\b")


@dataclass
class Small:
    steps: list[Step]
    different: list[str]


def replay(pair: Pair, steps: list[Step]) -> list[str]:
    """How the last step differs, after all others were run."""
    pair.fresh()
    for step in steps[:-1]:
        if any(d.startswith("connection") for d in pair.run(step).different):
            return []
    return pair.check(steps[-1]).different


class _Shrinker:
    """One difference under the knife."""

    def __init__(self, pair: Pair, steps: list[Step], different: list[str], seconds: float):
        self.pair, self.steps = pair, steps
        self.deadline = time.monotonic() + seconds
        self.kind, self.seen = kind(different), different

    def fails(self, candidate: list[Step]) -> bool:
        """Whether all of it, run from the start, shows the difference."""
        if time.monotonic() > self.deadline:
            return False
        try:
            found = replay(self.pair, candidate)
        except ConnectionError:
            return False
        return self._is_it(candidate[-1], found)

    def _is_it(self, last: Step, found: list[str]) -> bool:
        if not found or kind(found) != self.kind:
            return False
        if is_read(last) and self.pair.is_idle() and not self.pair.is_determined(last):
            return False
        self.seen = found
        return True

    def fails_here(self, last: Step) -> bool:
        """Whether the last step shows it in the state both sides are in; what it changes is taken back."""
        if time.monotonic() > self.deadline:
            return False
        if is_read(last):
            return self._is_it(last, self.pair.run(last).different)
        self.pair.run(Step("begin", session=last.session))
        found = self.pair.run(last).different
        if found and found[0].startswith("connection"):
            return False
        self.pair.run(Step("rollback", session=last.session))
        return self._is_it(last, found)

    def go(self) -> Small | None:
        steps = self.steps
        # The cheapest first: where both sides stand now, nothing has to be made again.
        if self.pair.is_idle() and self.fails_here(steps[-1]):
            steps = [*steps[:-1], self._smaller(steps[-1], self.fails_here)]
        narrower = [c for c in (_needed(steps), _without_reads(steps), steps, self.steps) if len(c) <= len(steps)]
        steps = next((c for c in narrower if self.fails(c)), [])
        if not steps:
            return None
        steps = self._fewer_before(steps)
        for at in reversed(range(len(steps))):
            if not steps[at].herd_only:
                steps[at] = self._smaller(steps[at], lambda step, at=at: self.fails([*steps[:at], step, *steps[at + 1 :]]))
        steps = self._fewer_before(steps)
        return Small(steps, self.seen)

    def _fewer_before(self, steps: list[Step]) -> list[Step]:
        return _fewer(steps[:-1], lambda kept: self.fails(kept + steps[-1:])) + steps[-1:]

    def _smaller(self, step: Step, still: Callable[[Step], bool]) -> Step:
        """The step cut down, larger parts first; from the start again whenever one could go."""
        tokens = _TOKEN.findall(step.sql)
        done = False
        while not done and time.monotonic() < self.deadline:
            done, size_max = True, len(tokens)
            while size_max:
                parts = [p for p in _parts(tokens, step.sql) if p[1] - p[0] <= size_max]
                for begin, end in parts:
                    kept = tokens[:begin] + tokens[end:]
                    candidate = replace(step, sql=_joined(kept))
                    if kept and still(candidate):
                        step, tokens, done, size_max = candidate, kept, False, end - begin
                        break
                else:
                    break
        simpler = replace(step, mode="simple")
        return simpler if step.mode != "simple" and still(simpler) else step


def shrink(pair: Pair, steps: list[Step], different: list[str], seconds: float) -> Small | None:
    """None where the difference does not come again."""
    return _Shrinker(pair, list(steps), different, seconds).go()


def is_read(step: Step) -> bool:
    return not step.writes and not step.herd_only and step.sql.startswith(("select", "with", "values", "(", "copy ("))


def _without_reads(steps: list[Step]) -> list[Step]:
    return [s for s in steps[:-1] if not is_read(s)] + steps[-1:]


def _needed(steps: list[Step]) -> list[Step]:
    """What speaks of the tables the last step speaks of, and of those these refer to; and the types."""
    names = {m[1] for s in steps if (m := re.match(r"create (?:table|view|sequence|function) (\S+?|\"(?:[^\"]|\"\")*\")(?=[ (]|$)", s.sql))}
    wanted: set[str] = set()
    text = steps[-1].sql
    while found := {n for n in names - wanted if n in text}:
        wanted |= found
        text = " ".join(s.sql for s in steps if s.sql.startswith("create") and any(n in s.sql for n in found))
    others = names - wanted
    return [s for s in steps[:-1] if not any(n in s.sql for n in others) and not is_read(s)] + steps[-1:]


def _fewer(items: list, still: Callable[[list], bool]) -> list:
    """The items without those that are not needed."""
    size = max(1, len(items) // 2)
    while items:
        at, removed = 0, False
        while at < len(items):
            kept = items[:at] + items[at + size :]
            if still(kept):
                items, removed = kept, True
            else:
                at += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2) if not removed or size > 1 else 1
    return items


def _joined(tokens: list[str]) -> str:
    text = " ".join(tokens)
    return re.sub(r" ?(::) ?", r"\1", re.sub(r" ([,)])", r"\1", re.sub(r"([(]) ", r"\1", text)))


_CLAUSES = {"where", "from", "join", "left", "right", "full", "cross", "group", "having", "order", "limit", "offset", "union", "intersect", "except", "on", "returning", "and", "or", "with", "filter", "not", "is", "coalesce", "case"}


def _parts(tokens: list[str], sql: str) -> list[tuple[int, int]]:
    """Ranges of tokens that may be left out, the longest first. A parenthesis goes with its partner."""
    depth, depths, opened, pairs = 0, [], [], []
    for i, token in enumerate(tokens):
        if token == "(":
            opened.append(i)
            depths.append(depth)
            depth += 1
        elif token == ")":
            depth -= 1
            depths.append(depth)
            if opened:
                pairs.append((opened.pop(), i))
        else:
            depths.append(depth)
    if depth:
        return []
    found: set[tuple[int, int]] = set()
    for begin, end in pairs:
        found |= {(begin, end + 1), (begin + 1, end)}
        if begin and re.match(r"\w", tokens[begin - 1]):
            found.add((begin - 1, end + 1))
    stops = [i for i, t in enumerate(tokens) if t == "," or t.lower() in _CLAUSES] + [len(tokens)]
    for begin in stops:
        for end in stops:
            if begin < end <= begin + 60 and begin < len(tokens) and _is_flat(depths, tokens, begin, end):
                found.add((begin, end))
                if tokens[min(end, len(tokens) - 1)] == ",":
                    found.add((begin + 1, end + 1))
    for size in (1, 2, 3):
        found |= {(i, i + size) for i in range(len(tokens) - size + 1) if _is_flat(depths, tokens, i, i + size)}
    for i, token in enumerate(tokens):
        # The first item of a list, with its comma.
        if token == "(" and (comma := next((j for j in range(i + 1, len(tokens)) if tokens[j] == "," and depths[j] == depths[i] + 1), None)):
            found.add((i + 1, comma + 1))
    if _NEEDS_ORDER.search(sql.lower()):
        found = {(b, e) for b, e in found if not any(t.lower() in ("order", "by") or t.lower() in ("limit", "over", "partition") for t in tokens[b:e])}
        ordered = [i for i, t in enumerate(tokens) if t.lower() == "order"]
        found = {(b, e) for b, e in found if not any(i <= b for i in ordered) or e - b > 30}
    return sorted(found, key=lambda part: part[0] - part[1])


def _is_flat(depths: list[int], tokens: list[str], begin: int, end: int) -> bool:
    """Every parenthesis in the range has its partner there."""
    inside = 0
    for token in tokens[begin:end]:
        inside += (token == "(") - (token == ")")
        if inside < 0:
            return False
    return inside == 0
