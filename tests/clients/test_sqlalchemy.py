"""SQLAlchemy with psycopg: create_all, the ORM, Core, and reflection through the inspector."""

import pytest
from sqlalchemy import ForeignKey, Index, MetaData, String, create_engine, func, inspect, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship


class Base(DeclarativeBase):
    pass


class Account(Base):
    __tablename__ = "sa_account"
    __table_args__ = (Index("sa_account_name", "name"),)
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(String(30))
    balance: Mapped[int] = mapped_column(default=0)
    orders: Mapped[list["Order"]] = relationship(back_populates="account", cascade="all, delete-orphan")


class Order(Base):
    __tablename__ = "sa_order"
    account_id: Mapped[int] = mapped_column(ForeignKey("sa_account.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    item: Mapped[str | None]
    account: Mapped[Account] = relationship(back_populates="orders")


class Log(Base):
    __tablename__ = "sa_log"
    id: Mapped[int] = mapped_column(primary_key=True)
    line: Mapped[str]


@pytest.fixture
def engine(herd):
    made = create_engine(f"postgresql+psycopg://{herd.user}@{herd.host}:{herd.port}/{herd.dbname}?sslmode=disable")
    Base.metadata.drop_all(made)
    Base.metadata.create_all(made)
    with made.begin() as connection:
        # A table that others reference is distributed without the constraint, which then comes back.
        connection.execute(text("alter table sa_order drop constraint sa_order_account_id_fkey"))
        connection.execute(text("select create_distributed_table('sa_account', 'id')"))
        connection.execute(text("select create_distributed_table('sa_order', 'account_id', colocate_with => 'sa_account')"))
        connection.execute(text("alter table sa_order add foreign key (account_id) references sa_account (id)"))
        connection.execute(text("select create_distributed_table('sa_log', 'id')"))
    yield made
    Base.metadata.drop_all(made)
    made.dispose()


@pytest.fixture
def session(engine):
    with Session(engine) as made:
        made.add_all(
            Account(id=i, name=f"name {i}", balance=i * 10, orders=[Order(number=n, item=f"item {n}") for n in range(1, i % 3 + 1)])
            for i in range(1, 21)
        )
        made.commit()
        yield made


def test_orm_select_insert_update_delete(session):
    account = session.get(Account, 5)
    assert account.name == "name 5" and [o.number for o in account.orders] == [1, 2]
    account.balance += 1
    account.orders.append(Order(number=9))
    session.commit()
    assert session.scalar(select(Account.balance).where(Account.id == 5)) == 51
    assert session.scalar(select(func.count()).select_from(Order).where(Order.account_id == 5)) == 3
    session.delete(session.get(Account, 4))
    session.commit()
    assert session.scalar(select(func.count()).select_from(Account)) == 19


def test_queries(session):
    joined = select(Account.name, func.count(Order.number)).join(Order).group_by(Account.name).order_by(Account.name)
    assert session.execute(joined).first() == ("name 1", 1)
    assert len(session.execute(joined).all()) == 14
    page = session.scalars(select(Account).order_by(Account.balance.desc()).limit(3).offset(1)).all()
    assert [a.id for a in page] == [19, 18, 17]
    assert session.scalars(select(Account.id).where(Account.id.in_([1, 2, 99])).order_by(Account.id)).all() == [1, 2]
    rich = select(Account.id).where(Account.balance > select(func.avg(Account.balance)).scalar_subquery())
    balances = dict(session.execute(select(Account.id, Account.balance)).all())
    average = sum(balances.values()) / len(balances)
    assert sorted(session.scalars(rich).all()) == sorted(i for i, b in balances.items() if b > average)


def test_serial_key_comes_back(session):
    session.add_all(Log(line=f"line {i}") for i in range(30))
    session.commit()
    ids = session.scalars(select(Log.id)).all()
    assert len(set(ids)) == 30
    made = Log(line="one more")
    session.add(made)
    session.flush()
    assert made.id not in ids
    session.rollback()
    assert session.scalar(select(func.count()).select_from(Log)) == 30


def test_rollback_nested_and_errors(session):
    with pytest.raises(IntegrityError):
        session.add(Account(id=1, name="again"))
        session.flush()
    session.rollback()
    session.get(Account, 2).balance = 7
    with pytest.raises(IntegrityError), session.begin_nested():
        session.execute(text("insert into sa_account values (3, 'again', 0)"))
    session.commit()
    assert session.get(Account, 2).balance == 7


def test_reflection(engine, session):
    found = inspect(engine)
    names = found.get_table_names()
    assert {"sa_account", "sa_order", "sa_log"} <= set(names) and len(names) == len(set(names))
    assert not [name for name in names if name.startswith("sa_account_")]
    assert [(c["name"], c["nullable"]) for c in found.get_columns("sa_account")] == [("id", False), ("name", False), ("balance", False)]
    assert found.get_pk_constraint("sa_order")["constrained_columns"] == ["account_id", "number"]
    assert [i["name"] for i in found.get_indexes("sa_account")] == ["sa_account_name"]
    keys = found.get_foreign_keys("sa_order")
    # PostgreSQL keeps a constraint for each partition of a partitioned table that is referenced; SQLAlchemy shows them all.
    assert (["account_id"], "sa_account") in [(k["constrained_columns"], k["referred_table"]) for k in keys]
    assert all(k["constrained_columns"] == ["account_id"] and k["referred_table"].startswith("sa_account") for k in keys)
    metadata = MetaData()
    metadata.reflect(engine, only=["sa_account"])
    account = metadata.tables["sa_account"]
    with engine.connect() as connection:
        assert connection.execute(select(account).where(account.c.id == 3)).one() == (3, "name 3", 30)


def test_bulk_insert_and_returning(engine):
    with engine.begin() as connection:
        connection.execute(Account.__table__.insert(), [{"id": i, "name": "bulk"} for i in range(100, 1100)])
        made = connection.execute(
            Account.__table__.insert().returning(Account.id), [{"id": i, "name": "back"} for i in range(2000, 2100)]
        )
        assert sorted(made.scalars()) == list(range(2000, 2100))
        changed = connection.execute(Account.__table__.update().where(Account.name == "bulk").values(balance=1))
        assert changed.rowcount == 1000
