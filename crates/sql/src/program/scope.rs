//! Which variables a place in a body can see, the innermost first, as PL/pgSQL's own namespaces have it (pl_funcs.c). It does not know what is
//! a column's name.

use std::sync::Arc;

/// What a name can mean at one place.
#[derive(Clone, Debug, Default)]
pub struct Scope(Option<Arc<Item>>);

#[derive(Debug)]
struct Item {
    what: What,
    outer: Scope,
}

#[derive(Debug)]
enum What {
    /// A block, a loop or the function begins; not all have a name.
    Label(Option<String>),
    Variable(String, usize),
}

/// A variable, and how many of the names given were its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub variable: usize,
    pub names: usize,
}

impl Scope {
    /// Within a block or loop.
    pub fn labelled(&self, label: Option<&str>) -> Scope {
        self.and(What::Label(label.map(str::to_string)))
    }

    /// With one variable more.
    pub fn with(&self, name: &str, variable: usize) -> Scope {
        self.and(What::Variable(name.to_string(), variable))
    }

    fn and(&self, what: What) -> Scope {
        Scope(Some(Arc::new(Item { what, outer: self.clone() })))
    }

    /// `a`, `a.b` or `a.b.c`: a variable, a row's field, or either by its block's name. `is_row`: a variable has fields.
    pub fn find(&self, parts: &[&str], is_row: &dyn Fn(usize) -> bool) -> Option<Found> {
        let first = *parts.first()?;
        let mut level = self;
        loop {
            let mut label = None;
            for (at, item) in level.items().enumerate() {
                match &item.what {
                    What::Variable(name, v) if name == first && (parts.len() == 1 || is_row(*v)) => {
                        return Some(Found { variable: *v, names: 1 });
                    }
                    What::Variable(..) => {}
                    What::Label(name) => {
                        label = Some((at, name, item));
                        break;
                    }
                }
            }
            let (own, name, item) = label?;
            if let (Some(name), Some(second)) = (name, parts.get(1))
                && name == first
            {
                for item in level.items().take(own) {
                    if let What::Variable(name, v) = &item.what
                        && name == second
                        && (parts.len() == 2 || is_row(*v))
                    {
                        return Some(Found { variable: *v, names: 2 });
                    }
                }
            }
            level = &item.outer;
        }
    }

    /// It has a block, loop or function of that name around it.
    pub fn has_label(&self, name: &str) -> bool {
        self.items().any(|item| matches!(&item.what, What::Label(Some(label)) if label == name))
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        std::iter::successors(self.0.as_deref(), |item| item.outer.0.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::{Found, Scope};

    #[test]
    fn the_innermost_is_found() {
        let outer = Scope::default().labelled(Some("f")).with("a", 0).with("r", 1);
        let inner = outer.labelled(Some("b")).with("a", 2);
        let is_row = |v: usize| v == 1;
        let found = |parts: &[&str]| inner.find(parts, &is_row).map(|Found { variable, names }| (variable, names));
        assert_eq!(found(&["a"]), Some((2, 1)));
        assert_eq!(found(&["f", "a"]), Some((0, 2)));
        assert_eq!(found(&["b", "a"]), Some((2, 2)));
        assert_eq!(found(&["r", "x"]), Some((1, 1)));
        assert_eq!(found(&["f", "r", "x"]), Some((1, 2)));
        assert_eq!(found(&["a", "x"]), None);
        assert_eq!(found(&["c"]), None);
        assert_eq!(outer.find(&["a"], &is_row), Some(Found { variable: 0, names: 1 }));
    }
}
