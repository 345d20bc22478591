"""Processes of this machine: which are a process's own, and a signal to one that may be gone. It does not know what they run."""

import os


def signal(process_id: int, number: int) -> None:
    try:
        os.kill(process_id, number)
    except ProcessLookupError:
        pass


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


def is_alive(process_id: int) -> bool:
    try:
        with open(f"/proc/{process_id}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


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
