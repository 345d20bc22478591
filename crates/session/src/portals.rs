//! The portals of a session, by name. Almost every statement has the one without a name: it is looked up nowhere.

use crate::prepared::{Parsed, Portal, PortalState};
use crate::session::FastMap;
use crate::spare::Spare;

thread_local! {
    /// Empty ones: a portal is large, and a session that is idle mostly has none.
    static ROOM: Spare<Box<Option<Portal>>> = const { Spare::new() };
}

/// Portals by name.
#[derive(Default)]
pub struct Portals {
    unnamed: Option<Box<Option<Portal>>>,
    named: FastMap<String, Portal>,
}

impl Portals {
    /// `""` is the one without a name, as in all of these.
    pub fn get(&self, name: &str) -> Option<&Portal> {
        match name {
            "" => self.unnamed(),
            name => self.named.get(name),
        }
    }

    /// `None`: there is no portal of this name.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Portal> {
        match name {
            "" => self.unnamed.as_mut().and_then(|room| (**room).as_mut()),
            name => self.named.get_mut(name),
        }
    }

    fn unnamed(&self) -> Option<&Portal> {
        self.unnamed.as_ref()?.as_ref().as_ref()
    }

    /// Whether there is a portal of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// There is none at all.
    pub fn are_none(&self) -> bool {
        self.unnamed.is_none() && self.named.is_empty()
    }

    /// What those have been planned as of which rows are still to come; that without a name only where it is asked for.
    pub fn suspended(&self, unnamed: bool) -> impl Iterator<Item = &exec::Compiled> {
        let all = self.named.values().chain(self.unnamed().filter(|_| unnamed));
        all.filter_map(|p| match (&p.state, &p.prepared.parsed) {
            (Some(PortalState::OnNode { .. } | PortalState::Spread { .. }), Parsed::Planned(compiled)) => {
                Some(&**compiled)
            }
            _ => None,
        })
    }

    /// Those of several nodes of which rows are still to come.
    pub fn spread_mut(&mut self) -> impl Iterator<Item = &mut Box<exec::Cursor>> {
        let unnamed = self.unnamed.as_mut().and_then(|room| (**room).as_mut());
        self.named.values_mut().chain(unnamed).filter_map(|p| match &mut p.state {
            Some(PortalState::Spread { cursor, .. }) => Some(cursor),
            _ => None,
        })
    }

    /// In place of the one that had the name, which is returned.
    pub fn insert(&mut self, name: &str, portal: Portal) -> Option<Portal> {
        match name {
            "" => {
                let room = self.unnamed.get_or_insert_with(|| ROOM.with(Spare::take).unwrap_or_default());
                (**room).replace(portal)
            }
            name => self.named.insert(name.to_string(), portal),
        }
    }

    /// Gives it up to the caller; `None`: there was none.
    pub fn remove(&mut self, name: &str) -> Option<Portal> {
        match name {
            "" => {
                let mut room = self.unnamed.take()?;
                let portal = room.take();
                ROOM.with(|spare| spare.put(room));
                portal
            }
            name => self.named.remove(name),
        }
    }

    /// All of them, with a name or without.
    pub fn clear(&mut self) {
        self.remove("");
        self.named.clear();
    }
}
