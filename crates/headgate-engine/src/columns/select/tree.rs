//! The long way to values: the whole document as a tree, in which any `JSONPath` finds its nodes. A tree takes many times the memory
//! of its text, and some paths take more than linear time; both are bounded. Nodes are given as they were written: the text
//! is walked once more, in step with the tree.

use std::collections::{HashMap, HashSet};
use std::ptr::from_ref;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use super::absent::Absent;
use super::path::Query;
use super::walk::{Place, walk};

/// What a tree may take at the most.
const MAX_TREE_BYTES: usize = 256 << 20;
/// Of trees that take more, there is one at a time in a run.
const LARGE_TREE_BYTES: usize = 4 << 20;
/// Of an object with a name in it: what comes first has room for eleven.
const OBJECT_BYTES: usize = 640;
/// Of a value, with what finding it takes.
const VALUE_BYTES: usize = 224;
/// So many looks at a value.
const MAX_LOOKS: f64 = 1e8;

/// Queries, each with the number of its column and whether all of its nodes are wanted, not only the first.
#[derive(Debug, Default)]
pub(super) struct Trees {
    pub(super) queries: Vec<(usize, Query, bool)>,
    large: Mutex<()>,
}

/// What a tree of a text takes at the most: how many values, and bytes.
fn size_of_tree(text: &str) -> (usize, usize) {
    let count = |what: fn(&u8) -> bool| text.as_bytes().iter().filter(|byte| what(byte)).count();
    let objects = count(|byte| *byte == b'{');
    let values = 1 + objects + count(|byte| matches!(byte, b',' | b'['));
    (values, text.len() + objects * OBJECT_BYTES + values * VALUE_BYTES)
}

impl Trees {
    /// How often values of a text of so many bytes are looked at, at the most.
    pub(super) fn looks(&self, bytes: usize) -> f64 {
        self.queries.iter().map(|(_, query, _)| (bytes as f64).powi(query.power)).sum()
    }

    /// What each query finds in a JSON text, with its number: the texts of its nodes.
    ///
    /// # Errors
    /// It is no JSON, or too large or nested too deeply to be looked into.
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
                let why = "the body has too many values for a path that looks at them again and again";
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

/// The texts of these nodes of a tree, in their order.
fn as_written<'t>(text: &'t str, tree: &Value, nodes: &[&Value]) -> serde_json::Result<Vec<&'t str>> {
    if nodes.is_empty() {
        return Ok(Vec::new());
    }
    let mut places = Places { texts: nodes.iter().map(|node| (from_ref(*node), "")).collect(), on_way: HashSet::new() };
    places.mark(tree);
    walk(text, tree, &mut places)?;
    Ok(nodes.iter().filter_map(|node| places.texts.get(&from_ref(*node)).copied()).collect())
}

/// Nodes that are wanted, known by where they lie, and their texts.
pub(super) struct Places<'t> {
    texts: HashMap<*const Value, &'t str>,
    /// Below these there are some.
    on_way: HashSet<*const Value>,
}

impl Places<'_> {
    /// Whether there are any here or below.
    fn mark(&mut self, node: &Value) -> bool {
        let mut is_on_way = false;
        match node {
            Value::Array(values) => values.iter().for_each(|value| is_on_way |= self.mark(value)),
            Value::Object(values) => values.values().for_each(|value| is_on_way |= self.mark(value)),
            _ => {}
        }
        if is_on_way {
            self.on_way.insert(from_ref(node));
        }
        is_on_way || self.texts.contains_key(&from_ref(node))
    }

    fn goes_to<'v>(&self, node: &'v Value) -> Option<&'v Value> {
        (self.on_way.contains(&from_ref(node)) || self.texts.contains_key(&from_ref(node))).then_some(node)
    }
}

/// A text is walked in step with the tree that was made of it. Of a name that is there twice, the node is of the last.
impl<'t> Place<'t> for &Value {
    type Found = Places<'t>;

    fn name(self, name: &str, places: &Places<'t>) -> Option<Self> {
        places.goes_to(self.get(name)?)
    }

    fn index(self, index: usize, places: &Places<'t>) -> Option<Self> {
        places.goes_to(self.get(index)?)
    }

    fn is_wanted(self, places: &Places<'t>) -> bool {
        places.texts.contains_key(&from_ref(self))
    }

    fn leads_on(self, places: &Places<'t>) -> bool {
        places.on_way.contains(&from_ref(self))
    }

    fn note(self, text: &'t str, places: &mut Places<'t>) {
        places.texts.insert(from_ref(self), text);
    }
}
