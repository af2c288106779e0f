//! Columns that are made of answers: values of JSON bodies, by `JSONPath` (RFC 9535), and headers.
//!
//! What is asked is understood once ([`Selection::new`]). Most paths name each step on the way to one value: these are found in one
//! pass over the text ([`walk`]) that builds nothing. Others need the document as a tree ([`tree`]). Either way a value is what
//! the server wrote, digit by digit, until it becomes a value of its column's type ([`convert`]).

mod absent;
mod convert;
mod path;
mod room;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use arrow_schema::{Field, Fields};
use http::HeaderName;

use self::absent::Absent;
use self::convert::SelectedType;
use self::path::Path;
pub use self::room::{Room, Short};
use self::tree::{TreeError, Trees};
use self::walk::{Wanted, walk};
use crate::message;
use crate::model::error::{ErrorKind, Failure, JobError};
use crate::model::headers::HeadersRef;
use crate::model::message::OptionName;
use crate::model::options::AnswerOptions;
use crate::model::reason::Reason;
use crate::model::selected::{Selected, SelectedValue};

/// The values of one answer, of its headers, too, are no longer than this together, or than its body.
const MAX_SELECTED_BYTES: usize = 16 << 20;
/// A worker looks into a body of so many bytes itself, where one pass finds all values, and where a tree is needed, which may be
/// looked at so often.
const AT_ONCE_BYTES: usize = 256 << 10;
const AT_ONCE_TREE_BYTES: usize = 16 << 10;
const AT_ONCE_LOOKS: f64 = 2e5;
/// Why there are no values of a body that is empty, or not there.
pub const NO_BODY: &str = "there is no body";
/// Some servers write it before JSON; RFC 8259 lets us ignore it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

type Value = Result<SelectedValue, Absent>;

/// What is taken from answers.
#[derive(Debug)]
pub struct Selection {
    columns: Vec<Column>,
    quick: Wanted,
    trees: Trees,
    /// Columns of headers, with their names.
    headers: Vec<(usize, HeaderName)>,
    /// Those that must have a value.
    required: Vec<usize>,
    /// The one that says what a row has cost.
    cost: Option<usize>,
}

#[derive(Debug)]
struct Column {
    name: String,
    is_of: SelectedType,
    is_header: bool,
}

impl Selection {
    /// `None`: nothing is selected.
    ///
    /// # Errors
    /// `Usage`: a selection that can't be, naming it.
    pub fn new(options: &AnswerOptions) -> Result<Option<Self>, JobError> {
        let mut selection = Self {
            columns: Vec::new(),
            quick: Wanted::default(),
            trees: Trees::default(),
            headers: Vec::new(),
            required: Vec::new(),
            cost: None,
        };
        for text in &options.select {
            selection
                .add(text)
                .map_err(|trouble| JobError::usage(message!(OptionName::Select, ": {text:?}: {trouble}")))?;
        }
        for name in &options.require {
            let index = selection.index(name, OptionName::Require)?;
            selection.required.push(index);
        }
        if let Some(name) = &options.cost_from {
            let index = selection.index(name, OptionName::CostFrom)?;
            let is_of = selection.columns[index].is_of;
            let type_name = is_of.name();
            if !matches!(is_of, SelectedType::Int64 | SelectedType::Float64) {
                return Err(JobError::usage(message!(
                    OptionName::CostFrom,
                    ": {name:?} is a {type_name}, and a cost is a number: select it as {name}:int64 or {name}:float64"
                )));
            }
            selection.cost = Some(index);
        }
        Ok((!selection.columns.is_empty()).then_some(selection))
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        const SHAPE: &str = "a selection is name=$.path or name=header:name, and name:type=... gives a type";
        let (name, source) = text.split_once('=').ok_or(SHAPE)?;
        let (name, is_of) = match name.rsplit_once(':') {
            None => (name, SelectedType::String),
            Some((name, as_type)) => {
                let known = SelectedType::ALL.into_iter().find(|known| known.name() == as_type);
                let unknown = || {
                    let names = SelectedType::ALL.map(SelectedType::name).join(", ");
                    format!("there is no type {as_type:?}; the types are {names}")
                };
                (name, known.ok_or_else(unknown)?)
            }
        };
        if name.is_empty() {
            return Err(SHAPE.into());
        }
        let number = self.columns.len();
        let header = source.strip_prefix("header:");
        if let Some(header) = header {
            let header = header.parse().map_err(|_| format!("{header:?} is not the name of a header"))?;
            self.headers.push((number, header));
        } else if source.starts_with('$') {
            match Path::parse(source)? {
                Path::Quick(steps) => self.quick.add(&steps, number),
                Path::Long(query) => {
                    let wants_all = query.is_plural && is_of == SelectedType::Json;
                    self.trees.queries.push((number, query, wants_all));
                }
            }
        } else {
            return Err(format!("{source:?} is neither a JSONPath, which begins with $, nor header:name"));
        }
        self.columns.push(Column { name: name.to_owned(), is_of, is_header: header.is_some() });
        Ok(())
    }

    fn index(&self, name: &str, option: OptionName) -> Result<usize, JobError> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|column| &column.name[..]).collect();
            let trouble = match names.join(", ") {
                none if none.is_empty() => message!("no columns are selected: see ", OptionName::Select),
                names => message!("the selected columns are {names}"),
            };
            JobError::usage(message!(option, ": there is no selected column {name:?}; ", trouble))
        })
    }

    pub fn fields(&self) -> Fields {
        self.columns.iter().map(|column| Field::new(&column.name, column.is_of.data_type(), true)).collect()
    }

    /// Whether bodies are looked into.
    pub fn asks_for_bodies(&self) -> bool {
        !self.quick.is_empty() || !self.trees.queries.is_empty()
    }

    /// Whether looking into a body of so many bytes is little work.
    pub fn takes_little(&self, body_bytes: usize) -> bool {
        if self.trees.queries.is_empty() {
            return body_bytes <= AT_ONCE_BYTES || !self.asks_for_bodies();
        }
        let has_expressions = self.trees.queries.iter().any(|(_, query, _)| query.has_expressions);
        body_bytes <= AT_ONCE_TREE_BYTES && !has_expressions && self.trees.looks(body_bytes) <= AT_ONCE_LOOKS
    }

    /// What an answer has of it. `body`: decoded and whole, or why there is no such body.
    ///
    /// # Errors
    /// The room is short now.
    pub fn take_from(
        &self,
        headers: HeadersRef<'_>,
        body: Result<&[u8], &'static str>,
        room: Room<'_>,
    ) -> Result<Selected, Short> {
        let mut values: Vec<Value> = self.columns.iter().map(|_| Err(Absent::NotThere)).collect();
        let mut room = room.of(body.map_or(0, <[u8]>::len).max(MAX_SELECTED_BYTES));
        for (number, name) in &self.headers {
            if let Some(text) = text_of(headers, name.as_str()) {
                values[*number] = within(&mut room, text.len(), || self.columns[*number].is_of.of_text(&text));
            }
        }
        if self.asks_for_bodies()
            && let Err(absent) = self.look_into(body, &mut room, &mut values)
        {
            let of_body = self.columns.iter().zip(&mut values).filter(|(column, _)| !column.is_header);
            of_body.for_each(|(_, value)| *value = Err(absent.clone()));
        }
        room.ended()?;
        let failure = self.required.iter().find_map(|number| {
            let absent = values[*number].as_ref().err()?;
            let reason = Reason::new(format!("{:?} is missing", self.columns[*number].name)).with(absent.to_string());
            Some(Failure::new(ErrorKind::UnexpectedAnswer, reason))
        });
        let values = values.into_iter().map(|value| value.unwrap_or(SelectedValue::Null)).collect();
        Ok(Selected { values, failure })
    }

    fn look_into(
        &self,
        body: Result<&[u8], &'static str>,
        room: &mut Room<'_>,
        values: &mut [Value],
    ) -> Result<(), Absent> {
        let body =
            body.and_then(|body| if body.is_empty() { Err(NO_BODY) } else { Ok(body) }).map_err(Absent::NoBody)?;
        let text = str::from_utf8(body).map_err(|error| Absent::NotJson(error.valid_up_to()))?;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        let not_json = |error: &serde_json::Error| not_json(body, text, error);
        if !self.quick.is_empty() {
            let mut found = vec![None; self.columns.len()];
            walk(text, &self.quick, &mut found[..]).map_err(|error| not_json(&error))?;
            for (number, raw) in found.into_iter().enumerate() {
                if let Some(raw) = raw {
                    values[number] = within(room, raw.len(), || self.columns[number].is_of.of_json(raw));
                }
            }
        }
        if self.trees.queries.is_empty() {
            return Ok(());
        }
        let found = self.trees.find(text, |number, nodes| {
            let wants_all = self.trees.queries.iter().any(|(other, _, wants_all)| *other == number && *wants_all);
            values[number] = nodes.and_then(|nodes| match nodes[..] {
                [] => Err(Absent::NotThere),
                [first, ..] if !wants_all => within(room, first.len(), || self.columns[number].is_of.of_json(first)),
                _ => {
                    let length = nodes.iter().map(|node| node.len() + 1).sum::<usize>() + 1;
                    within(room, length, || Ok(SelectedValue::Text(format!("[{}]", nodes.join(",")).into())))
                }
            });
        });
        if let Err(error) = found {
            let absent = match error {
                TreeError::Absent(absent) => absent,
                TreeError::Json(error) => not_json(&error),
            };
            // What was found without a tree stays.
            self.trees.queries.iter().for_each(|(number, ..)| values[*number] = Err(absent.clone()));
        }
        Ok(())
    }

    /// What a row has cost in the end, if its answer says so.
    pub fn cost(&self, selected: &Selected) -> Option<u64> {
        match selected.values.get(self.cost?)? {
            SelectedValue::Int64(cost) => u64::try_from(*cost).ok(),
            SelectedValue::Float64(cost) if *cost >= 0.0 => Some(cost.ceil() as u64),
            _ => None,
        }
    }
}

/// A value of so many bytes at the most, if there is room for it.
fn within(room: &mut Room<'_>, bytes: usize, value: impl FnOnce() -> Value) -> Value {
    room.take(bytes)?;
    value()
}

/// The values of all headers of a name, as one text; what is not UTF-8 is read as Latin-1.
fn text_of(headers: HeadersRef<'_>, name: &str) -> Option<String> {
    let mut text: Option<String> = None;
    headers.for_each(|other, value| {
        if !other.eq_ignore_ascii_case(name) {
            return;
        }
        let text = match &mut text {
            Some(text) => {
                text.push_str(", ");
                text
            }
            None => text.insert(String::new()),
        };
        match str::from_utf8(value) {
            Ok(value) => text.push_str(value),
            Err(_) => text.extend(value.iter().copied().map(char::from)),
        }
    });
    text
}

/// Where in a body its text is no JSON.
fn not_json(body: &[u8], text: &str, error: &serde_json::Error) -> Absent {
    if error.to_string().starts_with("recursion limit exceeded") {
        return Absent::TooLarge("the body is nested too deeply");
    }
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    Absent::NotJson((body.len() - text.len() + before).min(body.len()))
}
