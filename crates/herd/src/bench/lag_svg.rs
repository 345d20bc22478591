//! Draws how far column copies were behind over time: a curve for each server that has some, of its last turn. Written by hand, as the bars are.

use super::lag::{Lag, percentile};
use super::pairs::Outcome;
use super::report::number;
use super::svg::{COLOURS, escape};

const LEFT: f64 = 60.0;
const WIDTH: f64 = 620.0;
const HEIGHT: f64 = 160.0;
/// With title and axis.
const CHART: usize = 230;

/// Pieces of an SVG document and their height; nothing where nothing was looked at.
pub fn curves(outcome: &Outcome) -> (String, usize) {
    let mut text = String::new();
    let mut height = 0;
    for (server, (name, turns)) in outcome.servers.iter().zip(&outcome.lag).enumerate() {
        let Some(last) = turns.iter().rfind(|turn| !turn.is_empty()) else { continue };
        text += &format!("<g transform=\"translate(0 {height})\">\n{}</g>\n", chart(name, last, COLOURS[server % 4]));
        height += CHART;
    }
    (text, height)
}

fn chart(name: &str, lags: &[Lag], colour: &str) -> String {
    let mut lags = lags.to_vec();
    lags.sort_by(|one, other| one.at_s.total_cmp(&other.at_s));
    let [p50, p99, most] = [0.5, 0.99, 1.0].map(|part| percentile(&lags, part));
    let end = lags.last().map_or(0.0, |lag| lag.at_s).max(f64::MIN_POSITIVE);
    let (x, y) = (|s: f64| LEFT + s / end * WIDTH, |ms: f64| 30.0 + HEIGHT - ms / most.max(f64::MIN_POSITIVE) * HEIGHT);
    let points: Vec<String> = lags.iter().map(|lag| format!("{:.1},{:.1}", x(lag.at_s), y(lag.ms))).collect();
    let title =
        format!("{name}: columns behind, ms (p50 {}, p99 {}, at most {})", number(p50), number(p99), number(most));
    let mut text = format!("<text x=\"10\" y=\"12\" font-weight=\"bold\">{}</text>\n", escape(&title));
    for (ms, label) in [(0.0, String::from("0")), (p50, number(p50)), (p99, number(p99))] {
        let at = y(ms);
        text += &format!(
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{:.1}\" y2=\"{at:.1}\" stroke=\"#b0b8c0\"/>\n\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            LEFT + WIDTH,
            LEFT - 6.0,
            at + 4.0
        );
    }
    let bottom = 30.0 + HEIGHT + 16.0;
    text += &format!(
        "<text x=\"{LEFT}\" y=\"{bottom}\">0 s</text>\n<text x=\"{:.1}\" y=\"{bottom}\" text-anchor=\"end\">{} s</text>\n",
        LEFT + WIDTH,
        number(end)
    );
    text + &format!("<polyline fill=\"none\" stroke=\"{colour}\" points=\"{}\"/>\n", points.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_copies_has_a_curve() {
        let mut outcome = super::super::report::tests::outcome();
        assert_eq!(curves(&outcome), (String::new(), 0));
        let lags = [(2.0, 10.0), (1.0, 40.0), (4.0, 20.0)].map(|(at_s, ms)| Lag { at_s, ms }).to_vec();
        outcome.lag = vec![vec![vec![], lags], vec![vec![], vec![]]];
        let (text, height) = curves(&outcome);
        assert_eq!((text.matches("<polyline").count(), height), (1, CHART));
        // In the order of time; the greatest is on top, and the last at the right.
        assert!(text.contains("points=\"215.0,30.0 370.0,150.0 680.0,110.0\""), "{text}");
        assert!(text.contains("p50 20.0, p99 40.0, at most 40.0"), "{text}");
    }
}
