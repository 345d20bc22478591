"""Places in the router where it waits, by a failpoint `…:wait:FLAG`. It does not know which they are."""

import threading
import time
from pathlib import Path


def reached(flag: Path, calling: threading.Thread | None = None, said: list | None = None) -> None:
    """Returns when a router waits there. Whoever makes the call has not come to its end before."""
    deadline = time.monotonic() + 30
    while not flag.exists():
        assert time.monotonic() < deadline and (calling is None or calling.is_alive()), said
        time.sleep(0.02)
