"""Alembic's autogenerate on both servers: of tables that are as their models say it finds nothing to change, and of others what it finds
on PostgreSQL. Skipped where Alembic is not installed."""

import pytest
import sqlalchemy as sa

pytest.importorskip("alembic", reason="Alembic is not installed: its autogenerate is not tested here")

from alembic.autogenerate import compare_metadata  # noqa: E402
from alembic.migration import MigrationContext  # noqa: E402
from alembic.operations import Operations  # noqa: E402


def _models() -> sa.MetaData:
    models = sa.MetaData(schema="shop")
    sa.Table("country", models, sa.Column("code", sa.String(2), primary_key=True), sa.Column("name", sa.Text, nullable=False, unique=True))
    sa.Table(
        "customer", models, sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False), sa.Column("country", sa.ForeignKey("shop.country.code")),
        sa.Column("name", sa.String(40), nullable=False, server_default="nobody", comment="as on the bill"), sa.Index("customer_name", "name"), comment="who buys",
    )
    sa.Table(
        "orders", models, sa.Column("customer", sa.BigInteger, sa.ForeignKey("shop.customer.id", ondelete="CASCADE"), primary_key=True), sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.func.now()), sa.Column("amount", sa.Numeric(10, 2)), sa.CheckConstraint("amount >= 0", name="orders_amount"),
    )
    sa.Table(
        "item", models, sa.Column("customer", sa.BigInteger, primary_key=True), sa.Column("number", sa.Integer, primary_key=True), sa.Column("line", sa.Integer, primary_key=True), sa.Column("what", sa.JSON),
        sa.ForeignKeyConstraint(["customer", "number"], ["shop.orders.customer", "shop.orders.number"]), sa.UniqueConstraint("customer", "line", "number", name="item_line"),
    )
    return models


@pytest.fixture(scope="module")
def engines(oracle, herd):
    made = {name: sa.create_engine(f"postgresql+psycopg://{s.user}@{s.host}:{s.port}/{s.dbname}?sslmode=disable") for name, s in (("plain", oracle), ("herd", herd))}
    for engine in made.values():
        with engine.begin() as c:
            c.execute(sa.text("drop schema if exists shop cascade"))
            c.execute(sa.text("create schema shop"))
        _models().create_all(engine)
    with made["herd"].begin() as c:
        for table, key in (("item", "item_customer_number_fkey"), ("orders", "orders_customer_fkey")):
            c.execute(sa.text(f"alter table shop.{table} drop constraint {key}"))
        c.execute(sa.text("select create_reference_table('shop.country')"))
        for table, key in (("customer", "id"), ("orders", "customer"), ("item", "customer")):
            c.execute(sa.text(f"select create_distributed_table('shop.{table}', '{key}')"))
        c.execute(sa.text("alter table shop.orders add foreign key (customer) references shop.customer on delete cascade"))
        c.execute(sa.text("alter table shop.item add foreign key (customer, number) references shop.orders"))
    yield made
    for engine in made.values():
        with engine.begin() as c:
            c.execute(sa.text("drop schema shop cascade"))
        engine.dispose()


def _differences(engine, models) -> list[str]:
    options = {"include_schemas": True, "include_name": lambda name, kind, _: kind != "schema" or name == "shop", "compare_type": True, "compare_server_default": True}
    with engine.connect() as c:
        return [str(d) for d in compare_metadata(MigrationContext.configure(c, opts=options), models)]


def test_nothing_to_change(engines):
    assert _differences(engines["plain"], _models()) == []
    assert _differences(engines["herd"], _models()) == []


def test_the_inspector_says_the_same(engines):
    said = {}
    for name, engine in engines.items():
        inspector = sa.inspect(engine)
        said[name] = {
            table: (
                inspector.get_pk_constraint(table, "shop"), sorted(inspector.get_foreign_keys(table, "shop"), key=str), sorted(inspector.get_unique_constraints(table, "shop"), key=str),
                sorted(inspector.get_check_constraints(table, "shop"), key=str), sorted(inspector.get_indexes(table, "shop"), key=str), inspector.get_table_comment(table, "shop"),
            )
            for table in sorted(inspector.get_table_names("shop"))
        }
    assert said["herd"] == said["plain"] and len(said["plain"]["item"][1]) == 1


def test_a_change_is_found_made_and_gone(engines):
    models = _models()
    models.tables["shop.customer"].append_column(sa.Column("since", sa.Date))
    sa.Index("orders_at", models.tables["shop.orders"].c.at)
    found = {name: _differences(engine, models) for name, engine in engines.items()}
    assert found["herd"] == found["plain"] and len(found["plain"]) == 2
    for engine in engines.values():
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
            op = Operations(MigrationContext.configure(c))
            op.add_column("customer", sa.Column("since", sa.Date), schema="shop")
            op.create_index("orders_at", "orders", ["at"], schema="shop", postgresql_concurrently=True)
        assert _differences(engine, models) == []
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as c:
            op = Operations(MigrationContext.configure(c))
            op.drop_index("orders_at", "orders", schema="shop", postgresql_concurrently=True)
            op.drop_column("customer", "since", schema="shop")
        assert _differences(engine, _models()) == []
