//! Shows outcomes: a table for people, JSON for programs. Pure: it runs nothing.

use serde_json::{Value, json};

use super::lag::{Lag, percentile};
use super::pairs::{Outcome, lag_said, median};
use super::server::{Server, ServerKind};
use super::workload::Parameters;

/// A table of outcomes of the same servers: medians, and how many times as good the first server is as each other.
pub fn table(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else {
        return String::new();
    };
    let others = 1..first.servers.len();
    let mut head = vec!["workload".to_owned()];
    // The measured one last, next to the ratios.
    head.extend(others.clone().map(|other| first.servers[other].clone()));
    head.push(first.servers[0].clone());
    head.extend(others.clone().map(|other| match others.len() {
        1 => "ratio".to_owned(),
        _ => format!("to {}", first.servers[other]),
    }));
    head.extend(others.clone().map(|_| "range".to_owned()));
    let mut lines = vec![head];
    for row in outcomes.iter().flat_map(|outcome| &outcome.rows) {
        let cell = |server| format!("{} {}", number(row.median(server)), row.figure.unit);
        let mut line = vec![row.figure.name.clone()];
        line.extend(others.clone().map(cell));
        line.push(cell(0));
        line.extend(others.clone().map(|other| format!("{:.2}", median(&row.ratios(other)))));
        line.extend(others.clone().map(|other| range(&row.ratios(other))));
        lines.push(line);
    }
    let mut text = align(&lines);
    for outcome in outcomes {
        for (name, turns) in outcome.servers.iter().zip(&outcome.lag) {
            text += &lag_said(&turns.concat()).map_or(String::new(), |said| format!("{name}: {said}.\n"));
        }
    }
    if !others.is_empty() {
        let first = &first.servers[0];
        text += &format!(
            "Medians of the turns; ratio: the median and the range of the pairs' ratios, above 1 {first} is faster.\n\
             Answers and counts were checked.\n"
        );
    }
    text
}

/// The smallest and the greatest, which tell how noisy the machine was.
fn range(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.2}–{most:.2}")
}

fn align(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        text += &cells.collect::<Vec<_>>().join(" | ");
        text.push('\n');
    }
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let end = text.find('\n').map_or(0, |end| end + 1);
    text.insert_str(end, &format!("{}\n", rule.join("-|-")));
    text
}

/// Three digits that matter, thousands set apart: `0.617`, `12.3`, `12 345`.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size < 1.0 => format!("{value:.3}"),
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => {
            let digits = format!("{value:.0}");
            let mut text = String::new();
            for (place, digit) in digits.chars().enumerate() {
                if place > 0 && (digits.len() - place).is_multiple_of(3) {
                    text.push(' ');
                }
                text.push(digit);
            }
            text
        }
    }
}

/// Everything measured. URLs are left out: they may hold passwords.
pub fn json(outcome: &Outcome, servers: &[Server], parameters: &Parameters, clients: &[u32]) -> String {
    let clients = match clients {
        [one] => json!(one),
        several => json!(several),
    };
    let servers: Vec<Value> = servers
        .iter()
        .map(|server| {
            let kind = match server.kind {
                ServerKind::Plain => "postgresql",
                ServerKind::Herd => "herd",
                ServerKind::Citus => "citus",
                ServerKind::DuckDb => "duckdb",
            };
            json!({ "name": server.name, "kind": kind, "version": server.version, "host": server.host, "port": server.port })
        })
        .collect();
    let value = json!({
        "workload": outcome.workload,
        "description": outcome.description,
        "pgherd": env!("CARGO_PKG_VERSION"),
        "pairs": parameters.pairs,
        "clients": clients,
        "seconds": parameters.seconds,
        "columns": parameters.columns,
        "rate": parameters.rate,
        "servers": servers,
        "figures": figures(outcome),
        "lag": lag(outcome),
    });
    serde_json::to_string_pretty(&value).unwrap_or_else(|error| unreachable!("plain data: {error}")) + "\n"
}

/// By server, where it was looked at: milliseconds of all turns, and of each turn what was seen when (seconds, milliseconds).
fn lag(outcome: &Outcome) -> Value {
    let of = |turns: &Vec<Vec<Lag>>| {
        let all = turns.concat();
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| percentile(&all, part));
        let curve = |turn: &Vec<Lag>| json!(turn.iter().map(|lag| json!([lag.at_s, lag.ms])).collect::<Vec<_>>());
        let turns: Vec<Value> = turns.iter().map(curve).collect();
        json!({ "rows": all.len(), "p50_ms": p50, "p99_ms": p99, "max_ms": most, "turns": turns })
    };
    let servers =
        outcome.servers.iter().zip(&outcome.lag).filter(|(_, turns)| turns.iter().any(|turn| !turn.is_empty()));
    Value::Object(servers.map(|(name, turns)| (name.clone(), of(turns))).collect())
}

fn figures(outcome: &Outcome) -> Vec<Value> {
    let figure = |row: &super::pairs::Row| {
        let by_name = |value: &dyn Fn(usize) -> Value, from: usize| -> Value {
            let pairs = outcome.servers.iter().enumerate().skip(from);
            Value::Object(pairs.map(|(index, name)| (name.clone(), value(index))).collect())
        };
        json!({
            "name": row.figure.name,
            "unit": row.figure.unit,
            "more_is_better": row.figure.more_is_better,
            "medians": by_name(&|server| json!(row.median(server)), 0),
            "values": by_name(&|server| json!(row.values[server]), 0),
            "ratio_to": by_name(&|server| json!(median(&row.ratios(server))), 1),
            "ratios_to": by_name(&|server| json!(row.ratios(server)), 1),
        })
    };
    outcome.rows.iter().map(figure).collect()
}

#[cfg(test)]
pub mod tests {
    use super::super::pairs::Row;
    use super::super::workload::Figure;
    use super::*;

    /// Of two servers: a time in two pairs, a rate in one.
    pub fn outcome() -> Outcome {
        let time = Row { figure: Figure::time_ms("Q1 <count>"), values: vec![vec![2.0, 4.0], vec![8.0, 4.0]] };
        let rate = Row { figure: Figure::rate("inserts", "tps"), values: vec![vec![12345.6], vec![6000.0]] };
        Outcome {
            workload: "w2",
            description: "few rows".to_owned(),
            servers: vec!["herd".to_owned(), "plain".to_owned()],
            rows: vec![time, rate],
            lag: Vec::new(),
        }
    }

    #[test]
    fn the_table_is_aligned_and_has_the_ratio_last() {
        let expected = "\
workload   |     plain |       herd | ratio |     range
-----------|-----------|------------|-------|----------
Q1 <count> |   6.00 ms |    3.00 ms |  2.50 | 1.00–4.00
inserts    | 6 000 tps | 12 346 tps |  2.06 | 2.06–2.06
Medians of the turns; ratio: the median and the range of the pairs' ratios, above 1 herd is faster.
Answers and counts were checked.
";
        assert_eq!(table(&[outcome()]), expected);
    }

    #[test]
    fn lag_is_told_of_who_has_copies() {
        let lags = |ms: [f64; 2]| ms.map(|ms| Lag { at_s: ms / 10.0, ms }).to_vec();
        let outcome =
            Outcome { lag: vec![vec![lags([5.0, 40.0]), lags([7.0, 6.0])], vec![vec![], vec![]]], ..outcome() };
        let told = lag(&outcome);
        assert_eq!(told["herd"]["p50_ms"], json!(6.0));
        assert_eq!((&told["herd"]["max_ms"], &told["herd"]["turns"][1][0]), (&json!(40.0), &json!([0.7, 7.0])));
        assert!(told.get("plain").is_none());
        let text = table(&[outcome]);
        assert!(text.contains("herd: columns behind by p50 6.00 ms, p99 40.0 ms, at most 40.0 ms.\n"), "{text}");
    }

    #[test]
    fn numbers_keep_what_matters() {
        let said: Vec<String> = [0.6171, 1.0, 12.34, 999.6, 1234567.0].into_iter().map(number).collect();
        assert_eq!(said, ["0.617", "1.00", "12.3", "1 000", "1 234 567"]);
    }

    #[test]
    fn figures_name_their_servers() {
        let figures = figures(&outcome());
        assert_eq!(figures[0]["medians"], json!({"herd": 3.0, "plain": 6.0}));
        assert_eq!(figures[0]["ratios_to"], json!({"plain": [4.0, 1.0]}));
        assert_eq!(figures[1]["values"]["herd"], json!([12345.6]));
    }
}
