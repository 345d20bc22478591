"""Processes of this machine: which are a process's own, and a signal to one that may be gone. It does not know what they run."""

import os
import signal as signals
import time


def signal(process_id: int, number: int) -> None:
    try:
        os.kill(process_id, number)
    except ProcessLookupError:
        pass


def peak_kib(process_id: int) -> int:
    """The most that a process has had resident."""
    with open(f"/proc/{process_id}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def children(parent: int) -> list[int]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as stat:
                    if int(stat.read().rsplit(")", 1)[1].split()[1]) == parent:
                        found.append(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found


def stopped_family(parent: int) -> list[int]:
    """It and its children, it first; it stands still. One that is asked to stop may be about to fork: its children are all there once it has."""
    signal(parent, signals.SIGSTOP)
    while _state(parent) not in ("T", "Z", None):
        time.sleep(0.001)
    return [parent, *children(parent)]


def freeze_family(parent: int) -> list[int]:
    """SIGSTOP to a server and to every process of it, as when it hangs: those that were stopped."""
    family = stopped_family(parent)
    for process_id in family:
        signal(process_id, signals.SIGSTOP)
    return family


def kill_family(parent: int) -> None:
    """SIGKILL to a server and to every process of it, as when the machine stops. When this returns they are all gone: one of PostgreSQL's that was
    left would write to the same files as the server that is started next."""
    family = stopped_family(parent)
    for process_id in reversed(family):
        signal(process_id, signals.SIGKILL)
    deadline = time.monotonic() + 60
    while left := [process_id for process_id in family if is_alive(process_id)]:
        assert time.monotonic() < deadline, f"{left} survive SIGKILL"
        time.sleep(0.005)


def _state(process_id: int) -> str | None:
    try:
        with open(f"/proc/{process_id}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(process_id: int) -> bool:
    return _state(process_id) not in ("Z", None)


def with_argument(text: str) -> list[int]:
    """Those that were started with an argument of which this is a part."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/cmdline", "rb") as words:
                    if any(text.encode() in word for word in words.read().split(b"\0")):
                        found.append(int(entry))
            except (FileNotFoundError, ProcessLookupError):
                continue
    return found
