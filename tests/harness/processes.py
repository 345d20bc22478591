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
