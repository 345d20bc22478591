//! What a session has set for queries of tables that are not colocated. It does not know how they are answered (`query/ways.rs`).

/// Which way queries of tables that are not colocated go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Broadcast {
    /// That by which less moves.
    #[default]
    Auto,
    /// Rows go to the nodes of the largest table, where they may.
    On,
    /// All rows come home.
    Off,
}
