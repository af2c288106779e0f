//! The long way to values: the whole document as a tree, in which any `JSONPath` finds its nodes. A tree takes many times the memory
//! of its text, and some paths take more than linear time; both are bounded. Nodes are given as they were written: the text
//! is walked once more, in step with the tree.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ptr::from_ref;
use std::sync::{Mutex, PoisonError};

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::absent::Absent;
use super::path::Query;
use super::scalars::nothing_below_scalars;

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
    InStep { node: tree, places: &mut places }.deserialize(&mut serde_json::Deserializer::from_str(text))?;
    Ok(nodes.iter().filter_map(|node| places.texts.get(&from_ref(*node)).copied()).collect())
}

/// Nodes that are wanted, known by where they lie, and their texts.
struct Places<'t> {
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

    fn leads_on(&self, node: &Value) -> bool {
        self.on_way.contains(&from_ref(node)) || self.texts.contains_key(&from_ref(node))
    }
}

/// A text, and the node that was made of it. Of a name that is there twice, the node is of the last.
struct InStep<'v, 'p, 't> {
    node: &'v Value,
    places: &'p mut Places<'t>,
}

impl<'t> DeserializeSeed<'t> for InStep<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<(), D::Error> {
        let is_on_way = self.places.on_way.contains(&from_ref(self.node));
        let Some(text) = self.places.texts.get_mut(&from_ref(self.node)) else {
            return json.deserialize_any(self);
        };
        let raw: &RawValue = serde::Deserialize::deserialize(json)?;
        *text = raw.get();
        if !is_on_way {
            return Ok(());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'t> Visitor<'t> for InStep<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match self.node.get(&name).filter(|node| self.places.leads_on(node)) {
                Some(node) => map.next_value_seed(InStep { node, places: self.places })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut sequence: A) -> Result<(), A::Error> {
        for index in 0.. {
            let next = match self.node.get(index).filter(|node| self.places.leads_on(node)) {
                Some(node) => sequence.next_element_seed(InStep { node, places: self.places })?,
                None => sequence.next_element::<IgnoredAny>()?.map(drop),
            };
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    nothing_below_scalars!();
}
