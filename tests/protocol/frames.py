"""Builds frontend messages of protocol 3 and takes backend messages apart. Bytes in, bytes out; no sockets."""

import struct

PROTOCOL_3_0 = 3 << 16
PROTOCOL_3_2 = 3 << 16 | 2
SSL_REQUEST = 80877103
GSSENC_REQUEST = 80877104
CANCEL_REQUEST = 80877102


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def text(value: str | bytes) -> bytes:
    return (value.encode() if isinstance(value, str) else value) + b"\0"


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + int32(len(body) + 4) + body


def startup(version: int = PROTOCOL_3_0, **parameters: str) -> bytes:
    parameters = {"user": "postgres", "database": "postgres"} | {k.replace("__", "."): v for k, v in parameters.items()}
    body = int32(version) + b"".join(text(k) + text(v) for k, v in parameters.items() if v is not None) + b"\0"
    return int32(len(body) + 4) + body


def query(sql: str | bytes) -> bytes:
    return message("Q", text(sql))


def parse(sql: str | bytes, name: str = "", types: tuple[int, ...] = ()) -> bytes:
    return message("P", text(name) + text(sql) + int16(len(types)) + b"".join(map(int32, types)))


def bind(
    *values: str | bytes | None, statement: str = "", portal: str = "", formats: tuple[int, ...] = (), results: tuple[int, ...] = ()
) -> bytes:
    body = text(portal) + text(statement) + int16(len(formats)) + b"".join(map(int16, formats)) + int16(len(values))
    for value in values:
        raw = value.encode() if isinstance(value, str) else value
        body += int32(-1) if raw is None else int32(len(raw)) + raw
    return message("B", body + int16(len(results)) + b"".join(map(int16, results)))


def describe(kind: str = "P", name: str = "") -> bytes:
    return message("D", kind.encode() + text(name))


def execute(portal: str = "", rows_max: int = 0) -> bytes:
    return message("E", text(portal) + int32(rows_max))


def close(kind: str = "S", name: str = "") -> bytes:
    return message("C", kind.encode() + text(name))


def sync() -> bytes:
    return message("S")


def flush() -> bytes:
    return message("H")


def extended(sql: str, *values: str | bytes | None, **bind_options) -> bytes:
    """Parse, Bind, Describe, Execute of an unnamed statement, without the Sync."""
    return parse(sql) + bind(*values, **bind_options) + describe() + execute()


def copy_data(data: bytes) -> bytes:
    return message("d", data)


def copy_done() -> bytes:
    return message("c")


def copy_fail(reason: str) -> bytes:
    return message("f", text(reason))


def terminate() -> bytes:
    return message("X")


def error_fields(body: bytes) -> dict[str, str]:
    """The fields of an ErrorResponse or NoticeResponse by their letters (C = SQLSTATE, M = message …)."""
    return {part[:1].decode(): part[1:].decode(errors="backslashreplace") for part in body.split(b"\0") if part}


def parameter_status(body: bytes) -> tuple[str, str]:
    name, value, _ = body.split(b"\0")
    return name.decode(), value.decode()


def row_description(body: bytes) -> str:
    """A RowDescription as text, without the table's oid and attribute number, which are a server's own."""
    columns, at = [], 2
    for _ in range(struct.unpack_from(">h", body)[0]):
        end = body.index(b"\0", at)
        type_oid, size, typmod, format_code = struct.unpack_from(">ihih", body, end + 7)
        columns.append(f"{body[at:end].decode()} {type_oid}/{size}/{typmod}/{format_code}")
        at = end + 19
    return ", ".join(columns)
