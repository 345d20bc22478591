"""`herd` on a terminal, where it shows bars. What they are of is not known here."""

import os
import pty
import subprocess

from harness import binaries


def on_a_terminal(*arguments) -> tuple[int, str]:
    """The command's exit code and what a terminal was shown."""
    ours, theirs = pty.openpty()
    os.set_blocking(ours, True)
    environment = os.environ | {"HERD_PG_BIN": str(binaries.postgres_bin()), "TERM": "xterm", "COLUMNS": "150"}
    command = [str(binaries.herd()), *map(str, arguments)]
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:
            break
        if not more:
            break
        shown += more
    os.close(ours)
    return process.wait(150), shown.decode(errors="replace")
