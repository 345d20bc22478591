"""Promise 7: nobody gets in who should not. Each attack is made by hand, byte by byte; a right password is the control."""

import base64
import hashlib
import hmac
import os
import random
import socket
import ssl
import statistics
import struct
import subprocess
import time

from protocol import frames

from . import program
from .cluster import Cluster


class Attempt:
    """One connection, one login."""

    def __init__(self, port: int, **parameters):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.buffer = b""
        self.parameters = {"user": "mallory", "database": "postgres"} | parameters

    def start(self) -> tuple[bytes, bytes]:
        self.send(frames.startup(**self.parameters))
        return self.message()

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def message(self) -> tuple[bytes, bytes]:
        """The next message; (b"", b"") where the connection ended."""
        while True:
            if len(self.buffer) >= 5:
                length = struct.unpack("!I", self.buffer[1:5])[0] + 1
                if len(self.buffer) >= length:
                    found, self.buffer = self.buffer[:length], self.buffer[length:]
                    return found[:1], found[5:]
            try:
                more = self.socket.recv(65536)
            except OSError:
                more = b""
            if not more:
                return b"", b""
            self.buffer += more

    def is_in(self) -> bool:
        """Whether the login passed: what follows AuthenticationOk. That alone says that the password was right; whether the role
        may log in is judged behind it, as PostgreSQL does (InitializeSessionUserId in miscinit.c)."""
        while True:
            tag, body = self.message()
            if tag in (b"", b"E"):
                return False
            if tag in (b"Z", b"K", b"S"):
                return True

    def first(self, mechanism: str = "SCRAM-SHA-256", flag: str = "n,,", name: str = "", nonce: str = "") -> dict[str, str]:
        """Sends the first message of SCRAM; what the server says, taken apart."""
        self.flag, self.nonce = flag, nonce or base64.b64encode(os.urandom(18)).decode()
        self.bare = f"n={name},r={self.nonce}"
        data = (flag + self.bare).encode()
        self.send(frames.message("p", frames.text(mechanism) + struct.pack("!i", len(data)) + data))
        tag, body = self.message()
        if tag != b"R":
            return {}
        self.said = body[4:].decode()
        return dict(part.split("=", 1) for part in self.said.split(","))

    def final(self, server: dict[str, str], password: str, nonce: str | None = None, change=lambda proof: proof) -> bytes:
        """The last message of SCRAM, as it would be for this password."""
        bare = f"c={base64.b64encode(self.flag.encode()).decode()},r={nonce or server['r']}"
        message = f"{self.bare},{self.said},{bare}".encode()
        salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(server["s"]), int(server["i"]))
        key = hmac.digest(salted, b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
        proof = change(bytes(a ^ b for a, b in zip(key, signature)))
        return frames.message("p", f"{bare},p={base64.b64encode(proof).decode()}".encode())


def _scram(port: int, user: str, password: str, **options) -> bool:
    attempt = Attempt(port, user=user)
    attempt.start()
    server = attempt.first(**{k: v for k, v in options.items() if k in ("mechanism", "flag", "name")})
    if not server:
        return False
    attempt.send(attempt.final(server, password, **{k: v for k, v in options.items() if k in ("nonce", "change")}))
    return attempt.is_in()


def _replayed(port: int) -> bool:
    recorded = Attempt(port)
    recorded.start()
    server = recorded.first(nonce="replayreplayreplay")
    final = recorded.final(server, "right")
    recorded.send(final)
    assert recorded.is_in(), "the recorded login is a good one"
    again = Attempt(port)
    again.start()
    again.first(nonce="replayreplayreplay")
    again.send(final)
    return again.is_in()


def _without(port: int, *messages: bytes, wait: bool = True, **parameters) -> bool:
    attempt = Attempt(port, **parameters)
    if wait:
        attempt.start()
        attempt.send(b"".join(messages))
    else:
        attempt.send(frames.startup(**attempt.parameters) + b"".join(messages))
    return attempt.is_in()


def _proofs(rng: random.Random):
    yield lambda proof: b""
    yield lambda proof: proof[:-1]
    yield lambda proof: proof[:1]
    yield lambda proof: proof + b"\0"
    yield lambda proof: bytes(32)
    yield lambda proof: bytes([255]) * 32
    for _ in range(8):
        at, bit = rng.randrange(32), 1 << rng.randrange(8)
        yield lambda proof, at=at, bit=bit: proof[:at] + bytes([proof[at] ^ bit]) + proof[at + 1 :]


def _sasl(mechanism: str, data: bytes) -> bytes:
    return frames.message("p", frames.text(mechanism) + struct.pack("!i", len(data)) + data)


def attacks(port: int, rng: random.Random):
    """Name and whether it got in."""
    for password in ("wrong", "", "right ", "RIGHT", "SCRAM-SHA-256$4096:x"):
        yield f"password {password!r}", _scram(port, "mallory", password)
    for i, change in enumerate(_proofs(rng)):
        yield f"proof {i}", _scram(port, "mallory", "right", change=change)
    yield "another nonce", _scram(port, "mallory", "right", nonce="x" * 40)
    yield "replay", _replayed(port)
    for mechanism, flag in [
        ("SCRAM-SHA-256-PLUS", "n,,"), ("SCRAM-SHA-256-PLUS", "p=tls-server-end-point,,"), ("SCRAM-SHA-256", "p=tls-server-end-point,,"),
        ("SCRAM-SHA-1", "n,,"), ("PLAIN", "n,,"), ("", "n,,"), ("SCRAM-SHA-256", "n,a=root,"),
    ]:
        yield f"mechanism {mechanism} {flag}", _scram(port, "mallory", "right", mechanism=mechanism, flag=flag)
    for user in ("nobody_here", "no_password", "may_not", "too_late", "", "' or ''='", "mallory\n", "MALLORY", "x" * 5000):
        yield f"user {user[:20]!r}", bool(user) and _scram(port, user, "right")
    # The name inside SCRAM does not count; the one of the startup does.
    yield "the other's name", _scram(port, "no_password", "right", name="mallory")
    query = frames.query("select 1")
    yield "a query in place of a password", _without(port, query)
    yield "a query without waiting", _without(port, query, wait=False)
    yield "a clear password", _without(port, frames.message("p", b"right\0"))
    yield "an md5 password", _without(port, frames.message("p", b"md5" + hashlib.md5(b"rightmallory").hexdigest().encode() + b"\0"))
    yield "an empty message", _without(port, frames.message("p"))
    yield "the last message first", _without(port, _sasl("SCRAM-SHA-256", b"c=biws,r=x,p=eA=="))
    yield "a huge message", _without(port, b"p" + struct.pack("!I", 0x7FFFFFFF) + b"x" * 1000)
    yield "a negative length", _without(port, b"p\xff\xff\xff\xff" + b"x" * 100)
    yield "user in options", _without(port, query, wait=False, options="-c session_authorization=postgres")
    yield "role in startup", _without(port, query, wait=False, role="postgres")
    for garbage in range(20):
        data = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 200)))
        yield f"garbage {garbage}", _without(port, _sasl("SCRAM-SHA-256", b"n,,n=,r=" + data), frames.message("p", data))


def _tls_attacks(router):
    """Bytes sent in clear before TLS must not count as sent by TLS; and where TLS is required, nothing else will do."""
    for behind in (frames.startup(user="mallory"), frames.query("select 1"), b"\0"):
        attempt = Attempt(router.port)
        attempt.send(frames.int32(8) + frames.int32(frames.SSL_REQUEST) + behind)
        first = attempt.socket.recv(1)
        passed = False
        if first == b"S":
            try:
                context = ssl.create_default_context()
                context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                with context.wrap_socket(attempt.socket) as wrapped:
                    wrapped.sendall(frames.startup(user="mallory"))
                    passed = wrapped.recv(1) == b"R"
            except OSError:
                pass
        yield f"{len(behind)} bytes before TLS", passed
    yield "no TLS where it is required", _scram(router.port, "mallory", "right")


def _by_tls(router) -> bool:
    """The control: the same router lets a good client in, by TLS."""
    attempt = Attempt(router.port)
    attempt.send(frames.int32(8) + frames.int32(frames.SSL_REQUEST))
    assert attempt.socket.recv(1) == b"S"
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    attempt.socket = context.wrap_socket(attempt.socket)
    attempt.start()
    attempt.send(attempt.final(attempt.first(), "right"))
    return attempt.is_in()


def _timing(port: int, rounds: int) -> dict:
    """How long the server's first answer takes, for a user that exists and one that does not; and that it is steady."""
    took: dict[str, list[float]] = {"mallory": [], "nobody_here": []}
    salts: dict[str, set] = {"mallory": set(), "nobody_here": set()}
    for i in range(rounds):
        for user in sorted(took, reverse=i % 2 == 1):
            attempt = Attempt(port, user=user)
            attempt.start()
            started = time.perf_counter()
            server = attempt.first()
            took[user].append(time.perf_counter() - started)
            salts[user].add((server["s"], server["i"]))
            attempt.send(attempt.final(server, "wrong"))
            assert not attempt.is_in()
    assert all(len(found) == 1 for found in salts.values()), "a salt that changes tells who does not exist"
    known, unknown = (statistics.median(took[u]) * 1e6 for u in ("mallory", "nobody_here"))
    assert 0.5 < known / unknown < 2, f"{known:.0f} µs for a known user, {unknown:.0f} µs for an unknown one"
    return {"known_us": round(known), "unknown_us": round(unknown)}


def run(seed: int, rounds: int = 60, cluster: Cluster | None = None) -> dict:
    own = cluster is None
    cluster = cluster or Cluster(nodes=2)
    try:
        home = cluster.nodes[0].server
        home.run(
            "create role mallory login password 'right'", "create role no_password login", "create role may_not nologin password 'right'",
            "create role too_late login password 'right' valid until '2001-01-01'", "create schema evil",
            "create table evil.pg_authid (rolname text, rolpassword text, rolcanlogin bool, rolvaliduntil timestamptz)",
            "insert into evil.pg_authid select 'no_password', rolpassword, true, null from pg_catalog.pg_authid where rolname = 'mallory'",
            "grant all on schema evil to public", "grant select on evil.pg_authid to public",
        )
        router = cluster.router("login", 'auth = "scram"\n').start(wait=False)
        _wait_for(router.port)
        assert _scram(router.port, "mallory", "right"), "the right password"
        assert _scram(router.port, "mallory", "right", name="whoever"), "the right password, another name inside"
        rng = random.Random(seed)
        passed, count = [], 0
        for name, is_in in attacks(router.port, rng):
            count += 1
            passed += [name] if is_in else []
        # Where the schema of a client's choice has tables named like PostgreSQL's own.
        attempt = Attempt(router.port, user="no_password", options="-c search_path=evil", search_path="evil")
        attempt.start()
        server = attempt.first()
        attempt.send(attempt.final(server, "right"))
        count += 1
        passed += ["search_path in startup"] if attempt.is_in() else []
        if tls := _tls_router(cluster):
            assert _by_tls(tls), "the right password, by TLS"
            for name, is_in in _tls_attacks(tls):
                count += 1
                passed += [name] if is_in else []
        assert not passed, f"got in: {passed}"
        times = _timing(router.port, rounds)
        assert _scram(router.port, "mallory", "right"), "the right password, afterwards"
        log = router.log.read_text(errors="replace")
        assert "panicked" not in log, router.tail()
        assert "SCRAM-SHA-256$" not in log and "right" not in log.split(), "a secret in the log"
        return {"attacks": count, "passed": 0, "tls": bool(tls), **times}
    finally:
        if own:
            cluster.stop()


def _tls_router(cluster: Cluster):
    """A router that demands TLS, if openssl is there to make a certificate."""
    certificate, key = cluster.root / "cert.pem", cluster.root / "key.pem"
    try:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost"],
            check=True, capture_output=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    config = f'auth = "scram"\n[tls]\ncertificate = "{certificate}"\nkey = "{key}"\nrequired = true\n'
    router = cluster.router("tls", config).start(wait=False)
    _wait_for(router.port)
    return router


def _wait_for(port: int) -> None:
    for _ in range(900):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("the router does not listen")


if __name__ == "__main__":
    program.main("login", run, program.arguments(__doc__, rounds=300))
