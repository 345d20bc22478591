"""The same tables on one server and on a herd. What is asked of them is not known here."""

import contextlib


@contextlib.contextmanager
def both_made(oracle, herd, make, place, fill, schema: str):
    """A connection to each, on which `make` and `fill` were run, and `place` on the herd between; `schema` is dropped at the end."""
    with oracle.connect() as plain, herd.connect() as many:
        for connection in (plain, many):
            for sql in make:
                connection.execute(sql)
        for sql in place:
            many.execute(sql)
        for connection in (plain, many):
            for sql in fill:
                connection.execute(sql)
        yield plain, many
        for connection in (plain, many):
            connection.execute(f"drop schema {schema} cascade")
