//! What each part of the code comes to: what it has itself, and what all that it leads to comes to. Found once for each, and for those
//! that lead to each other at once (R. Tarjan, Depth-first search and linear graph algorithms, 1972), so it costs what there is, however
//! long the chains are; without recursion, as they are longer than any stack. It does not know what the parts are.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use super::facts::{Facts, Node};
use super::reach::Reach;

/// What is known already.
#[derive(Default)]
pub(super) struct Components {
    known: RefCell<HashMap<Node, Arc<Reach>>>,
}

/// A node on the path from where the search began.
struct Open {
    node: Node,
    reach: Reach,
    /// Not looked at yet; the last one is next.
    next: Vec<Node>,
    number: usize,
    /// The first node of the path that it is known to lead back to.
    back_to: usize,
}

impl Components {
    /// `facts`: of one node alone. They must not ask here.
    pub fn reach(&self, start: Node, facts: impl Fn(Node) -> Facts) -> Arc<Reach> {
        if let Some(known) = self.known.borrow().get(&start) {
            return known.clone();
        }
        let mut known = self.known.borrow_mut();
        // Those met whose component is not complete, in that order, and their numbers in it.
        let (mut met, mut numbers) = (Vec::new(), HashMap::new());
        let open = |node: Node, met: &mut Vec<Node>, numbers: &mut HashMap<Node, usize>| {
            let number = met.len();
            met.push(node);
            numbers.insert(node, number);
            let Facts { own, next } = facts(node);
            Open { node, reach: own, next, number, back_to: number }
        };
        let mut path = vec![open(start, &mut met, &mut numbers)];
        loop {
            let Some(last) = path.last_mut() else { unreachable!("it ends with its first node") };
            if let Some(node) = last.next.pop() {
                if let Some(reach) = known.get(&node) {
                    last.reach.add(reach);
                } else if let Some(number) = numbers.get(&node) {
                    last.back_to = last.back_to.min(*number);
                } else {
                    path.push(open(node, &mut met, &mut numbers));
                }
                continue;
            }
            let Some(done) = path.pop() else { unreachable!("it was the last") };
            if done.back_to < done.number {
                // It is of the same component as the one before it, which has its reach from now on.
                if let Some(before) = path.last_mut() {
                    before.reach.add(&done.reach);
                    before.back_to = before.back_to.min(done.back_to);
                }
                continue;
            }
            let reach = Arc::new(done.reach);
            for node in met.drain(done.number..) {
                numbers.remove(&node);
                known.insert(node, reach.clone());
            }
            match path.last_mut() {
                Some(before) => before.reach.add(&reach),
                None => {
                    debug_assert!(done.node == start);
                    return reach;
                }
            }
        }
    }
}
