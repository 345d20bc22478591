"""CH-benCHmark's tables and rows (Cole et al., "The mixed workload CH-benCHmark", DBTest 2011): TPC-C's nine tables and three of TPC-H's, with a fixed seed.

Values are as the queries ask for them, not as TPC-C's text grammar has them.
"""

import datetime
import random
import string
from collections.abc import Iterator
from dataclasses import dataclass

SCHEMA = """
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name varchar(10), w_state char(2), w_tax numeric(4,4), w_ytd numeric(12,2));
CREATE TABLE district (d_w_id int, d_id int, d_name varchar(10), d_state char(2), d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_w_id int, c_d_id int, c_id int, c_first varchar(16), c_last varchar(16), c_city varchar(20), c_state char(2), c_phone char(16),
    c_since timestamp, c_balance numeric(12,2), c_data varchar(500), PRIMARY KEY (c_w_id, c_d_id, c_id));
CREATE TABLE history (h_c_id int, h_c_d_id int, h_c_w_id int, h_d_id int, h_w_id int, h_date timestamp, h_amount numeric(6,2), h_data varchar(24));
CREATE TABLE orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int, o_all_local int, PRIMARY KEY (o_w_id, o_d_id, o_id));
CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_supply_w_id int, ol_delivery_d timestamp, ol_quantity int,
    ol_amount numeric(6,2), ol_dist_info char(24), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
CREATE TABLE item (i_id int PRIMARY KEY, i_im_id int, i_name varchar(24), i_price numeric(5,2), i_data varchar(50));
CREATE TABLE stock (s_w_id int, s_i_id int, s_quantity int, s_ytd int, s_order_cnt int, s_remote_cnt int, s_data varchar(50), PRIMARY KEY (s_w_id, s_i_id));
CREATE TABLE region (r_regionkey int PRIMARY KEY, r_name char(55), r_comment char(152));
CREATE TABLE nation (n_nationkey int PRIMARY KEY, n_name char(25), n_regionkey int, n_comment char(152));
CREATE TABLE supplier (su_suppkey int PRIMARY KEY, su_name char(25), su_address varchar(40), su_nationkey int, su_phone char(15), su_acctbal numeric(12,2), su_comment char(101));
"""



@dataclass(frozen=True)
class Sizes:
    """How many warehouses, districts of each, customers (and orders) of each of these, and items there are. TPC-C: 10 districts, 3 000 customers, 100 000 items."""

    warehouses: int = 4
    districts: int = 3
    customers: int = 40
    items: int = 400


_REGIONS = ["Africa", "America", "Asia", "Europe", "Australia"]
_NATIONS = ["Germany", "Cambodia", "Kenya", "Peru", "Japan", "Austria", "Brazil", "Chad", "France", "Fiji"]
_FIRST = datetime.datetime(2007, 1, 1)


def rows(sizes: Sizes = Sizes()) -> Iterator[tuple[str, list[tuple]]]:
    """Each table's name and its rows."""
    warehouses, districts, customers_max, items = sizes.warehouses, sizes.districts, sizes.customers, sizes.items
    r = random.Random(20110613)
    money = lambda low, high: f"{r.randint(low * 100, high * 100) / 100:.2f}"
    word = lambda length: "".join(r.choices(string.ascii_lowercase, k=length))
    # A nation's key is the character that begins the states of its customers.
    nations = [ord(c) for c in string.digits + string.ascii_letters]
    places = [(w, d) for w in range(1, warehouses + 1) for d in range(1, districts + 1)]

    yield "region", [(n, name, word(9)) for n, name in enumerate(_REGIONS)]
    yield "nation", [(key, _NATIONS[n] if n < len(_NATIONS) else f"Nation {n}", 3 if n % 3 == 0 else n % 5, word(9)) for n, key in enumerate(nations)]
    yield "supplier", [
        (n, f"Supplier#{n:05}", word(12), r.choice(nations[:12]), f"{r.randint(10, 99)}-{r.randint(1000, 9999)}", money(-99, 999), "a bad one" if n % 17 == 0 else word(9))
        for n in range(min(warehouses * items + 1, 10_000))
    ]
    begins, ends = ["PR", "co", "zz", "or"], ["a", "b", "c", "BB", "x"]
    yield "item", [(n, r.randint(1, 99), f"item {n % 90}", money(1, 100), r.choice(begins) + word(8) + r.choice(ends)) for n in range(1, items + 1)]
    yield "warehouse", [(w, word(6), "DE", "0.1", "300000.00") for w in range(1, warehouses + 1)]
    yield "stock", [(w, i, r.randint(10, 100), 0, r.randint(0, 50), 0, word(20)) for w in range(1, warehouses + 1) for i in range(1, items + 1)]
    yield "district", [(w, d, word(6), "DE", "0.1", "30000.00", customers_max + 1) for w, d in places]
    customers, orders, new_orders, lines, history = [], [], [], [], []
    for w, d in places:
        for c in range(1, customers_max + 1):
            state = chr(r.choice(nations[:14])) + r.choice(string.ascii_uppercase) if c % 4 else "A" + r.choice(string.ascii_uppercase)
            customers.append((w, d, c, word(8), f"Last{c % 20}", word(7), state, f"{r.randint(1, 9)}{r.randint(10**9, 10**10 - 1)}", _FIRST, money(-10, 500), word(30)))
            history.append((c, d, w, d, w, _FIRST, "10.00", word(12)))
        for o in range(1, customers_max + 1):
            entered = _FIRST + datetime.timedelta(days=r.randint(1, 1800), seconds=r.randint(0, 86399))
            is_new, count = o > customers_max * 7 // 10, r.randint(5, 15)
            # A quarter of the customers order nothing.
            orders.append((w, d, o, r.randint(1, customers_max * 3 // 4), entered, None if is_new else r.randint(1, 10), count, 1))
            if is_new:
                new_orders.append((w, d, o))
            for number in range(1, count + 1):
                supply = w if r.random() < 0.9 else r.randint(1, warehouses)
                delivered = None if is_new else entered + datetime.timedelta(days=r.randint(-1, 9))
                lines.append((w, d, o, number, r.randint(1, items), supply, delivered, r.randint(1, 10), money(1, 99), word(24)))
    yield "customer", customers
    yield "history", history
    yield "orders", orders
    yield "new_order", new_orders
    yield "order_line", lines
