"""Random schemas, data and statements: a herd must answer as one plain PostgreSQL does.

Not called `random`: `tests` is on the path of every test and program, and the name would hide Python's own module.
"""
