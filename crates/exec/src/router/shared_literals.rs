//! Literals of statements that travel with those of other clients: where in a template each one is. It does not know how
//! such statements travel (`share.rs`).

use plan::{Cell, LiteralKind, Planned};
use sql::template::Template;

/// The literals that become parameters, and the others with their texts, which must be the same again.
pub type SharedLiterals = (Vec<SharedLiteral>, Vec<(usize, String)>);

/// A literal that travels as a parameter.
#[derive(Clone, Copy, Debug)]
pub struct SharedLiteral {
    /// Which literal of the template.
    pub index: usize,
    /// Its place in the compiled statement's own text.
    pub start: usize,
    pub end: usize,
    pub type_oid: u32,
    pub kind: LiteralKind,
    /// A minus before it stays in the text: `-$1`.
    pub negated: bool,
}

/// What of a template's literals travels how.
pub fn shared_literals(plan: &Planned, text: &str, t: &Template) -> Option<SharedLiterals> {
    let share = plan.whole().share.as_ref()?;
    // A parameter that nobody gives would be one of the literals.
    if plan.whole().names_parameters {
        return None;
    }
    let mut parameters = Vec::with_capacity(share.literals.len());
    for l in &share.literals {
        let (index, negated) = t.literal_at(text, l.location)?;
        let place = t.literals()[index];
        parameters.push(SharedLiteral {
            index,
            start: place.start as usize,
            end: place.end as usize,
            type_oid: l.type_oid,
            kind: l.kind,
            negated,
        });
    }
    let others = (0..t.literals().len()).filter(|i| parameters.iter().all(|p| p.index != *i));
    let others = others.map(|i| (i, t.literal_text(text, i).to_string())).collect();
    Some((parameters, others))
}

/// For each literal among the cells, in order, which one of the template it is and whether a minus is before it.
pub fn row_literals(plan: &Planned, text: &str, t: &Template) -> Option<Vec<(usize, bool)>> {
    let cells = plan.share_rows()?.rows.iter().flatten();
    let locations = cells.filter_map(|c| match c {
        Cell::Literal { location, .. } => Some(*location),
        _ => None,
    });
    locations.map(|l| t.literal_at(text, l)).collect()
}
