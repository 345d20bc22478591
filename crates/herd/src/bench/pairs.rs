//! Turns that take turns: A B, B A, A B …, so that what slows the machine for a while slows everyone.
//!
//! A *pair* is one turn on every server. Ratios are taken within a pair and their median is told. Answers are compared
//! over all servers and turns. It does not know what a workload does.

use super::error::{Error, Result};
use super::lag::{Lag, percentile};
use super::report::number;
use super::server::Server;
use super::workload::{Figure, Parameters, Turn, Workload};

/// What came out of a workload: the first server against each other one.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub workload: &'static str,
    /// What was run; of several measured one after the other, each.
    pub description: String,
    /// Names of the servers, the measured one first.
    pub servers: Vec<String>,
    pub rows: Vec<Row>,
    /// How far column copies were behind, by server, then by turn; empty where that was not looked at.
    pub lag: Vec<Vec<Vec<Lag>>>,
}

impl Outcome {
    /// Outcomes of the same servers as one, in order; `None`: there is none.
    pub fn joined(outcomes: Vec<Outcome>) -> Option<Outcome> {
        outcomes.into_iter().reduce(|mut all, more| {
            all.description = format!("{}; {}", all.description, more.description);
            all.rows.extend(more.rows);
            let more = more.lag.into_iter().chain(std::iter::repeat(Vec::new()));
            all.lag.iter_mut().zip(more).for_each(|(turns, more)| turns.extend(more));
            all
        })
    }
}

/// One figure of all servers.
#[derive(Debug, Clone)]
pub struct Row {
    pub figure: Figure,
    /// By server, then by pair.
    pub values: Vec<Vec<f64>>,
}

impl Row {
    /// Of the pairs of one server, by its place in `Outcome::servers`; NaN without pairs.
    pub fn median(&self, server: usize) -> f64 {
        median(&self.values[server])
    }

    /// How many times as good the first server is as another one, pair by pair; above 1 it is better.
    pub fn ratios(&self, other: usize) -> Vec<f64> {
        let pairs = self.values[0].iter().zip(&self.values[other]);
        pairs.map(|(first, other)| if self.figure.more_is_better { first / other } else { other / first }).collect()
    }
}

/// Loads every server, runs the pairs and drops the tables, also after an error.
pub fn measure(workload: &mut dyn Workload, servers: &[Server], parameters: &Parameters) -> Result<Outcome> {
    workload.choose(servers, parameters)?;
    let description = workload.describe(parameters);
    eprintln!("{}: {description}", workload.name().to_uppercase());
    let outcome = run_pairs(workload, servers, parameters, description);
    if !parameters.keep {
        for server in servers {
            let dropped = workload.clean_up(server);
            // The first error tells more than that the tables could not be dropped either.
            if outcome.is_ok() {
                dropped?;
            }
        }
    }
    outcome
}

fn run_pairs(
    workload: &dyn Workload,
    servers: &[Server],
    parameters: &Parameters,
    description: String,
) -> Result<Outcome> {
    for server in servers {
        eprintln!("  loading {}", server.name);
        workload.prepare(server, parameters)?;
    }
    let figures = workload.figures();
    let mut turns: Vec<Vec<Turn>> = vec![Vec::new(); servers.len()];
    for pair in 0..parameters.pairs as usize {
        for server in order(servers.len(), pair) {
            let turn = workload.turn(&servers[server], parameters)?;
            let said =
                figures.iter().zip(&turn.values).map(|(figure, value)| format!("{} {}", number(*value), figure.unit));
            let mut said: Vec<String> = said.collect();
            said.extend(lag_said(&turn.lag));
            eprintln!("  pair {} of {}: {}: {}", pair + 1, parameters.pairs, servers[server].name, said.join(", "));
            turns[server].push(turn);
        }
    }
    let names: Vec<String> = servers.iter().map(|server| server.name.clone()).collect();
    compare_answers(&names, &turns)?;
    let values =
        |index: usize| turns.iter().map(|turns| turns.iter().map(|turn| turn.values[index]).collect()).collect();
    let rows = figures.into_iter().enumerate().map(|(index, figure)| Row { figure, values: values(index) }).collect();
    let lag = turns.iter().map(|turns| turns.iter().map(|turn| turn.lag.clone()).collect()).collect();
    Ok(Outcome { workload: workload.name(), description, servers: names, rows, lag })
}

/// How far columns were behind in a turn, in words.
pub fn lag_said(lags: &[Lag]) -> Option<String> {
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| number(percentile(lags, part)));
    (!lags.is_empty()).then(|| format!("columns behind by p50 {p50} ms, p99 {p99} ms, at most {most} ms"))
}

/// Who is first in a pair: each in turn, from the front and from the back.
fn order(servers: usize, pair: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..servers).collect();
    if pair % 2 == 1 {
        order.reverse();
    }
    order
}

/// Every answer of the same name is the same, on every server and in every turn.
fn compare_answers(names: &[String], turns: &[Vec<Turn>]) -> Result<()> {
    let mut seen: Vec<(&str, &str, usize)> = Vec::new();
    for (server, turns) in turns.iter().enumerate() {
        for (what, answer) in turns.iter().flat_map(|turn| &turn.answers) {
            match seen.iter().find(|(name, ..)| name == what) {
                None => seen.push((what, answer, server)),
                Some((_, same, _)) if same == answer => {}
                Some((_, first_answer, first)) => {
                    return Err(Error::Answer {
                        what: what.clone(),
                        first: names[*first].clone(),
                        first_answer: (*first_answer).to_owned(),
                        second: names[server].clone(),
                        second_answer: answer.clone(),
                    });
                }
            }
        }
    }
    Ok(())
}

/// The middle of the values, or of the two in the middle; not a number without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => f64::midpoint(sorted[n / 2 - 1], sorted[n / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!([median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0]), median(&[7.0])], [2.0, 2.5, 7.0]);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn pairs_alternate() {
        assert_eq!([order(2, 0), order(2, 1), order(2, 2)], [[0, 1], [1, 0], [0, 1]]);
        assert_eq!(order(3, 1), [2, 1, 0]);
    }

    #[test]
    fn above_one_the_first_is_better() {
        let values = vec![vec![10.0, 30.0], vec![20.0, 20.0]];
        let rate = Row { figure: Figure::rate("r", "tps"), values: values.clone() };
        let time = Row { figure: Figure::time_ms("t"), values };
        assert_eq!((rate.ratios(1), time.ratios(1)), (vec![0.5, 1.5], vec![2.0, 20.0 / 30.0]));
        assert_eq!((rate.median(0), rate.median(1)), (20.0, 20.0));
    }

    #[test]
    fn outcomes_are_joined_in_order() {
        let one = super::super::report::tests::outcome();
        let both = Outcome::joined(vec![one.clone(), one]).unwrap();
        assert_eq!((both.rows.len(), both.description.as_str()), (4, "few rows; few rows"));
        assert!(Outcome::joined(vec![]).is_none());
    }

    #[test]
    fn a_differing_answer_is_an_error_that_names_both() {
        let names = ["herd".to_owned(), "plain".to_owned()];
        let turn = |answer: &str| Turn {
            values: Vec::new(),
            answers: vec![("Q1".to_owned(), answer.to_owned())],
            ..Turn::default()
        };
        compare_answers(&names, &[vec![turn("7"), turn("7")], vec![turn("7")]]).unwrap();
        let error = compare_answers(&names, &[vec![turn("7")], vec![turn("7"), turn("8")]]).unwrap_err().to_string();
        for part in ["WRONG", "Q1", "herd", "7", "plain", "8"] {
            assert!(error.contains(part), "{error}");
        }
        // A server that contradicts itself is wrong too.
        compare_answers(&names, &[vec![turn("7"), turn("8")], vec![]]).unwrap_err();
    }
}
