"""PostgreSQL refuses to run as root: the user its processes run as, and directories that user may enter."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path


def user() -> pwd.struct_passwd | None:
    """Whom to run PostgreSQL as; None when we are not root and need nobody else."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise RuntimeError("running as root, and there is neither a user `postgres` nor `nobody`")


def popen_arguments() -> dict:
    """Arguments for subprocess that drop root's rights, or none."""
    who = user()
    if who is None:
        return {}
    return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}


def new_directory(prefix: str) -> Path:
    """A temporary directory that belongs to the user the servers run as and that root's tests can read."""
    path = Path(tempfile.mkdtemp(prefix=f"pgherd-test-{prefix}-"))
    path.chmod(0o755)
    who = user()
    if who is not None:
        os.chown(path, who.pw_uid, who.pw_gid)
    return path


def remove_directory(path: Path) -> None:
    shutil.rmtree(path, ignore_errors=True)


def python() -> str | None:
    """A Python of this version that this user may run; the one we are may lie in root's home."""
    for program in (sys.executable, "/usr/local/bin/python3", "/usr/bin/python3"):
        try:
            told = subprocess.run([program, "-c", "import sys; print(sys.version_info[:2])"], capture_output=True, text=True, cwd="/", **popen_arguments())
        except OSError:
            continue
        if told.stdout.strip() == str(sys.version_info[:2]):
            return program
    return None
