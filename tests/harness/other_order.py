"""Copies of a reference table whose rows are the same in another order, as autovacuum may leave them. It does not know what depends on that."""


def in_other_order(server, table: str) -> None:
    """The table's first row comes last on this server. (VACUUM would leave rows where they are that somebody's snapshot still sees.)"""
    with server.connect() as connection:
        connection.execute("set session_replication_role = replica")
        (column,) = connection.execute(
            "select quote_ident(attname) from pg_attribute where attrelid = %s::regclass and attnum > 0"
            " and not attisdropped and attgenerated = '' and attidentity <> 'a' order by attnum limit 1", (table,),
        ).fetchone()
        moved = connection.execute(f"update {table} set {column} = {column} where ctid = (select min(ctid) from {table})")
        assert moved.rowcount == 1, table
