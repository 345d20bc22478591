"""Free TCP ports in a row. A port can be taken between the check and its use, so callers retry with a new base."""

import random
import socket

# Below Linux's ephemeral range (32768 up), so that no outgoing connection takes one of ours.
_LOWEST, _HIGHEST = 15000, 32000
_random = random.SystemRandom()


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As a server binds: a port in TIME_WAIT is free, one that is listened on is not.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_row(count: int) -> int:
    """The first of `count` consecutive ports that nothing listens on."""
    for _ in range(200):
        base = _random.randrange(_LOWEST, _HIGHEST)
        if all(_is_free(base + i) for i in range(count)):
            return base
    raise RuntimeError(f"no {count} consecutive free ports between {_LOWEST} and {_HIGHEST}")
