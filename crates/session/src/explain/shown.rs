//! How EXPLAIN's answer reads: lines of text, or one document of JSON, YAML or XML, in the manner of PostgreSQL's `explain.c`.
//! It does not know how plans are made.

use std::fmt::Write;
use std::time::Duration;

use serde_json::{Map, Value, json};
use wire::type_oid::{self, Oid};

use crate::session::Result;
use exec::{Answered, ExecError};

/// FORMAT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Yaml,
    Xml,
}

impl Format {
    /// `None`: there is none of that name. As PostgreSQL, it is told by its very letters.
    pub fn of(name: Option<&str>) -> Option<Format> {
        match name {
            None | Some("text") => Some(Format::Text),
            Some("json") => Some(Format::Json),
            Some("yaml") => Some(Format::Yaml),
            Some("xml") => Some(Format::Xml),
            Some(_) => None,
        }
    }

    /// The type of the answer's column.
    pub fn type_oid(self) -> Oid {
        match self {
            Format::Text | Format::Yaml => type_oid::TEXT,
            Format::Json => type_oid::JSON,
            Format::Xml => type_oid::XML,
        }
    }
}

/// What is told of a statement.
pub struct Explained {
    pub strategy: &'static str,
    /// Labels and values.
    pub details: Vec<(String, String)>,
    pub nodes: Vec<NodePlan>,
    /// ANALYZE: what came from each node to the router.
    pub answered: Vec<(String, Answered)>,
    /// ANALYZE: rows returned or changed, and how long all of it took.
    pub rows: Option<u64>,
    pub time: Option<Duration>,
}

/// One node's part.
pub struct NodePlan {
    pub name: String,
    pub statement: String,
    /// The lines of its EXPLAIN; but for FORMAT text, those of a JSON document.
    pub plan: Vec<String>,
}

impl Explained {
    /// The rows of the answer.
    pub fn show(&self, format: Format) -> Result<Vec<String>> {
        match format {
            Format::Text => Ok(self.lines()),
            Format::Json => {
                let text = serde_json::to_string_pretty(&json!([self.document()?]));
                Ok(vec![text.map_err(|e| ExecError::internal(e.to_string()))?])
            }
            Format::Yaml => {
                let mut out = String::from("- ");
                yaml_members(&self.document()?, 1, true, &mut out);
                Ok(vec![out])
            }
            Format::Xml => {
                let mut out = String::from("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n");
                xml("Query", &Value::Object(self.document()?), 1, &mut out);
                out.push_str("</explain>");
                Ok(vec![out])
            }
        }
    }

    /// A store of column copies has answered some of it.
    pub fn is_by_columns(&self) -> bool {
        self.answered.iter().any(|(_, answered)| answered.by_columns)
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("Herd {}", self.strategy)];
        for (label, value) in &self.details {
            let mut parts = value.split('\n');
            lines.push(format!("  {label}: {}", parts.next().unwrap_or_default()));
            lines.extend(parts.map(|line| format!("    {line}")));
        }
        for node in &self.nodes {
            lines.push(format!("  Node: {}", node.name));
            lines.push(format!("    Statement: {}", node.statement));
            lines.extend(node.plan.iter().map(|line| format!("    {line}")));
        }
        for (node, a) in &self.answered {
            lines.push(format!(
                "  Answer of {}{node}: rows={} bytes={} time={:.3} ms",
                if a.by_columns { "the store of " } else { "" },
                a.rows,
                a.bytes,
                milliseconds(a.time)
            ));
        }
        lines.extend(self.rows.map(|rows| format!("Rows: {rows}")));
        lines.extend(self.time.map(|time| format!("Execution Time: {:.3} ms", milliseconds(time))));
        lines
    }

    /// Tools look for "Plan", in it for "Node Type" and "Plans".
    fn document(&self) -> Result<Map<String, Value>> {
        let mut plan = Map::new();
        plan.insert("Node Type".into(), json!(format!("Herd {}", self.strategy)));
        // What is said more than once (of each part) is a list.
        for (label, value) in &self.details {
            match plan.get_mut(label) {
                None => drop(plan.insert(label.clone(), json!(value))),
                Some(Value::Array(all)) => all.push(json!(value)),
                Some(one) => *one = json!([one.take(), value]),
            }
        }
        plan.extend(self.rows.map(|rows| ("Actual Rows".into(), json!(rows))));
        let answers: Vec<_> = self
            .answered
            .iter()
            .map(|(node, a)| {
                let mut answer = json!({
                    "Node": node, "Actual Rows": a.rows, "Bytes": a.bytes, "Actual Total Time": milliseconds(a.time),
                });
                if a.by_columns {
                    answer["By"] = json!("Columns");
                }
                answer
            })
            .collect();
        if !answers.is_empty() {
            plan.insert("Answers".into(), Value::Array(answers));
        }
        let nodes = self.nodes.iter().map(NodePlan::document).collect::<Result<Vec<_>>>()?;
        plan.insert("Plans".into(), Value::Array(nodes));
        let mut document = Map::from_iter([("Plan".into(), Value::Object(plan))]);
        document.extend(self.time.map(|time| ("Execution Time".into(), json!(milliseconds(time)))));
        Ok(document)
    }
}

impl NodePlan {
    fn document(&self) -> Result<Value> {
        let own: Value = serde_json::from_str(&self.plan.join("\n"))
            .map_err(|e| ExecError::internal(format!("a node's EXPLAIN is not JSON: {e}")))?;
        let mut node = Map::from_iter([
            ("Node Type".into(), json!("Node")),
            ("Node".into(), json!(self.name)),
            ("Statement".into(), json!(self.statement)),
        ]);
        // One document a statement: its plan, and what is told beside it.
        let mut plans = Vec::new();
        for document in own.as_array().into_iter().flatten().filter_map(Value::as_object) {
            for (label, value) in document {
                match label.as_str() {
                    "Plan" => plans.push(value.clone()),
                    _ => drop(node.insert(label.clone(), value.clone())),
                }
            }
        }
        node.insert("Plans".into(), Value::Array(plans));
        Ok(Value::Object(node))
    }
}

/// To the microsecond, as PostgreSQL.
fn milliseconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn indent(by: usize, out: &mut String) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", by));
}

/// `begun`: the first stands on the line that is begun.
fn yaml_members(members: &Map<String, Value>, by: usize, begun: bool, out: &mut String) {
    for (i, (label, value)) in members.iter().enumerate() {
        if i > 0 || !begun {
            indent(by, out);
        }
        let _ = write!(out, "{label}: ");
        match value {
            Value::Object(inner) => yaml_members(inner, by + 1, false, out),
            Value::Array(items) => items.iter().for_each(|item| {
                indent(by + 1, out);
                out.push_str("- ");
                match item {
                    Value::Object(inner) => yaml_members(inner, by + 2, true, out),
                    other => drop(write!(out, "{other}")),
                }
            }),
            other => drop(write!(out, "{other}")),
        }
    }
}

fn xml(label: &str, value: &Value, by: usize, out: &mut String) {
    let tag: String =
        label.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect();
    let pad = "  ".repeat(by);
    let text = match value {
        Value::Object(inner) => {
            let _ = writeln!(out, "{pad}<{tag}>");
            inner.iter().for_each(|(label, value)| xml(label, value, by + 1, out));
            let _ = writeln!(out, "{pad}</{tag}>");
            return;
        }
        Value::Array(items) => {
            let _ = writeln!(out, "{pad}<{tag}>");
            for item in items {
                let one = if item.is_object() { label.strip_suffix('s').unwrap_or(label) } else { "Item" };
                xml(one, item, by + 1, out);
            }
            let _ = writeln!(out, "{pad}</{tag}>");
            return;
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let _ = writeln!(out, "{pad}<{tag}>{text}</{tag}>");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explained() -> Explained {
        let plan = r#"[{"Plan": {"Node Type": "Seq Scan", "Output": ["a", "b"], "Filter": "(a < 3)"}, "Planning": {"Blocks": 0}}]"#;
        let node = NodePlan { name: "node2".into(), statement: "SELECT \"a\"".into(), plan: vec![plan.into()] };
        Explained {
            strategy: "scatter",
            details: vec![("Finish".into(), "append".into())],
            nodes: vec![node],
            answered: vec![],
            rows: Some(2),
            time: Some(Duration::from_micros(1234)),
        }
    }

    #[test]
    fn test_yaml() {
        let shown = explained().show(Format::Yaml).unwrap_or_default().concat();
        let expected = "- Plan: \n    Node Type: \"Herd scatter\"\n    Finish: \"append\"\n    Actual Rows: 2\n    Plans: \n      - Node Type: \"Node\"\n        Node: \"node2\"\n        Statement: \"SELECT \\\"a\\\"\"\n        Planning: \n          Blocks: 0\n        Plans: \n          - Node Type: \"Seq Scan\"\n            Output: \n              - \"a\"\n              - \"b\"\n            Filter: \"(a < 3)\"\n  Execution Time: 1.234";
        assert_eq!(shown, expected);
    }

    #[test]
    fn test_what_is_said_of_each_part() {
        let mut explained = explained();
        explained.details = ["one", "two\nlines", "three"].map(|value| ("Columns".into(), value.into())).into();
        let lines = explained.show(Format::Text).unwrap_or_default();
        assert_eq!(lines[1..5], ["  Columns: one", "  Columns: two", "    lines", "  Columns: three"]);
        let document: Value =
            serde_json::from_str(&explained.show(Format::Json).unwrap_or_default().concat()).unwrap_or_default();
        assert_eq!(document[0]["Plan"]["Columns"], json!(["one", "two\nlines", "three"]));
    }

    #[test]
    fn test_xml() {
        let shown = explained().show(Format::Xml).unwrap_or_default().concat();
        assert!(shown.starts_with("<explain xmlns=\"http://www.postgresql.org/2009/explain\">\n  <Query>\n    <Plan>\n      <Node-Type>Herd scatter</Node-Type>\n"), "{shown}");
        assert!(shown.contains("<Filter>(a &lt; 3)</Filter>") && shown.contains("<Item>a</Item>"), "{shown}");
        assert!(shown.ends_with("    <Execution-Time>1.234</Execution-Time>\n  </Query>\n</explain>"), "{shown}");
    }
}
