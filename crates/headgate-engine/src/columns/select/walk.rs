//! One pass over a JSON text that finds values as they were written, and looks at nothing else. Of a name that is there twice,
//! the last counts.
//!
//! Where all places on the way to values are known, this finds them without building anything ([`Wanted`]).

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A place in a document that a walk over its text comes to.
pub(super) trait Place<'t>: Copy {
    /// What is found.
    type Found: ?Sized;

    /// The place of a value below this one, if the walk goes there.
    fn name(self, name: &str, found: &Self::Found) -> Option<Self>;

    /// As [`Place::name`], of an item of an array.
    fn index(self, index: usize, found: &Self::Found) -> Option<Self>;

    /// Whether the text of the value here is to be found.
    fn is_wanted(self, found: &Self::Found) -> bool;

    /// Whether there are such values below.
    fn leads_on(self, found: &Self::Found) -> bool;

    fn note(self, text: &'t str, found: &mut Self::Found);

    /// Forgets what was found here and below: the name has come before.
    fn forget(self, _found: &mut Self::Found) {}
}

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
}

impl<'t> Place<'t> for &Wanted {
    type Found = [Option<&'t str>];

    fn name(self, name: &str, _: &Self::Found) -> Option<Self> {
        self.below
            .iter()
            .find(|(step, _)| matches!(step, Step::Name(wanted) if **wanted == *name))
            .map(|(_, below)| below)
    }

    fn index(self, index: usize, _: &Self::Found) -> Option<Self> {
        self.below.iter().find(|(step, _)| *step == Step::Index(index)).map(|(_, below)| below)
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

/// Finds what is wanted from this place on, which is that of the whole text.
///
/// # Errors
/// It is no JSON.
pub(super) fn walk<'t, P: Place<'t>>(text: &'t str, place: P, found: &mut P::Found) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    Walk { place, found }.deserialize(&mut json)?;
    json.end()
}

struct Walk<'f, P, F: ?Sized> {
    place: P,
    found: &'f mut F,
}

impl<'t, P: Place<'t>> DeserializeSeed<'t> for Walk<'_, P, P::Found> {
    type Value = ();

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<(), D::Error> {
        if !self.place.is_wanted(self.found) {
            return json.deserialize_any(self);
        }
        let raw: &RawValue = serde::Deserialize::deserialize(json)?;
        self.place.note(raw.get(), self.found);
        if !self.place.leads_on(self.found) {
            return Ok(());
        }
        serde_json::Deserializer::from_str(raw.get()).deserialize_any(self).map_err(D::Error::custom)
    }
}

impl<'t, P: Place<'t>> Visitor<'t> for Walk<'_, P, P::Found> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(below) = map.next_key_seed(Name { place: self.place, found: &*self.found })? {
            match below {
                Some(place) => {
                    place.forget(self.found);
                    map.next_value_seed(Walk { place, found: self.found })?;
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'t>>(self, mut sequence: A) -> Result<(), A::Error> {
        for index in 0.. {
            let next = match self.place.index(index, self.found) {
                Some(place) => sequence.next_element_seed(Walk { place, found: self.found })?,
                None => sequence.next_element::<IgnoredAny>()?.map(drop),
            };
            if next.is_none() {
                break;
            }
        }
        Ok(())
    }

    // Below these there is nothing.
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

/// The place that a name leads to.
struct Name<'f, P, F: ?Sized> {
    place: P,
    found: &'f F,
}

impl<'t, P: Place<'t>> DeserializeSeed<'t> for Name<'_, P, P::Found> {
    type Value = Option<P>;

    fn deserialize<D: Deserializer<'t>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'t, P: Place<'t>> Visitor<'t> for Name<'_, P, P::Found> {
    type Value = Option<P>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.place.name(name, self.found))
    }
}
