"""Gets DuckDB's own library, which only the crate `column` needs, as it is published for Node.

    python3 scripts/get_duckdb.py .venv/duckdb

Run again, it does what is left to do. A folder named by DUCKDB_LIB_DIR wins: then nothing is fetched. It knows no other
system than Linux; elsewhere DUCKDB_LIB_DIR has to be set.
"""

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

VERSION = "1.5.6-r.1"
CPUS = {"x86_64": "x64", "aarch64": "arm64"}
LIBRARY = "package/libduckdb.so"


def fail(text: str) -> None:
    sys.exit(f"duckdb: {text}")


def main() -> None:
    if len(sys.argv) != 2:
        fail("usage: get_duckdb.py FOLDER")
    if os.environ.get("DUCKDB_LIB_DIR"):
        return
    folder = Path(sys.argv[1]).absolute()
    stamp = folder / "version"
    if stamp.exists() and stamp.read_text() == VERSION and (folder / "libduckdb.so").exists():
        return
    cpu = CPUS.get(platform.machine())
    if platform.system() != "Linux" or cpu is None:
        fail("there is a library for Linux on x86_64 and aarch64 only: set DUCKDB_LIB_DIR to a folder with libduckdb of DuckDB 1.5")
    npm = shutil.which("npm")
    if npm is None:
        fail("npm is needed to get the library (no Node program runs later); or set DUCKDB_LIB_DIR to a folder that has it")
    with tempfile.TemporaryDirectory() as scratch:
        package = f"@duckdb/node-bindings-linux-{cpu}@{VERSION}"
        # npm compares what it gets with the checksum that its registry tells.
        packed = subprocess.run([npm, "pack", "--silent", package], cwd=scratch, capture_output=True, text=True)
        found = list(Path(scratch).glob("*.tgz"))
        if packed.returncode != 0 or not found:
            fail(f"npm pack {package} failed:\n{packed.stdout}{packed.stderr}")
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(found[0]) as archive, tempfile.NamedTemporaryFile(dir=folder, delete=False) as out:
            shutil.copyfileobj(archive.extractfile(LIBRARY), out)
        os.chmod(out.name, 0o755)
        os.replace(out.name, folder / "libduckdb.so")
    stamp.write_text(VERSION)
    print(f"duckdb: {VERSION} is in {os.path.relpath(folder)}", flush=True)


if __name__ == "__main__":
    main()
