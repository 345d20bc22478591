"""Thousands of clients of one process: sessions with nothing of a driver's own, and what the process's memory is.

Knows enough of the protocol to log in (trust, SCRAM-SHA-256, TLS) and to wait for ReadyForQuery; not what is asked.
"""

import base64
import functools
import hashlib
import hmac
import resource
import socket
import ssl
import struct

_SSL_REQUEST = struct.pack("!II", 8, 80877103)


class Client:
    """One session, of user and database postgres."""

    def __init__(self, port: int, number: int, password: str | None = None, tls: bool = False):
        # Several addresses: one has not ports enough for tens of thousands that come and go.
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(f"127.0.0.{2 + number % 50}", 0))
        if tls:
            self.socket.sendall(_SSL_REQUEST)
            if self.socket.recv(1) != b"S":
                raise ConnectionError("TLS is refused")
            self.socket = _context().wrap_socket(self.socket)
        startup = b"user\0postgres\0database\0postgres\0application_name\0idle\0\0"
        self.socket.sendall(struct.pack("!II", len(startup) + 8, 196608) + startup)
        self._password, self._first = password, ""
        self.until_ready()

    def run(self, sql: str) -> None:
        self._send(b"Q", sql.encode() + b"\0")
        self.until_ready()

    def prepare(self, name: str, sql: str) -> None:
        """Parse and Sync."""
        self.socket.sendall(_message(b"P", name.encode() + b"\0" + sql.encode() + b"\0\0\0") + _message(b"S", b""))
        self.until_ready()

    def until_ready(self) -> None:
        data = b""
        while True:
            while len(data) >= 5 and len(data) > (length := struct.unpack("!I", data[1:5])[0]):
                tag, body, data = data[:1], data[5 : length + 1], data[length + 1 :]
                if tag == b"Z":
                    return
                if tag == b"E":
                    raise RuntimeError(f"an error in place of an answer: {body!r}")
                if tag == b"R":
                    self._authenticate(struct.unpack("!I", body[:4])[0], body[4:])
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed")
            data += more

    def _send(self, tag: bytes, body: bytes) -> None:
        self.socket.sendall(_message(tag, body))

    def _authenticate(self, kind: int, body: bytes) -> None:
        """RFC 5802, without channel binding."""
        if kind == 10:
            self._first = "n=,r=idleclient"
            first = b"n,," + self._first.encode()
            self._send(b"p", b"SCRAM-SHA-256\0" + struct.pack("!I", len(first)) + first)
        elif kind == 11:
            said = body.decode()
            nonce, salt, rounds = (part[2:] for part in said.split(",")[:3])
            salted = _salted(self._password, salt, int(rounds))
            client_key = hmac.digest(salted, b"Client Key", "sha256")
            final = f"c=biws,r={nonce}"
            signed = hmac.digest(hashlib.sha256(client_key).digest(), f"{self._first},{said},{final}".encode(), "sha256")
            proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signed))).decode()
            self._send(b"p", f"{final},p={proof}".encode())


def _message(tag: bytes, body: bytes) -> bytes:
    return tag + struct.pack("!I", len(body) + 4) + body


@functools.cache
def _salted(password: str, salt: str, rounds: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(salt), rounds)


@functools.cache
def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def allow_many_files() -> None:
    """Thousands of sockets, here and in the processes started from here."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def resident_bytes(process_id: int) -> int:
    with open(f"/proc/{process_id}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) * 1024
