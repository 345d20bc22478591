"""PostgreSQL refuses to run as root: the user its processes run as, and directories that user may enter."""

import os
import pwd
import shutil
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
