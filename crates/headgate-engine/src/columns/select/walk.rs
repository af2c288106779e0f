//! The quick way to values whose places are known: one pass over the text finds all of them, and looks at nothing else. Values
//! are found as they were written. Of a name that is there twice, the last counts.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::scalars::nothing_below_scalars;

/// A step on the way to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Name(Box<str>),
    Index(usize),
}

/// The values that are wanted, as a tree of the ways to them.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// The numbers of those that are here.
    here: Vec<usize>,
    below: Vec<(Step, Wanted)>,
}

impl Wanted {
    pub(super) fn is_empty(&self) -> bool {
        self.here.is_empty() && self.below.is_empty()
    }

    /// Wants what these steps lead to, under this number.
    pub(super) fn add(&mut self, steps: &[Step], number: usize) {
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

    fn name(&self, name: &str) -> Option<&Self> {
        self.below
            .iter()
            .find(|(step, _)| matches!(step, Step::Name(wanted) if **wanted == *name))
            .map(|(_, below)| below)
    }

    fn index(&self, index: usize) -> Option<&Self> {
        self.below.iter().find(|(step, _)| *step == Step::Index(index)).map(|(_, below)| below)
    }

    fn forget(&self, found: &mut [Option<&str>]) {
        self.here.iter().for_each(|number| found[*number] = None);
        self.below.iter().for_each(|(_, below)| below.forget(found));
    }
}

/// Finds what is wanted in a JSON text; `found` has a place for each number.
///
/// # Errors
/// It is no JSON.
pub(super) fn walk<'t>(text: &'t str, wanted: &Wanted, found: &mut [Option<&'t str>]) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    Walk { wanted, found }.deserialize(&mut json)?;
    json.end()
}

struct Walk<'w, 'f, 't> {
    wanted: &'w Wanted,
    found: &'f mut [Option<&'t str>],
}

impl<'t> DeserializeSeed<'t> for Walk<'_, '_, 't> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<(), D::Error> {
        if self.wanted.here.is_empty() {
            return json.deserialize_any(self);
        }
        let raw: &RawValue = serde::Deserialize::deserialize(json)?;
        for number in &self.wanted.here {
            self.found[*number] = Some(raw.get());
        }
        if self.wanted.below.is_empty() {
            return Ok(());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'t> Visitor<'t> for Walk<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(below) = map.next_key_seed(Name(self.wanted))? {
            match below {
                Some(wanted) => {
                    wanted.forget(self.found);
                    map.next_value_seed(Walk { wanted, found: self.found })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut sequence: A) -> Result<(), A::Error> {
        for index in 0.. {
            let next = match self.wanted.index(index) {
                Some(wanted) => sequence.next_element_seed(Walk { wanted, found: self.found })?,
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

/// What is wanted below a name.
struct Name<'w>(&'w Wanted);

impl<'w, 't> DeserializeSeed<'t> for Name<'w> {
    type Value = Option<&'w Wanted>;

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'w> Visitor<'_> for Name<'w> {
    type Value = Option<&'w Wanted>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.name(name))
    }
}
