//! One pass over an object: of the names that are looked for their values, and of all others what they are together.

use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What objects have beyond the columns to keep.
pub(super) struct Rest {
    /// For each name that is looked for, whether the result has its column.
    pub(super) is_kept: Vec<bool>,
    /// What the directories of the file say beyond them.
    pub(super) said: Vec<(String, Option<Box<RawValue>>)>,
}

/// Of an object's values those with one of the names, nulls left out; where a name is repeated the last one counts. And those
/// that stand in the rest, as they are written.
pub(super) struct Object<'a> {
    pub(super) names: &'a [String],
    pub(super) rest: Option<&'a Rest>,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = (Vec<Option<&'de RawValue>>, Members);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.names.len()];
        let mut members = Members::default();
        let mut next = 0;
        while let Some(found) = map.next_key_seed(Name { names: self.names, next, has_rest: self.rest.is_some() })? {
            match (found, self.rest) {
                (Found::Used(index), rest) => {
                    next = index + 1;
                    let value = map.next_value::<&RawValue>()?;
                    values[index] = Some(value).filter(|json| json.get() != "null");
                    if rest.is_some_and(|rest| !rest.is_kept[index]) {
                        members.add(&self.names[index], value);
                    }
                }
                (Found::Rest(name), Some(_)) => members.add(&name, map.next_value()?),
                (Found::Rest(_), None) => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        for (name, value) in self.rest.iter().flat_map(|rest| &rest.said) {
            members.add(name, value.as_deref().unwrap_or(RawValue::NULL));
        }
        Ok((values, members))
    }
}

/// Those of an object, as text.
#[derive(Default)]
pub(super) struct Members(String);

impl Members {
    fn add(&mut self, name: &str, value: &RawValue) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&serde_json::Value::from(name).to_string());
        self.0.push(':');
        self.0.push_str(value.get());
    }

    /// `None`: there are none.
    pub(super) fn into_text(mut self) -> Option<String> {
        (!self.0.is_empty()).then(|| {
            self.0.push('}');
            self.0
        })
    }
}

/// Of a name in an object.
enum Found {
    /// Its index among the names that are looked for.
    Used(usize),
    /// One of the rest; empty if there is none.
    Rest(String),
}

/// Finds a key among the names, without a copy of the key unless it belongs to the rest.
struct Name<'a> {
    names: &'a [String],
    /// Where it is likely to be found, as most lines have one order.
    next: usize,
    has_rest: bool,
}

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        let is_next = self.names.get(self.next).is_some_and(|name| name == key);
        let index = if is_next { Some(self.next) } else { self.names.iter().position(|name| name == key) };
        let rest = || Found::Rest(if self.has_rest { key.to_owned() } else { String::new() });
        Ok(index.map_or_else(rest, Found::Used))
    }
}
