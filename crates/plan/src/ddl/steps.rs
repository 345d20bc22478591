//! What a utility statement comes to on each node. Texts only: nothing here decides or runs.

use crate::{Refusal, Text};
use catalog::NodeId;

/// One text on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// A SQL condition that must hold there, or the step is passed over: the node may never have had the object.
    pub guard: Option<String>,
    pub text: Text,
    /// It waits for locks in short tries, so that nobody queues behind it for long.
    pub in_tries: bool,
}

impl Step {
    /// A step that the node runs in any case.
    pub fn new(text: impl Into<Text>) -> Self {
        Step { guard: None, text: text.into(), in_tries: false }
    }

    /// A step for nodes on which the condition holds.
    pub fn guarded(guard: impl Into<String>, text: impl Into<Text>) -> Self {
        Step { guard: Some(guard.into()), text: text.into(), in_tries: false }
    }

    /// The same step, which takes its locks in short tries.
    pub fn in_tries(self) -> Self {
        Step { in_tries: true, ..self }
    }
}

/// What one node runs, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSteps {
    pub node: NodeId,
    pub steps: Vec<Step>,
}

/// A condition asked of every node before anything is changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// One boolean; true anywhere refuses the statement.
    pub sql: String,
    pub refusal: Refusal,
}

/// The statement makes something in the schema of the shards, which takes a privilege that the table's owner may lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Quoted and qualified.
    pub table: String,
    /// Who is to own the table.
    pub new_owner: Option<String>,
}

/// What each node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    pub checks: Vec<Check>,
    pub rights: Option<Rights>,
    /// Roles that go: what the router has granted them goes first.
    pub leaving: Vec<String>,
    /// Home first, then in the order of nodes. Home's first step is the statement itself: the client gets its tag and
    /// notices.
    pub nodes: Vec<NodeSteps>,
    /// Where home's first step is not the statement itself, or there is none.
    pub tag: Option<&'static str>,
    /// Settings of the other nodes while they run their steps.
    pub settings: &'static [(&'static str, &'static str)],
    /// It makes an object without saying in which schema: the search path must lead to the same one everywhere.
    pub unqualified: bool,
    /// It does not change anything that a commit would have to keep.
    pub read_only: bool,
    /// Undoes, on one node, what steps that were not in a transaction have left behind.
    pub undo: Vec<String>,
    /// Which each node answers with true where steps that were not in a transaction have made all of it: shards and nodes may have come meanwhile.
    pub whole: Option<String>,
    /// A view, by schema and name, that other nodes get as home has it then, with all that belongs to it.
    pub view: Option<(String, String)>,
    /// A table, quoted and qualified, whose new constraints get the names on all nodes that home has chosen.
    pub constraints_of: Option<String>,
    /// For the client, before the statement.
    pub warning: Option<String>,
}

impl Spread {
    /// Adds a step to every node that is part of it.
    pub fn push(&mut self, sql: impl Into<Text>) {
        let step = Step::new(sql);
        self.nodes.iter_mut().for_each(|n| n.steps.push(step.clone()));
    }

    /// Adds a step to home.
    pub fn push_home(&mut self, sql: impl Into<Text>) {
        if let Some(home) = self.nodes.first_mut() {
            home.steps.push(Step::new(sql));
        }
    }
}
