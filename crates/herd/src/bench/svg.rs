//! Draws an outcome as bars, one group a figure, each group on its own scale. Written by hand: it is forty lines.

use super::pairs::Outcome;
use super::report::number;

pub const COLOURS: [&str; 4] = ["#336791", "#b0b8c0", "#c9a66b", "#8aa37b"];
const LABEL: usize = 200;
const BAR: usize = 360;
const LINE: usize = 18;

/// A whole SVG document; bars are as long as medians. `below`: what else is drawn under them, and how high it is.
pub fn bars(outcome: &Outcome, below: &(String, usize)) -> String {
    let group = outcome.servers.len() * LINE + 26;
    let (width, height) = (LABEL + BAR + 140, outcome.rows.len() * group + 40);
    let whole = height + below.1;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{whole}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    text += &format!("<text x=\"10\" y=\"20\">{}: {}</text>\n", outcome.workload, escape(&outcome.description));
    for (index, row) in outcome.rows.iter().enumerate() {
        let top = 40 + index * group;
        let better = if row.figure.more_is_better { "more is better" } else { "less is better" };
        let title = format!("{} ({}, {better})", row.figure.name, row.figure.unit);
        text += &format!("<text x=\"10\" y=\"{}\" font-weight=\"bold\">{}</text>\n", top + 12, escape(&title));
        let most = (0..outcome.servers.len()).map(|server| row.median(server)).fold(f64::MIN_POSITIVE, f64::max);
        for (server, name) in outcome.servers.iter().enumerate() {
            let (y, value) = (top + 18 + server * LINE, row.median(server));
            let length = (value / most * BAR as f64).round().max(1.0);
            let colour = COLOURS[server % COLOURS.len()];
            text +=
                &format!("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n", LABEL - 8, y + 12, escape(name));
            text += &format!("<rect x=\"{LABEL}\" y=\"{y}\" width=\"{length}\" height=\"14\" fill=\"{colour}\"/>\n");
            text += &format!("<text x=\"{}\" y=\"{}\">{}</text>\n", LABEL as f64 + length + 6.0, y + 12, number(value));
        }
    }
    if below.1 > 0 {
        text += &format!("<g transform=\"translate(0 {height})\">\n{}</g>\n", below.0);
    }
    text + "</svg>\n"
}

/// As the text of an element.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_median_has_a_bar_on_its_groups_scale() {
        let text = bars(&super::super::report::tests::outcome(), &(String::new(), 0));
        assert_eq!(text.matches("height=\"14\"").count(), 4);
        // Of 3 and 6 ms, the longer is whole and the other half.
        assert!(text.contains("width=\"360\" height=\"14\"") && text.contains("width=\"180\" height=\"14\""), "{text}");
        assert!(text.contains("Q1 &lt;count&gt;") && !text.contains("<count>"));
    }
}
