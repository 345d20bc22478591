"""`herd export`, run as a user would, and its files, read by DuckDB or as PostgreSQL's COPY has them."""

import os
import subprocess
from pathlib import Path

import duckdb

from harness import binaries


def command(*arguments) -> list[str]:
    return [str(binaries.herd()), "export", *map(str, arguments)]


def environment() -> dict:
    return os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin())}


def run(server, what: str, form: str, folder: Path, *more, user: str = "postgres") -> subprocess.CompletedProcess:
    """Whatever comes of it."""
    url = f"postgresql://{user}@127.0.0.1:{server.port}/postgres"
    arguments = command(what, "--url", url, "--format", form, "--dir", folder, *more)
    return subprocess.run(arguments, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=280)


def export(server, what: str, form: str, folder: Path, *more, user: str = "postgres") -> list[str]:
    """The names of the files."""
    done = run(server, what, form, folder, *more, user=user)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(path.name for path in folder.iterdir())


def parquet(folder: Path, select: str = "*", rest: str = "") -> list[tuple]:
    """Rows of all files together, as people read them."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(f"SELECT {select} FROM read_parquet('{folder}/*.parquet') {rest}").fetchall()


def types(folder: Path) -> dict[str, str]:
    """Of the columns of Parquet, as DuckDB has them."""
    with duckdb.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(f"DESCRIBE SELECT * FROM read_parquet('{folder}/*.parquet')").fetchall()}


def records(data: bytes) -> list[bytes]:
    """The lines of CSV, those in quotes within them; the first is the header."""
    found, begun, quoted = [], 0, False
    for at, byte in enumerate(data):
        if byte == ord('"'):
            quoted = not quoted
        elif byte == ord("\n") and not quoted:
            found.append(data[begun : at + 1])
            begun = at + 1
    assert begun == len(data), data[begun:]
    return found


def csv(folder: Path) -> tuple[bytes, list[bytes]]:
    """The header, which is that of each file, and the rows of all, sorted."""
    files = [records(path.read_bytes()) for path in sorted(folder.glob("*.csv"))]
    headers = {lines[0] for lines in files}
    assert len(headers) == 1, headers
    return headers.pop(), sorted(row for lines in files for row in lines[1:])


def copied(server, query: str) -> tuple[bytes, list[bytes]]:
    """The same of what PostgreSQL's own COPY says of a query."""
    with server.connect() as connection:
        connection.execute("SET timezone = 'UTC'")
        with connection.cursor().copy(f"COPY ({query}) TO STDOUT (FORMAT csv, HEADER)") as copy:
            header, *rows = records(b"".join(bytes(piece) for piece in copy))
    return header, sorted(rows)
