//! How long a statement takes to become a template: `cargo run --release -p sql --example lexer_speed`.

use std::hint::black_box;
use std::time::Instant;

use sql::lexer::Lexer;
use sql::template::Template;

const STATEMENTS: [(&str, &str); 4] = [
    (
        "W1 INSERT",
        "INSERT INTO sbtest1 (id, k, c, pad) VALUES (4989, 2479, '83868641912-28773972837-60736120486-75162659906-\
         27563526494-20381887404-41576422241-93426793964-56405065102-33518432330', '67847967377-48000963322-\
         62604785301-91415491898-96926520291')",
    ),
    ("point SELECT", "SELECT abalance FROM pgbench_accounts WHERE aid = 95321;"),
    ("prepared text", "SELECT abalance FROM pgbench_accounts WHERE aid = $1;"),
    (
        "join, 6 literals",
        "SELECT o.id, o.total * 1.19, c.name FROM orders o JOIN customers c ON c.id = o.customer_id \
         WHERE o.created >= date '2026-01-01' AND o.state IN ('paid', 'sent') ORDER BY o.created DESC LIMIT 50 OFFSET 100",
    ),
];

/// Of this many rounds the fastest counts: the others were disturbed.
const ROUNDS: usize = 20;
const STATEMENTS_PER_ROUND: u32 = 50_000;

fn main() {
    println!("{:<18} {:>6} {:>10} {:>13}", "statement", "bytes", "lex, ns", "template, ns");
    let mut template = Template::new();
    for (name, sql) in STATEMENTS {
        let lex = fastest_ns(|| Lexer::new(black_box(sql), true).filter(Result::is_ok).count());
        let scan = fastest_ns(|| template.scan(black_box(sql), true).is_ok().then(|| template.hash()));
        println!("{name:<18} {:>6} {lex:>10.0} {scan:>13.0}", sql.len());
    }
}

fn fastest_ns<T>(mut run: impl FnMut() -> T) -> f64 {
    let round = |_| {
        let start = Instant::now();
        for _ in 0..STATEMENTS_PER_ROUND {
            black_box(run());
        }
        start.elapsed().as_nanos() as f64 / f64::from(STATEMENTS_PER_ROUND)
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}
