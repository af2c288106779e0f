//! Finds values in one pass over a JSON text, as they were written, and parses nothing else. Of a repeated name, the last
//! one counts.
//!
//! If all steps to the values are known, this finds them without building anything ([`Wanted`]).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A node of a document that a walk over its text visits.
pub(super) trait Node<'t>: Copy {
    /// The result of the walk.
    type Found: ?Sized;

    /// Returns the node of a member of this object, if the walk should visit it.
    fn name(self, name: &str, found: &Self::Found) -> Option<Self>;

    /// Returns the node of an item of this array, if the walk should visit it.
    fn index(self, index: usize, found: &Self::Found) -> Option<Self>;

    /// Returns whether the text of this node is wanted.
    fn is_wanted(self, found: &Self::Found) -> bool;

    /// Returns whether nodes below this one are wanted.
    fn leads_on(self, found: &Self::Found) -> bool;

    fn note(self, text: &'t str, found: &mut Self::Found);

    /// Discards the results of this node and of those below it, since its name has occurred before.
    fn forget(self, _found: &mut Self::Found) {}
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PathStep {
    Name(Box<str>),
    Index(usize),
}

/// The wanted values, as a tree of their paths.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The numbers of the paths that end here.
    here: Vec<usize>,
    below: Vec<(PathStep, Wanted)>,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.below.is_empty()
    }

    /// Adds a path under this number.
    pub(super) fn add(&mut self, steps: &[PathStep], number: usize) {
        let Some((first, rest)) = steps.split_first() else {
            self.here.push(number);
            return;
        };
        let at = self.below.iter().position(|(step, _)| step == first).unwrap_or_else(|| {
            self.below.push((first.clone(), Self::default()));
            self.below.len() - 1
        });
        self.below[at].1.add(rest, number);
    }
}

impl<'t> Node<'t> for &Wanted {
    type Found = [Option<&'t str>];

    fn name(self, name: &str, _: &Self::Found) -> Option<Self> {
        self.below
            .iter()
            .find(|(step, _)| matches!(step, PathStep::Name(wanted) if **wanted == *name))
            .map(|(_, below)| below)
    }

    fn index(self, index: usize, _: &Self::Found) -> Option<Self> {
        self.below.iter().find(|(step, _)| *step == PathStep::Index(index)).map(|(_, below)| below)
    }

    fn is_wanted(self, _: &Self::Found) -> bool {
        !self.here.is_empty()
    }

    fn leads_on(self, _: &Self::Found) -> bool {
        !self.below.is_empty()
    }

    fn note(self, text: &'t str, found: &mut Self::Found) {
        self.here.iter().for_each(|number| found[*number] = Some(text));
    }

    fn forget(self, found: &mut Self::Found) {
        self.here.iter().for_each(|number| found[*number] = None);
        self.below.iter().for_each(|(_, below)| below.forget(found));
    }
}

/// Finds the wanted values in a text, whose root is this node.
///
/// # Errors
/// The text is not JSON.
pub(super) fn walk<'t, P: Node<'t>>(text: &'t str, node: P, found: &mut P::Found) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    Walk { node, found }.deserialize(&mut json)?;
    json.end()
}

struct Walk<'f, P, F: ?Sized> {
    node: P,
    found: &'f mut F,
}

impl<'t, P: Node<'t>> DeserializeSeed<'t> for Walk<'_, P, P::Found> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<(), D::Error> {
        if !self.node.is_wanted(self.found) {
            return json.deserialize_any(self);
        }
        let raw: &RawValue = serde::Deserialize::deserialize(json)?;
        self.node.note(raw.get(), self.found);
        if !self.node.leads_on(self.found) {
            return Ok(());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'t, P: Node<'t>> Visitor<'t> for Walk<'_, P, P::Found> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(below) = map.next_key_seed(MemberNode { node: self.node, found: &*self.found })? {
            match below {
                Some(node) => {
                    node.forget(self.found);
                    map.next_value_seed(Walk { node, found: self.found })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut sequence: A) -> Result<(), A::Error> {
        for index in 0.. {
            let next = match self.node.index(index, self.found) {
                Some(node) => sequence.next_element_seed(Walk { node, found: self.found })?,
                None => sequence.next_element::<IgnoredAny>()?.map(drop),
            };
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    // These have no members.
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// The node of a member's name.
struct MemberNode<'f, P, F: ?Sized> {
    node: P,
    found: &'f F,
}

impl<'t, P: Node<'t>> DeserializeSeed<'t> for MemberNode<'_, P, P::Found> {
    type Value = Option<P>;

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'t, P: Node<'t>> Visitor<'t> for MemberNode<'_, P, P::Found> {
    type Value = Option<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.node.name(name, self.found))
    }
}
