"""A TCP proxy that knows where messages begin, spoils the n-th one on order, and counts bytes.

It stands between a router and a node, or between a client and a router. It counts only messages of connections whose
startup does not name the router itself, so that a fault meets a client's work and not the router's own.
"""

import select
import socket
import struct
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Fault:
    """What happens to message `at` (from 1) of one direction, counted over all connections since it was armed."""

    action: str  # "close", "rst", "delay", "half", "swallow"
    direction: str  # "to" the server, or "from" it
    at: int
    seconds: float = 0.3
    count: int = 0
    happened: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def hits(self, direction: str) -> bool:
        if direction != self.direction:
            return False
        with self.lock:
            self.count += 1
            if self.happened or self.count < self.at:
                return False
            self.happened = True
            return True


class Proxy:
    """Listens on a port of its own; `fault` is what is armed."""

    def __init__(self, port: int):
        self.target = port
        self.fault: Fault | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.closed = False
        # What has come from the server, over all connections.
        self.bytes_from, self.lock = 0, threading.Lock()
        # How long requests to cancel are kept back.
        self.cancel_delay_seconds = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while not self.closed:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(("127.0.0.1", self.target), timeout=20)
        except OSError:
            client.close()
            return
        server.settimeout(None)
        for each in (client, server):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _Pair(self, client, server).run()

    def stop(self) -> None:
        self.closed = True
        self.listener.close()


class _Pair:
    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket):
        self.proxy, self.client, self.server = proxy, client, server
        self.own = self.started = False
        # An SSLRequest is answered by a byte that is no message.
        self.bytes_before_messages = 0

    def run(self) -> None:
        """One thread for both directions: a socket that another thread reads from can't be reset."""
        buffers = {"to": b"", "from": b""}
        sockets = {self.client: ("to", self.server), self.server: ("from", self.client)}
        try:
            while True:
                for source in select.select(list(sockets), [], [])[0]:
                    direction, sink = sockets[source]
                    data = source.recv(65536)
                    if not data:
                        self._end(False)
                        return
                    if direction == "from":
                        with self.proxy.lock:
                            self.proxy.bytes_from += len(data)
                    rest = self._pass(direction, buffers[direction] + data, sink)
                    if rest is None:
                        return
                    buffers[direction] = rest
        except (OSError, ValueError):
            self._end(False)

    def _pass(self, direction: str, buffer: bytes, sink: socket.socket) -> bytes | None:
        """Passes whole messages on; the rest comes back, or None where the connection is over."""
        while message := self._take(buffer, self.started or direction == "from", direction):
            buffer = buffer[len(message) :]
            if direction == "to" and not self.started:
                code = struct.unpack("!I", message[4:8])[0]
                if code in (80877103, 80877104):
                    self.bytes_before_messages += 1
                else:
                    self.started = True
                    self.own = b"herd router" in message
                    if code == 80877102:
                        time.sleep(self.proxy.cancel_delay_seconds)
                sink.sendall(message)
                continue
            fault = self.proxy.fault
            if fault is not None and not self.own and fault.hits(direction):
                if self._spoil(fault, message, sink):
                    return None
                continue
            sink.sendall(message)
        return buffer

    def _take(self, buffer: bytes, started: bool, direction: str) -> bytes | None:
        if direction == "from" and self.bytes_before_messages and buffer:
            self.bytes_before_messages -= 1
            return buffer[:1]
        head = 1 if started else 0
        if len(buffer) < head + 4:
            return None
        length = struct.unpack("!I", buffer[head : head + 4])[0] + head
        return buffer[:length] if len(buffer) >= length else None

    def _spoil(self, fault: Fault, message: bytes, sink: socket.socket) -> bool:
        """True where the connection is over."""
        if fault.action == "delay":
            time.sleep(fault.seconds)
            sink.sendall(message)
            return False
        if fault.action == "half":
            sink.sendall(message[: max(1, len(message) // 2)])
        self._end(fault.action == "rst")
        return True

    def _end(self, reset: bool) -> None:
        for each in (self.client, self.server):
            try:
                if reset:
                    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            try:
                each.close()
            except OSError:
                pass
