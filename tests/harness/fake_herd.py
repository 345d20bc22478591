"""A plain PostgreSQL that plays the herd: every test must pass against it, which shows the test itself is right.

Turned on by PGHERD_TEST_FAKE=1. The admin functions exist and do nothing.
"""

from .plain_postgres import PlainPostgres
from .server import Server

_STUBS = """
create function create_distributed_table(table_name regclass, distribution_column text, shard_count int default null,
    colocate_with text default null, strategy text default null) returns void language sql as '';
create function create_reference_table(table_name regclass) returns void language sql as '';
create function undistribute_table(table_name regclass) returns void language sql as '';
"""


class FakeHerd:
    """Has what the tests use of `Herd`, apart from processes to kill."""

    def __init__(self, name: str):
        self.name = name
        self._postgres = PlainPostgres("fake")
        with self._postgres.server.connect() as connection:
            connection.execute(_STUBS)

    @property
    def server(self) -> Server:
        return Server(f"fake herd {self.name}", self._postgres.port)

    def logs(self) -> str:
        return self._postgres.log()[-4000:]

    def stop(self) -> None:
        self._postgres.stop()
