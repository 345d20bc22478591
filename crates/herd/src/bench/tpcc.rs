//! The tables, first rows and transactions of `oltp-tpcc`, after the TPC-C standard (clauses 1.3, 2 and 4.3), and what must hold of the
//! tables whenever nobody writes (clause 3.3.2). Everything but the items belongs to a warehouse. It does not know servers.

use super::table::Table;

/// Of each warehouse.
const DISTRICTS: u64 = 10;
const SYLLABLES: &str = "BAR,OUGHT,ABLE,PRI,PRES,ESE,ANTI,CALLY,ATION,EING";

/// Tables by warehouse, each with the column that says which.
pub const TABLES: [Table; 8] = [
    Table {
        name: "bench_warehouse",
        columns: "w_id integer PRIMARY KEY, w_name text, w_tax numeric(4,4), w_ytd numeric(12,2)",
        index: "",
        key: "w_id",
    },
    Table {
        name: "bench_district",
        columns: "d_w_id integer, d_id integer, d_name text, d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id integer, \
                  PRIMARY KEY (d_w_id, d_id)",
        index: "",
        key: "d_w_id",
    },
    Table {
        name: "bench_customer",
        columns: "c_w_id integer, c_d_id integer, c_id integer, c_first text, c_last text, c_credit text, c_discount numeric(4,4), \
                  c_balance numeric(12,2), c_ytd_payment numeric(12,2), c_payment_cnt integer, c_delivery_cnt integer, c_data text, \
                  PRIMARY KEY (c_w_id, c_d_id, c_id)",
        index: "CREATE INDEX ON bench_customer (c_w_id, c_d_id, c_last, c_first)",
        key: "c_w_id",
    },
    Table {
        name: "bench_history",
        columns: "h_c_id integer, h_c_d_id integer, h_c_w_id integer, h_d_id integer, h_w_id integer, h_date timestamp, \
                  h_amount numeric(6,2), h_data text",
        index: "",
        key: "h_w_id",
    },
    Table {
        name: "bench_new_order",
        columns: "no_w_id integer, no_d_id integer, no_o_id integer, PRIMARY KEY (no_w_id, no_d_id, no_o_id)",
        index: "",
        key: "no_w_id",
    },
    Table {
        name: "bench_orders",
        columns: "o_w_id integer, o_d_id integer, o_id integer, o_c_id integer, o_entry_d timestamp, o_carrier_id integer, \
                  o_ol_cnt integer, o_all_local integer, PRIMARY KEY (o_w_id, o_d_id, o_id)",
        index: "CREATE INDEX ON bench_orders (o_w_id, o_d_id, o_c_id, o_id)",
        key: "o_w_id",
    },
    Table {
        name: "bench_order_line",
        columns: "ol_w_id integer, ol_d_id integer, ol_o_id integer, ol_number integer, ol_i_id integer, ol_supply_w_id integer, \
                  ol_delivery_d timestamp, ol_quantity integer, ol_amount numeric(6,2), ol_dist_info text, \
                  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)",
        index: "",
        key: "ol_w_id",
    },
    Table {
        name: "bench_stock",
        columns: "s_w_id integer, s_i_id integer, s_quantity integer, s_ytd integer, s_order_cnt integer, s_remote_cnt integer, \
                  s_dist text, s_data text, PRIMARY KEY (s_w_id, s_i_id)",
        index: "",
        key: "s_w_id",
    },
];

/// The table that every warehouse reads and none changes.
pub const ITEM: Table = Table {
    name: "bench_item",
    columns: "i_id integer PRIMARY KEY, i_name text, i_price numeric(5,2), i_data text",
    index: "",
    key: "",
};

/// How large it is: the standard's tables, with fewer items and, in proportion, customers.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub warehouses: u64,
    pub items: u64,
    /// Of each district; it begins with as many orders.
    pub customers: u64,
}

impl Scale {
    /// So many items as the standard has customers of a district for 100 000.
    pub fn of(warehouses: u64, items: u64) -> Scale {
        Scale { warehouses, items, customers: (items * 3 / 100).max(30) }
    }

    /// So many last names are there, each of three customers of a district.
    fn names(self) -> u64 {
        (self.customers / 3).clamp(1, 1000)
    }

    /// Orders of a district that are delivered from the beginning.
    fn delivered(self) -> u64 {
        self.customers * 7 / 10
    }

    /// What fills the tables, the same on every server: one statement a line.
    pub fn rows(self) -> String {
        let Scale { warehouses, items, customers } = self;
        let (names, delivered) = (self.names(), self.delivered());
        let w = format!("generate_series(1, {warehouses}) w");
        let d = format!("{w}, generate_series(1, {DISTRICTS}) d");
        let name = last_name(&format!("(c - 1) % {names}"));
        // Each customer has one order, and they come mixed. Five to fifteen lines.
        let customer = format!("1 + (o * 7919 + d) % {customers}");
        let lines = "5 + (o * 31 + d * 7 + w) % 11";
        format!(
            "INSERT INTO bench_item SELECT i, md5(i::text), 1 + i * 7919 % 9900 / 100.0, md5((i * 3)::text) FROM generate_series(1, {items}) i;\n\
             INSERT INTO bench_warehouse SELECT w, 'w' || w, w * 37 % 2000 / 10000.0, {districts_ytd} FROM {w};\n\
             INSERT INTO bench_district SELECT w, d, 'd' || d, (w + d) * 37 % 2000 / 10000.0, {customers} * 10, {customers} + 1 FROM {d};\n\
             INSERT INTO bench_customer SELECT w, d, c, md5((w * 1000003 + d * 10007 + c)::text), {name}, \
               CASE c % 10 WHEN 0 THEN 'BC' ELSE 'GC' END, c * 37 % 5000 / 10000.0, -10, 10, 1, 0, repeat(md5(c::text), 10) \
               FROM {d}, generate_series(1, {customers}) c;\n\
             INSERT INTO bench_history SELECT c, d, w, d, w, '2026-01-01', 10, 'first' FROM {d}, generate_series(1, {customers}) c;\n\
             INSERT INTO bench_orders SELECT w, d, o, {customer}, '2026-01-01', CASE WHEN o <= {delivered} THEN 1 + o % 10 END, {lines}, 1 \
               FROM {d}, generate_series(1, {customers}) o;\n\
             INSERT INTO bench_order_line SELECT w, d, o, l, 1 + (o * 7919 + d * 101 + w * 11 + l * 4999) % {items}, w, \
               CASE WHEN o <= {delivered} THEN timestamp '2026-01-01' END, 5, \
               CASE WHEN o <= {delivered} THEN 0 ELSE 1 + (o * 7919 + l) % 999800 / 100.0 END, md5(o::text) \
               FROM {d}, generate_series(1, {customers}) o, LATERAL generate_series(1, {lines}) l;\n\
             INSERT INTO bench_new_order SELECT w, d, o FROM {d}, generate_series({delivered} + 1, {customers}) o;\n\
             INSERT INTO bench_stock SELECT w, i, 10 + (i * 7919 + w) % 91, 0, 0, 0, md5((i + w)::text), md5((i * 5)::text) \
               FROM {w}, generate_series(1, {items}) i;\n",
            districts_ytd = customers * 10 * DISTRICTS,
        )
    }

    /// For pgbench: of a hundred 45 are new orders, 43 payments, four each order status, delivery and stock level (clause 5.2.3 leaves
    /// no more to the first). A client works for one warehouse.
    pub fn script(self) -> String {
        let set = format!(
            "\\set w 1 + :client_id % {}\n\\set d random(1, {DISTRICTS})\n\\set c {}\n\\set kind random(1, 100)\n",
            self.warehouses,
            skewed(1, self.customers)
        );
        let (order, payment, status) = (self.new_order(), self.payment(), self.order_status());
        let (delivery, level) = (delivery(), STOCK_LEVEL);
        format!(
            "{set}\\if :kind <= 45\n{order}\\elif :kind <= 88\n{payment}\\elif :kind <= 92\n{status}\\elif :kind <= 96\n{delivery}\
             \\else\n{level}\\endif\n"
        )
    }

    /// Any warehouse but the client's own, if there is another.
    fn other(self) -> String {
        match self.warehouses {
            1 => ":w".to_string(),
            n => format!("1 + (:w + random(0, {})) % {n}", n - 2),
        }
    }

    /// Clause 2.4: one line of a hundred comes from another warehouse's stock, one order of a hundred is given up.
    fn new_order(self) -> String {
        let (item, other) = (skewed(1, self.items), self.other());
        let mut set = "\\set lines random(5, 15)\n\\set given_up random(1, 100)\n\\set local 1\n".to_string();
        let mut lines = String::new();
        for n in 1..=15 {
            set += &format!(
                "\\set i{n} {item}\n\\set q{n} random(1, 10)\n\\set r{n} case when random(1, 100) = 1 then 1 else 0 end\n\
                 \\set s{n} case when :r{n} = 1 then {other} else :w end\n\
                 \\set local case when :lines >= {n} and :s{n} <> :w then 0 else :local end\n"
            );
            lines += &format!(
                "\\if :lines >= {n}\n\
                 SELECT i_price AS price FROM bench_item WHERE i_id = :i{n} \\gset\n\
                 UPDATE bench_stock SET s_quantity = s_quantity - :q{n} + CASE WHEN s_quantity - :q{n} >= 10 THEN 0 ELSE 91 END, \
                 s_ytd = s_ytd + :q{n}, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :r{n} \
                 WHERE s_w_id = :s{n} AND s_i_id = :i{n} RETURNING s_dist AS dist \\gset\n\
                 INSERT INTO bench_order_line VALUES (:w, :d, :o, {n}, :i{n}, :s{n}, NULL, :q{n}, (:q{n})::integer * (:price)::numeric, :dist);\n\
                 \\endif\n"
            );
        }
        format!(
            "{set}BEGIN;\n\
             SELECT w_tax FROM bench_warehouse WHERE w_id = :w;\n\
             UPDATE bench_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d RETURNING d_next_o_id - 1 AS o, d_tax \\gset\n\
             SELECT c_discount, c_last, c_credit FROM bench_customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;\n\
             INSERT INTO bench_orders VALUES (:w, :d, :o, :c, CURRENT_TIMESTAMP, NULL, :lines, :local);\n\
             INSERT INTO bench_new_order VALUES (:w, :d, :o);\n\
             {lines}\\if :given_up = 1\nROLLBACK;\n\\else\nCOMMIT;\n\\endif\n"
        )
    }

    /// Clause 2.5: fifteen of a hundred are by a customer of another warehouse; sixty give a last name.
    fn payment(self) -> String {
        let by_name = self.by_name("cw", "cd");
        format!(
            "\\set remote random(1, 100)\n\\set cw case when :remote <= 15 then {} else :w end\n\
             \\set cd case when :remote <= 15 then random(1, {DISTRICTS}) else :d end\n\\set cents random(100, 500000)\n{by_name_set}BEGIN;\n\
             UPDATE bench_warehouse SET w_ytd = w_ytd + (:cents)::numeric / 100 WHERE w_id = :w RETURNING w_name \\gset\n\
             UPDATE bench_district SET d_ytd = d_ytd + (:cents)::numeric / 100 WHERE d_w_id = :w AND d_id = :d RETURNING d_name \\gset\n\
             {by_name}\
             UPDATE bench_customer SET c_balance = c_balance - (:cents)::numeric / 100, c_ytd_payment = c_ytd_payment + (:cents)::numeric / 100, \
             c_payment_cnt = c_payment_cnt + 1, \
             c_data = CASE c_credit WHEN 'BC' THEN left(concat_ws(' ', c_id, c_d_id, c_w_id, c_data), 500) ELSE c_data END \
             WHERE c_w_id = :cw AND c_d_id = :cd AND c_id = :c;\n\
             INSERT INTO bench_history VALUES (:c, :cd, :cw, :d, :w, CURRENT_TIMESTAMP, (:cents)::numeric / 100, \
             concat_ws('    ', (:w_name)::text, (:d_name)::text));\nCOMMIT;\n",
            self.other(),
            by_name_set = self.by_name_set(),
        )
    }

    /// Clause 2.6.
    fn order_status(self) -> String {
        format!(
            "{}BEGIN;\n{}\
             SELECT c_first, c_last, c_balance FROM bench_customer WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c;\n\
             SELECT coalesce(max(o_id), 0) AS o FROM bench_orders WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c \\gset\n\
             SELECT o_entry_d, o_carrier_id FROM bench_orders WHERE o_w_id = :w AND o_d_id = :d AND o_id = :o;\n\
             SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM bench_order_line \
             WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;\nCOMMIT;\n",
            self.by_name_set(),
            self.by_name("w", "d")
        )
    }

    fn by_name_set(self) -> String {
        format!("\\set by_name random(1, 100)\n\\set name {}\n", skewed(0, self.names() - 1))
    }

    /// The customer in the middle of those of a last name.
    fn by_name(self, warehouse: &str, district: &str) -> String {
        let name = last_name("(:name)::integer");
        format!(
            "\\if :by_name <= 60\n\
             SELECT (array_agg(c_id ORDER BY c_first))[((count(*) + 1) / 2)::integer] AS c FROM bench_customer \
             WHERE c_w_id = :{warehouse} AND c_d_id = :{district} AND c_last = {name} \\gset\n\\endif\n"
        )
    }
}

/// Clause 2.7: the oldest order of each district. Where two deliver at once, each order is one's only.
fn delivery() -> String {
    let district = |d: u64| {
        format!(
            "WITH gone AS (DELETE FROM bench_new_order WHERE no_w_id = :w AND no_d_id = {d} AND no_o_id = \
             (SELECT min(no_o_id) FROM bench_new_order WHERE no_w_id = :w AND no_d_id = {d}) RETURNING no_o_id) \
             SELECT coalesce(max(no_o_id), 0) AS o FROM gone \\gset\n\
             \\if :o > 0\n\
             UPDATE bench_orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = {d} AND o_id = :o RETURNING o_c_id AS c \\gset\n\
             UPDATE bench_order_line SET ol_delivery_d = CURRENT_TIMESTAMP WHERE ol_w_id = :w AND ol_d_id = {d} AND ol_o_id = :o;\n\
             SELECT sum(ol_amount) AS amount FROM bench_order_line WHERE ol_w_id = :w AND ol_d_id = {d} AND ol_o_id = :o \\gset\n\
             UPDATE bench_customer SET c_balance = c_balance + (:amount)::numeric, c_delivery_cnt = c_delivery_cnt + 1 \
             WHERE c_w_id = :w AND c_d_id = {d} AND c_id = :c;\n\\endif\n"
        )
    };
    let all: String = (1..=DISTRICTS).map(district).collect();
    format!("\\set carrier random(1, 10)\nBEGIN;\n{all}COMMIT;\n")
}

/// Clause 2.8.
const STOCK_LEVEL: &str = "\\set threshold random(10, 20)\nBEGIN;\n\
     SELECT d_next_o_id AS next FROM bench_district WHERE d_w_id = :w AND d_id = :d \\gset\n\
     SELECT count(DISTINCT s_i_id) FROM bench_order_line JOIN bench_stock ON s_w_id = ol_w_id AND s_i_id = ol_i_id \
     WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= (:next)::integer - 20 AND ol_o_id < (:next)::integer AND s_quantity < :threshold;\nCOMMIT;\n";

/// What must hold whenever nobody writes, by the number it has in clause 3.3.2, and a query for how often it does not.
pub const CONDITIONS: [(&str, &str); 8] = [
    (
        "3.3.2.1: warehouses whose w_ytd is not what their districts have",
        "SELECT count(*) FROM bench_warehouse LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM bench_district GROUP BY d_w_id) d \
         ON d_w_id = w_id WHERE w_ytd IS DISTINCT FROM ytd",
    ),
    (
        "3.3.2.2: districts whose next order does not follow the last one",
        "SELECT count(*) FROM bench_district \
         LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS last FROM bench_orders GROUP BY o_w_id, o_d_id) o ON o_w_id = d_w_id AND o_d_id = d_id \
         LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS last FROM bench_new_order GROUP BY no_w_id, no_d_id) n ON no_w_id = d_w_id AND no_d_id = d_id \
         WHERE o.last IS DISTINCT FROM d_next_o_id - 1 OR n.last <> d_next_o_id - 1",
    ),
    (
        "3.3.2.3: districts whose new orders have gaps",
        "SELECT count(*) FROM (SELECT no_w_id, no_d_id FROM bench_new_order GROUP BY no_w_id, no_d_id \
         HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) gaps",
    ),
    (
        "3.3.2.4: districts that have more or fewer order lines than their orders",
        "SELECT count(*) FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines FROM bench_orders GROUP BY o_w_id, o_d_id) o \
         LEFT JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM bench_order_line GROUP BY ol_w_id, ol_d_id) l \
         ON ol_w_id = o_w_id AND ol_d_id = o_d_id WHERE o.lines IS DISTINCT FROM l.lines",
    ),
    (
        "3.3.2.5: orders that are new and delivered, or neither",
        "SELECT count(*) FROM bench_orders LEFT JOIN bench_new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id \
         WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    ),
    (
        "3.3.2.8: warehouses whose w_ytd is not what was paid",
        "SELECT count(*) FROM bench_warehouse LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM bench_history GROUP BY h_w_id) h \
         ON h_w_id = w_id WHERE w_ytd IS DISTINCT FROM paid",
    ),
    (
        "3.3.2.9: districts whose d_ytd is not what was paid",
        "SELECT count(*) FROM bench_district LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM bench_history GROUP BY h_w_id, h_d_id) h \
         ON h_w_id = d_w_id AND h_d_id = d_id WHERE d_ytd IS DISTINCT FROM paid",
    ),
    (
        "3.3.2.12: customers whose balance and payments are not what was delivered",
        "SELECT count(*) FROM bench_customer LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS amount \
         FROM bench_orders JOIN bench_order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id \
         WHERE ol_delivery_d IS NOT NULL GROUP BY o_w_id, o_d_id, o_c_id) o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id \
         WHERE c_balance + c_ytd_payment <> coalesce(amount, 0)",
    ),
];

/// NURand of clause 2.1.6, for pgbench: some numbers come more often. Its constant A in the same proportion for smaller ranges.
fn skewed(first: u64, last: u64) -> String {
    let count = last - first + 1;
    let a = (1..=13).map(|bits| (1u64 << bits) - 1).rfind(|a| a * 29 <= count * 10).unwrap_or(1);
    format!("((random(0, {a}) | random({first}, {last})) + {}) % {count} + {first}", 123 % (a + 1))
}

/// Clause 4.3.2.3: three syllables, by the digits of a number.
fn last_name(number: &str) -> String {
    let syllable = |digit: &str| format!("(string_to_array('{SYLLABLES}', ','))[1 + {digit} % 10]");
    format!(
        "{} || {} || {}",
        syllable(&format!("({number}) / 100")),
        syllable(&format!("({number}) / 10")),
        syllable(&format!("({number})"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_constants_come_of_the_standards_sizes() {
        assert_eq!(skewed(0, 999), "((random(0, 255) | random(0, 999)) + 123) % 1000 + 0");
        assert_eq!(skewed(1, 3000), "((random(0, 1023) | random(1, 3000)) + 123) % 3000 + 1");
        assert_eq!(skewed(1, 100_000), "((random(0, 8191) | random(1, 100000)) + 123) % 100000 + 1");
        assert_eq!(skewed(0, 0), "((random(0, 1) | random(0, 0)) + 1) % 1 + 0");
        let scale = Scale::of(4, 100_000);
        assert_eq!((scale.customers, scale.names(), scale.delivered()), (3000, 1000, 2100));
    }

    #[test]
    fn a_script_is_shorter_than_a_pipe_and_closes_what_it_opens() {
        let script = Scale::of(16, 10_000).script();
        assert!(script.len() < 60_000, "{}", script.len());
        assert_eq!(script.matches("\\if ").count(), script.matches("\\endif").count());
        assert_eq!(script.matches("BEGIN;").count(), 5);
        assert!(!Scale::of(1, 200).script().contains("% 1\\n"), "there is no other warehouse");
    }
}
