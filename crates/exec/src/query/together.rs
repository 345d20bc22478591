//! What each node answers of a query that is finished over several parts: all of them in one statement, so that it tells of one state of
//! its tables. Each row says of which part it is, and has NULL in the columns of the others. Where they would have too many columns
//! together, each is a statement of its own, and may see another state.
//!
//! It does not know how a statement is sent, nor what is made of the rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use catalog::NodeId;
use plan::{Part, Text};
use wire::backend::Field;
use wire::frontend::format_of;
use wire::type_oid;

use crate::render::{Fill, NodeStatement};
use crate::router::described::PartColumns;
use crate::work::cut_statement::Wanted;

/// A query has no more columns than that (PostgreSQL's MaxTupleAttributeNumber, with room for what planning adds).
const COLUMNS_MAX: usize = 1600;

/// A statement, and of which parts its rows are.
pub struct Asked {
    pub nodes: BTreeSet<NodeId>,
    pub parts: Vec<usize>,
    pub statement: NodeStatement,
    pub formats: Vec<i16>,
}

/// What the nodes get. `nodes`, `columns` and `formats` are those of each part.
pub fn asked(
    parts: &[&Part],
    nodes: Vec<BTreeSet<NodeId>>,
    columns: &[PartColumns],
    formats: &[Vec<i16>],
    fill: &Fill,
) -> Vec<Asked> {
    let one = |n: usize, nodes: BTreeSet<NodeId>| Asked {
        nodes,
        parts: vec![n],
        statement: fill.statement([&parts[n].text]).answered_by(&columns[n].fields),
        formats: formats[n].clone(),
    };
    let mut of_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    for (n, nodes) in nodes.iter().enumerate() {
        nodes.iter().for_each(|node| of_node.entry(*node).or_default().push(n));
    }
    let mut alike: BTreeMap<Vec<usize>, BTreeSet<NodeId>> = BTreeMap::new();
    of_node.into_iter().for_each(|(node, parts)| _ = alike.entry(parts).or_default().insert(node));
    let width = |numbers: &[usize]| numbers.iter().map(|n| columns[*n].fields.len()).sum::<usize>();
    let several = alike.into_iter().flat_map(|(numbers, nodes)| match numbers[..] {
        [n] => vec![one(n, nodes)],
        _ if width(&numbers) > COLUMNS_MAX => numbers.iter().map(|n| one(*n, nodes.clone())).collect(),
        _ => {
            let texts = texts(&numbers, parts, columns);
            let each = numbers.iter().flat_map(|n| (0..columns[*n].fields.len()).map(|c| format_of(&formats[*n], c)));
            let formats = std::iter::once(0).chain(each).collect();
            let place = Field::new("", type_oid::INT4, 4);
            let fields = std::iter::once(&place).chain(numbers.iter().flat_map(|n| &columns[*n].fields));
            let statement = fill.statement(texts.iter().map(AsRef::as_ref)).answered_by(fields);
            vec![Asked { nodes, statement, parts: numbers, formats }]
        }
    });
    several.collect()
}

/// One query of them all.
fn texts<'p>(numbers: &[usize], parts: &[&'p Part], columns: &[PartColumns]) -> Vec<Cow<'p, Text>> {
    let mut texts = Vec::with_capacity(1 + 2 * numbers.len());
    for (place, n) in numbers.iter().enumerate() {
        let mut sql = if place > 0 { " UNION ALL ".to_string() } else { String::new() };
        sql.push_str(&format!("SELECT {place}"));
        for other in numbers {
            for (c, none) in columns[*other].bare.iter().enumerate() {
                match other == n {
                    true => sql.push_str(&format!(", p.c{c}")),
                    false => sql.push_str(&format!(", NULL::{none}")),
                }
            }
        }
        texts.push(Cow::Owned(Text::from(format!("{sql} FROM ("))));
        texts.push(Cow::Borrowed(&parts[*n].text));
        let names: Vec<String> = (0..columns[*n].fields.len()).map(|c| format!("c{c}")).collect();
        texts.push(Cow::Owned(Text::from(format!(") p ({})", names.join(", ")))));
    }
    texts
}

impl Asked {
    /// To be opened before it is read.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { nodes: &self.nodes, statement: &self.statement, formats: &self.formats }
    }

    /// Of which part a row is, and its values there. `widths`: how many columns each part has.
    pub fn part<'r, 'v>(
        &self,
        row: &'r [Option<&'v [u8]>],
        widths: &[usize],
    ) -> Option<(usize, &'r [Option<&'v [u8]>])> {
        if let [n] = self.parts[..] {
            return Some((n, row));
        }
        let (place, values) = row.split_first()?;
        let place: usize = std::str::from_utf8((*place)?).ok()?.parse().ok()?;
        let before: usize = self.parts.iter().take(place).map(|n| widths[*n]).sum();
        let n = *self.parts.get(place)?;
        Some((n, values.get(before..before + widths[n])?))
    }
}
