//! The members of JSON objects, in one pass over the text of an object.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use serde_json::value::RawValue;

/// Calls `each` with the name and the value of each member, in their order and with their repeats.
///
/// # Errors
/// The text is not JSON, or not an object. `each` may have been called for some of the members by then.
pub(super) fn members<'t>(text: &'t str, each: impl FnMut(Cow<'t, str>, &'t RawValue)) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(Each(each))?;
    json.end()
}

struct Each<F>(F);

/// A name, copied only if it has escapes.
#[derive(Deserialize)]
struct MemberName<'t>(#[serde(borrow)] Cow<'t, str>);

impl<'t, F: FnMut(Cow<'t, str>, &'t RawValue)> Visitor<'t> for Each<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((MemberName(name), value)) = map.next_entry()? {
            (self.0)(name, value);
        }
        Ok(())
    }
}

/// The members that are not among the columns to keep.
pub(super) struct OtherMembers {
    /// For each name that is looked for, whether the result has its column.
    pub(super) is_kept: Vec<bool>,
    /// Further columns, from the file's directories.
    pub(super) from_directories: Vec<(String, Option<Box<RawValue>>)>,
}

/// The members of an object, as text.
#[derive(Default)]
struct ObjectMembers(String);

impl ObjectMembers {
    fn add(&mut self, name: &str, value: &RawValue) {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        self.0.push_str(&serde_json::Value::from(name).to_string());
        self.0.push(':');
        self.0.push_str(value.get());
    }
}

/// The values that were found, and the object of the others.
type FoundValues<'t> = (Vec<Option<&'t RawValue>>, Option<String>);

/// Finds the values that have one of the names, without nulls; of repeated names the last one counts. With `rest`, also
/// returns an object of the other members, as written, or `None` if there are none.
///
/// # Errors
/// As [`members`].
pub(super) fn find<'t>(
    text: &'t str,
    names: &[String],
    rest: Option<&OtherMembers>,
) -> serde_json::Result<FoundValues<'t>> {
    let mut values = vec![None; names.len()];
    let mut others = ObjectMembers::default();
    // The likely index of the next name, as most lines have one order.
    let mut next = 0;
    members(text, |name, value| {
        let is_next = names.get(next).is_some_and(|each| *each == name);
        let index = if is_next { Some(next) } else { names.iter().position(|each| *each == name) };
        if let Some(index) = index {
            next = index + 1;
            values[index] = Some(value).filter(|json| json.get() != "null");
        }
        if rest.is_some_and(|rest| index.is_none_or(|index| !rest.is_kept[index])) {
            others.add(&name, value);
        }
    })?;
    for (name, value) in rest.iter().flat_map(|rest| &rest.from_directories) {
        others.add(name, value.as_deref().unwrap_or(RawValue::NULL));
    }
    Ok((values, (!others.0.is_empty()).then(|| others.0 + "}")))
}
