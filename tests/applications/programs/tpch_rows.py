"""TPC-H's tables and rows: a generator with a fixed seed that follows the distributions of the specification (4.2.3), not its text grammar."""

import datetime
import random
from collections.abc import Iterator

SCHEMA = """
CREATE TABLE region (r_regionkey int PRIMARY KEY, r_name char(25) NOT NULL, r_comment varchar(152));
CREATE TABLE nation (n_nationkey int PRIMARY KEY, n_name char(25) NOT NULL, n_regionkey int NOT NULL, n_comment varchar(152));
CREATE TABLE supplier (s_suppkey int PRIMARY KEY, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL, s_nationkey int NOT NULL,
    s_phone char(15) NOT NULL, s_acctbal decimal(15,2) NOT NULL, s_comment varchar(101) NOT NULL);
CREATE TABLE part (p_partkey int PRIMARY KEY, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, p_brand char(10) NOT NULL,
    p_type varchar(25) NOT NULL, p_size int NOT NULL, p_container char(10) NOT NULL, p_retailprice decimal(15,2) NOT NULL, p_comment varchar(23) NOT NULL);
CREATE TABLE partsupp (ps_partkey int NOT NULL, ps_suppkey int NOT NULL, ps_availqty int NOT NULL, ps_supplycost decimal(15,2) NOT NULL,
    ps_comment varchar(199) NOT NULL, PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE customer (c_custkey int PRIMARY KEY, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, c_nationkey int NOT NULL,
    c_phone char(15) NOT NULL, c_acctbal decimal(15,2) NOT NULL, c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL);
CREATE TABLE orders (o_orderkey bigint PRIMARY KEY, o_custkey int NOT NULL, o_orderstatus char(1) NOT NULL, o_totalprice decimal(15,2) NOT NULL,
    o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL, o_clerk char(15) NOT NULL, o_shippriority int NOT NULL, o_comment varchar(79) NOT NULL);
CREATE TABLE lineitem (l_orderkey bigint NOT NULL, l_partkey int NOT NULL, l_suppkey int NOT NULL, l_linenumber int NOT NULL, l_quantity decimal(15,2) NOT NULL,
    l_extendedprice decimal(15,2) NOT NULL, l_discount decimal(15,2) NOT NULL, l_tax decimal(15,2) NOT NULL, l_returnflag char(1) NOT NULL,
    l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL, l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL,
    l_shipmode char(10) NOT NULL, l_comment varchar(44) NOT NULL, PRIMARY KEY (l_orderkey, l_linenumber));
"""

TABLES = ("region", "nation", "supplier", "part", "partsupp", "customer", "orders", "lineitem")

_NATIONS = [
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3), ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2),
    ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4), ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3),
    ("SAUDI ARABIA", 4), ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
]
_COLOURS = "almond antique aquamarine azure beige bisque black blue blush brown burlywood chartreuse chiffon chocolate coral cornsilk cream cyan dark deep dim dodger drab firebrick floral forest frosted gainsboro ghost goldenrod green honeydew hot indian ivory khaki lace lavender lawn lemon".split()
_TYPES = (["STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"], ["ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"], ["TIN", "NICKEL", "BRASS", "STEEL", "COPPER"])
_CONTAINERS = (["SM", "LG", "MED", "JUMBO", "WRAP"], ["CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"])
_SEGMENTS = ["AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"]
_PRIORITIES = ["1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"]
_INSTRUCTIONS = ["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"]
_MODES = ["REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"]
_WORDS = "special pending unusual express furious sly careful blithe quick fluffy regular final ironic even bold silent packages requests accounts deposits foxes ideas theodolites instructions".split()
_FIRST = datetime.date(1992, 1, 1)
_NOW = datetime.date(1995, 6, 17)


def rows(scale: float) -> Iterator[tuple[str, list[tuple]]]:
    """Each table's name and its rows, at a scale factor (1 is a gigabyte)."""
    r = random.Random(19920101)
    customers, parts, suppliers, orders = (max(int(n * scale), 20) for n in (150_000, 200_000, 10_000, 1_500_000))
    text = lambda words: " ".join(r.choices(_WORDS, k=words))
    money = lambda low, high: f"{r.randint(low * 100, high * 100) / 100:.2f}"
    phone = lambda nation: f"{nation + 10}-{r.randint(100, 999)}-{r.randint(100, 999)}-{r.randint(1000, 9999)}"
    retail = lambda key: (90000 + (key // 10) % 20001 + 100 * (key % 1000)) / 100
    supplier_of = lambda part, n: (part + n * (suppliers // 4 + (part - 1) // suppliers)) % suppliers + 1

    yield "region", [(n, name, text(5)) for n, name in enumerate(["AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"])]
    yield "nation", [(n, name, region, text(5)) for n, (name, region) in enumerate(_NATIONS)]
    made = []
    for key in range(1, suppliers + 1):
        nation = r.randrange(25)
        said = "the Customer always Complaints" if key % 40 == 0 else "good Customer Recommends" if key % 40 == 7 else text(6)
        made.append((key, f"Supplier#{key:09}", text(2), nation, phone(nation), money(-999, 9999), said))
    yield "supplier", made
    made = []
    for key in range(1, parts + 1):
        maker = r.randint(1, 5)
        kind, box = " ".join(map(r.choice, _TYPES)), " ".join(map(r.choice, _CONTAINERS))
        made.append((key, " ".join(r.sample(_COLOURS, 5)), f"Manufacturer#{maker}", f"Brand#{maker}{r.randint(1, 5)}", kind, r.randint(1, 50), box, f"{retail(key):.2f}", text(1)))
    yield "part", made
    yield "partsupp", [(p, supplier_of(p, n), r.randint(1, 9999), money(1, 1000), text(8)) for p in range(1, parts + 1) for n in range(4)]
    made = []
    for key in range(1, customers + 1):
        nation = r.randrange(25)
        made.append((key, f"Customer#{key:09}", text(2), nation, phone(nation), money(-999, 9999), r.choice(_SEGMENTS), text(8)))
    yield "customer", made
    made, lines = [], []
    for n in range(orders):
        key = n // 8 * 32 + n % 8 + 1  # as the specification has it: eight of 32 keys are used
        customer = r.randint(1, customers)
        customer -= customer % 3 == 0  # a third of the customers order nothing
        ordered = _FIRST + datetime.timedelta(r.randint(0, 2405))
        total, states = 0.0, set()
        for line in range(1, r.randint(1, 7) + 1):
            part = r.randint(1, parts)
            quantity, discount, tax = r.randint(1, 50), r.randint(0, 10) / 100, r.randint(0, 8) / 100
            price = quantity * retail(part)
            shipped = ordered + datetime.timedelta(r.randint(1, 121))
            received = shipped + datetime.timedelta(r.randint(1, 30))
            state = "O" if shipped > _NOW else "F"
            states.add(state)
            total += price * (1 + tax) * (1 - discount)
            lines.append((
                key, part, supplier_of(part, r.randrange(4)), line, quantity, f"{price:.2f}", discount, tax, r.choice("RA") if received <= _NOW else "N", state,
                shipped, ordered + datetime.timedelta(r.randint(30, 90)), received, r.choice(_INSTRUCTIONS), r.choice(_MODES), text(3),
            ))
        state = states.pop() if len(states) == 1 else "P"
        made.append((key, customer, state, f"{total:.2f}", ordered, r.choice(_PRIORITIES), f"Clerk#{r.randint(1, 1000):09}", 0, text(6)))
    yield "orders", made
    yield "lineitem", lines
