"""A socket that speaks protocol 3 frame by frame, and transcripts of what a server answered, fit for comparison."""

import socket
import struct

from harness.server import Server

from . import frames

_ANSWER_SECONDS_MAX = 30


class Closed(Exception):
    """The server closed the connection."""


class Raw:
    """One connection. `start=False` leaves the startup to the test."""

    def __init__(self, server: Server, start: bool = True, version: int = frames.PROTOCOL_3_0, **parameters: str):
        self.socket = socket.create_connection((server.host, server.port), _ANSWER_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.key = b""
        self.parameters: dict[str, str] = {}
        if start:
            self.send(frames.startup(version, **parameters))
            for kind, body in self.until_ready():
                if kind == "K":
                    self.key = body
                elif kind == "S":
                    name, value = frames.parameter_status(body)
                    self.parameters[name] = value
                elif kind == "E":
                    raise AssertionError(f"login refused: {frames.error_fields(body)}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read_exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self.socket.recv(count - len(data))
            except ConnectionResetError as error:
                raise Closed from error
            if not more:
                raise Closed
            data += more
        return data

    def read(self) -> tuple[str, bytes]:
        """One backend message; a TimeoutError if none comes, Closed at the end."""
        kind, length = struct.unpack(">ci", self.read_exactly(5))
        return kind.decode(), self.read_exactly(length - 4)

    def until(self, kind: str) -> list[tuple[str, bytes]]:
        got = []
        while not got or got[-1][0] != kind:
            got.append(self.read())
        return got

    def until_ready(self) -> list[tuple[str, bytes]]:
        return self.until("Z")

    def is_closed(self) -> bool:
        """Whether the server ends the connection, whatever it says before."""
        try:
            while self.socket.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def transcript(self, data: bytes, ready: int = 1) -> list[str]:
        """Sends frames, reads until `ready` ReadyForQuery messages have come or the connection ends."""
        try:
            self.send(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        got, seen = [], 0
        try:
            while seen < ready:
                kind, body = self.read()
                seen += kind == "Z"
                got.append((kind, body))
        except Closed:
            return transcript(got) + ["closed"]
        return transcript(got)


def transcript(messages: list[tuple[str, bytes]]) -> list[str]:
    """Messages as text. ParameterStatus may come at any moment, so those go, sorted, to the end."""
    said = [_said(kind, body) for kind, body in messages if kind != "S"]
    return said + sorted("S " + "=".join(frames.parameter_status(body)) for kind, body in messages if kind == "S")


def _said(kind: str, body: bytes) -> str:
    if kind in "EN":
        fields = frames.error_fields(body)
        return f"{kind} {fields.get('V')} {fields.get('C')} {fields.get('M')}"
    if kind == "T":
        return "T " + frames.row_description(body)
    if kind == "C":
        return "C " + body.rstrip(b"\0").decode()
    if kind == "Z":
        return "Z " + body.decode()
    return f"{kind} {body!r}" if body else kind
