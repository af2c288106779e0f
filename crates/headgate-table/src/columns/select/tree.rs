//! The tree of a document, in which any `JSONPath` finds its nodes. A tree needs many times the memory of its text, and
//! some paths need more than linear time; both are bounded. Nodes are returned as they were written: a second pass walks the
//! text in step with the tree.

use std::collections::{HashMap, HashSet};
use std::ptr::from_ref;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::absent::Absent;
use super::path::Query;
use super::walk::{Node, walk};

/// The maximum memory of a tree.
const MAX_TREE_BYTES: usize = 256 << 20;
/// A run has at most one tree at a time that needs more memory than this.
const LARGE_TREE_BYTES: usize = 4 << 20;
/// The memory of an object with a name in it: its first allocation has capacity for eleven.
const OBJECT_BYTES: usize = 640;
/// The memory of a value, including that of finding it.
const VALUE_BYTES: usize = 224;
/// The maximum number of visits of values.
const MAX_LOOKS: f64 = 1e8;

/// Queries, each with the number of its column and whether all of its nodes are wanted, not only the first.
#[derive(Debug, Default)]
pub(super) struct Trees {
    pub(super) queries: Vec<(usize, Query, bool)>,
    large: Mutex<()>,
}

/// Returns the maximum number of values, and of bytes, of the tree of a text.
fn size_of_tree(text: &str) -> (usize, usize) {
    let count = |what: fn(&u8) -> bool| text.as_bytes().iter().filter(|byte| what(byte)).count();
    let objects = count(|byte| *byte == b'{');
    let values = 1 + objects + count(|byte| matches!(byte, b',' | b'['));
    (values, text.len() + objects * OBJECT_BYTES + values * VALUE_BYTES)
}

impl Trees {
    /// Returns the maximum number of visits of values, in a text of `bytes` bytes.
    pub(super) fn max_visits(&self, bytes: usize) -> f64 {
        self.queries.iter().map(|(_, query, _)| (bytes as f64).powi(query.power)).sum()
    }

    /// Returns the nodes that each query finds in a JSON text, as text, with the query's number.
    ///
    /// # Errors
    /// The text is not JSON, or is too large or nested too deeply.
    pub(super) fn find<'t>(
        &self,
        text: &'t str,
        mut found: impl FnMut(usize, Result<Vec<&'t str>, Absent>),
    ) -> Result<(), TreeError> {
        let (values, bytes) = size_of_tree(text);
        if bytes > MAX_TREE_BYTES {
            return Err(TreeError::Absent(Absent::TooLarge("the body has too many values to be searched")));
        }
        let _one_at_a_time =
            (bytes > LARGE_TREE_BYTES).then(|| self.large.lock().unwrap_or_else(PoisonError::into_inner));
        let tree: Value = serde_json::from_str(text).map_err(TreeError::Json)?;
        for (number, query, wants_all) in &self.queries {
            if (values as f64).powi(query.power) > MAX_LOOKS {
                let why = "the body has too many values for a path that visits them repeatedly";
                found(*number, Err(Absent::TooLarge(why)));
                continue;
            }
            let mut nodes = query.path.query(&tree).all();
            if !wants_all {
                nodes.truncate(1);
            }
            found(*number, Ok(as_written(text, &tree, &nodes).map_err(TreeError::Json)?));
        }
        Ok(())
    }
}

pub(super) enum TreeError {
    Absent(Absent),
    Json(serde_json::Error),
}

/// Returns the texts of these nodes of a tree, in their order.
fn as_written<'t>(text: &'t str, tree: &Value, nodes: &[&Value]) -> serde_json::Result<Vec<&'t str>> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let mut wanted =
        WantedNodes { texts: nodes.iter().map(|node| (from_ref(*node), "")).collect(), ancestors: HashSet::new() };
    wanted.mark(tree);
    walk(text, tree, &mut wanted)?;
    Ok(nodes.iter().filter_map(|node| wanted.texts.get(&from_ref(*node)).copied()).collect())
}

/// Nodes that are wanted, identified by their addresses, and their texts.
pub(super) struct WantedNodes<'t> {
    texts: HashMap<*const Value, &'t str>,
    /// The ancestors of wanted nodes.
    ancestors: HashSet<*const Value>,
}

impl WantedNodes<'_> {
    /// Marks the ancestors of wanted nodes, and returns whether this node or one below it is wanted.
    fn mark(&mut self, node: &Value) -> bool {
        let mut is_ancestor = false;
        match node {
            Value::Array(values) => values.iter().for_each(|value| is_ancestor |= self.mark(value)),
            Value::Object(values) => values.values().for_each(|value| is_ancestor |= self.mark(value)),
            _ => {}
        }
        if is_ancestor {
            self.ancestors.insert(from_ref(node));
        }
        is_ancestor || self.texts.contains_key(&from_ref(node))
    }

    fn descend<'v>(&self, node: &'v Value) -> Option<&'v Value> {
        (self.ancestors.contains(&from_ref(node)) || self.texts.contains_key(&from_ref(node))).then_some(node)
    }
}

/// Walks a text in step with the tree that was made of it. Of a repeated name, the node is that of the last.
impl<'t> Node<'t> for &Value {
    type Found = WantedNodes<'t>;

    fn name(self, name: &str, wanted: &WantedNodes<'t>) -> Option<Self> {
        wanted.descend(self.get(name)?)
    }

    fn index(self, index: usize, wanted: &WantedNodes<'t>) -> Option<Self> {
        wanted.descend(self.get(index)?)
    }

    fn is_wanted(self, wanted: &WantedNodes<'t>) -> bool {
        wanted.texts.contains_key(&from_ref(self))
    }

    fn leads_on(self, wanted: &WantedNodes<'t>) -> bool {
        wanted.ancestors.contains(&from_ref(self))
    }

    fn note(self, text: &'t str, wanted: &mut WantedNodes<'t>) {
        wanted.texts.insert(from_ref(self), text);
    }
}
