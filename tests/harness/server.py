"""A server a client can connect to, whatever stands behind it."""

import os
import socket
from dataclasses import dataclass

import psycopg


def cut(connection: psycopg.Connection) -> None:
    """Its socket is closed without a word to the server, as when a client's process dies."""
    with socket.socket(fileno=os.dup(connection.fileno())) as twin:
        twin.shutdown(socket.SHUT_RDWR)


@dataclass
class Server:
    """An address that speaks PostgreSQL's protocol; `name` appears in reports."""

    name: str
    port: int
    host: str = "127.0.0.1"
    user: str = "postgres"
    dbname: str = "postgres"
    # What sessions begin with: "-c name=value".
    options: str = ""

    @property
    def conninfo(self) -> str:
        return (
            f"host={self.host} port={self.port} user={self.user} dbname={self.dbname} "
            "connect_timeout=30 sslmode=disable gssencmode=disable"
            + (f" options='{self.options}'" if self.options else "")
        )

    @property
    def url(self) -> str:
        return f"postgresql://{self.user}@{self.host}:{self.port}/{self.dbname}?sslmode=disable"

    def connect(self, **options) -> psycopg.Connection:
        """A psycopg connection, in autocommit unless told otherwise."""
        options.setdefault("autocommit", True)
        return psycopg.connect(self.conninfo, **options)

    def run(self, *statements: str) -> None:
        """Runs statements one by one, on one connection, in autocommit."""
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement)
