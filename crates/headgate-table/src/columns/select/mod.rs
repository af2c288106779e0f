//! Columns that are selected from responses: values of JSON bodies, by `JSONPath` (RFC 9535), and headers.
//!
//! A selection is parsed once ([`Selection::new`]). Most paths name each step to a single value: these are found in one
//! pass over the text ([`walk`]), which builds nothing. Others need the document as a tree ([`tree`]). In both cases a
//! value stays what the server wrote, digit by digit, until it is converted to its column's type ([`convert`]).

mod absent;
mod convert;
mod memory;
mod path;
#[cfg(test)]
mod tests;
mod tree;
mod walk;

use arrow_schema::{Field, Fields};
use headgate_core::error::{ErrorKind, Failure};
use headgate_core::headers::HeadersRef;
use headgate_core::message;
use headgate_core::message::OptionName;
use headgate_core::option_rules::Mistake;
use headgate_core::options::SelectionOptions;
use headgate_core::reason::Reason;
use headgate_core::selected::{SelectValues, SelectedValue, SelectedValues, Short};
use http::HeaderName;

use self::absent::Absent;
use self::convert::SelectedType;
use self::memory::ValueMemory;
use self::path::Path;
use self::tree::{TreeError, Trees};
use self::walk::{Wanted, walk};

/// The maximum length of all values of a response, or the length of its body if that is longer.
const MAX_SELECTED_BYTES: usize = 16 << 20;
/// A worker itself searches bodies up to these sizes: the first if one pass finds all values, the second, divided by the
/// number of visits, if a tree is needed.
const AT_ONCE_BYTES: usize = 256 << 10;
const AT_ONCE_TREE_BYTES: usize = 16 << 10;
const AT_ONCE_LOOKS: f64 = 2e5;
/// The reason if the body is empty or missing.
pub const NO_BODY: &str = "there is no body";
/// The mark that some servers write before JSON; RFC 8259 allows parsers to ignore it.
const BYTE_ORDER_MARK: &str = "\u{feff}";

type Value = Result<SelectedValue, Absent>;

/// The values to select from responses.
#[derive(Debug)]
pub struct Selection {
    columns: Vec<WantedColumn>,
    quick: Wanted,
    trees: Trees,
    /// Columns of headers, with the names of the headers.
    headers: Vec<(usize, HeaderName)>,
    /// Columns that must have a value.
    required: Vec<usize>,
    /// The column with the cost of a row.
    cost: Option<usize>,
}

#[derive(Debug)]
struct WantedColumn {
    name: String,
    /// As the user has written it.
    text: String,
    is_of: SelectedType,
    is_header: bool,
}

impl Selection {
    /// Returns `None` if nothing is selected.
    ///
    /// # Errors
    /// All mistakes, each with its option.
    pub fn new(options: &SelectionOptions) -> Result<Option<Self>, Vec<Mistake>> {
        let mut selection = Self {
            columns: Vec::new(),
            quick: Wanted::default(),
            trees: Trees::default(),
            headers: Vec::new(),
            required: Vec::new(),
            cost: None,
        };
        let mut mistakes = Vec::new();
        for text in &options.extract {
            if let Err(reason) = selection.add(text) {
                mistakes.push(Mistake { option: OptionName::Extract, message: message!("{text:?}: {reason}") });
            }
        }
        if !mistakes.is_empty() {
            // Other options may name the columns that are missing.
            return Err(mistakes);
        }
        for name in &options.require {
            match selection.index(name, OptionName::Require) {
                Ok(index) => selection.required.push(index),
                Err(mistake) => mistakes.push(mistake),
            }
        }
        match options.cost_from_response.as_deref().map(|name| selection.cost_index(name)).transpose() {
            Ok(cost) => selection.cost = cost,
            Err(mistake) => mistakes.push(mistake),
        }
        if mistakes.is_empty() { Ok((!selection.columns.is_empty()).then_some(selection)) } else { Err(mistakes) }
    }

    fn add(&mut self, text: &str) -> Result<(), String> {
        const SHAPE: &str = "write name=$.path or name=header:name; name:type=... gives a type";
        let (name, source) = text.split_once('=').ok_or(SHAPE)?;
        let (name, is_of) = match name.rsplit_once(':') {
            None => (name, SelectedType::String),
            Some((name, as_type)) => (name, SelectedType::parse(as_type)?),
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
                Path::Tree(query) => {
                    let wants_all = query.is_plural && is_of == SelectedType::Json;
                    self.trees.queries.push((number, query, wants_all));
                }
            }
        } else {
            return Err(format!("{source:?} is neither a JSONPath, which begins with $, nor header:name"));
        }
        let (name, text) = (name.to_owned(), text.to_owned());
        self.columns.push(WantedColumn { name, text, is_of, is_header: header.is_some() });
        Ok(())
    }

    /// Returns the column with the cost of a row.
    fn cost_index(&self, name: &str) -> Result<usize, Mistake> {
        let option = OptionName::CostFromResponse;
        let index = self.index(name, option)?;
        let is_of = self.columns[index].is_of;
        if is_of.is_number() {
            return Ok(index);
        }
        let message = message!(
            "names {name:?}, which is a {is_of}, and a cost is a number: select it as {name}:int64 or {name}:float64"
        );
        Err(Mistake { option, message })
    }

    fn index(&self, name: &str, option: OptionName) -> Result<usize, Mistake> {
        self.columns.iter().position(|column| column.name == name).ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|column| &column.name[..]).collect();
            let reason = match names.join(", ") {
                none if none.is_empty() => message!("no columns are extracted, see ", OptionName::Extract),
                names => message!("the extracted columns are {names}"),
            };
            Mistake { option, message: message!("names {name:?}, which is not an extracted column: ", reason) }
        })
    }

    pub fn fields(&self) -> Fields {
        self.columns.iter().map(|column| Field::new(&column.name, column.is_of.data_type(), true)).collect()
    }

    /// Returns what the user has written for each column, and whether it is of a header.
    pub fn sources(&self) -> impl Iterator<Item = (&str, bool)> {
        self.columns.iter().map(|column| (&*column.text, column.is_header))
    }

    /// Returns whether values of bodies are selected.
    pub fn reads_bodies(&self) -> bool {
        !self.quick.is_empty() || !self.trees.queries.is_empty()
    }

    fn search_body(
        &self,
        body: Result<&[u8], &'static str>,
        memory: &mut ValueMemory<'_>,
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
                    values[number] = within(memory, raw.len(), || self.columns[number].is_of.of_json(raw));
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
                [first, ..] if !wants_all => within(memory, first.len(), || self.columns[number].is_of.of_json(first)),
                _ => {
                    let length = nodes.iter().map(|node| node.len() + 1).sum::<usize>() + 1;
                    within(memory, length, || Ok(SelectedValue::Text(format!("[{}]", nodes.join(",")).into())))
                }
            });
        });
        if let Err(error) = found {
            let absent = match error {
                TreeError::Absent(absent) => absent,
                TreeError::Json(error) => not_json(&error),
            };
            // Values that were found without a tree are kept.
            self.trees.queries.iter().for_each(|(number, ..)| values[*number] = Err(absent.clone()));
        }
        Ok(())
    }
}

impl SelectValues for Selection {
    fn select_from(
        &self,
        headers: HeadersRef<'_>,
        body: Result<&[u8], &'static str>,
        reserved: usize,
        reserve_more: &mut dyn FnMut(usize) -> bool,
    ) -> Result<SelectedValues, Short> {
        let mut values: Vec<Value> = self.columns.iter().map(|_| Err(Absent::NotThere)).collect();
        let max = body.map_or(0, <[u8]>::len).max(MAX_SELECTED_BYTES);
        let mut memory = ValueMemory::new(max, reserved, reserve_more);
        for (number, name) in &self.headers {
            if let Some(text) = text_of(headers, name.as_str()) {
                values[*number] = within(&mut memory, text.len(), || self.columns[*number].is_of.of_text(&text));
            }
        }
        if self.reads_bodies()
            && let Err(absent) = self.search_body(body, &mut memory, &mut values)
        {
            let of_body = self.columns.iter().zip(&mut values).filter(|(column, _)| !column.is_header);
            of_body.for_each(|(_, value)| *value = Err(absent.clone()));
        }
        memory.finish()?;
        let failure = self.required.iter().find_map(|number| {
            let absent = values[*number].as_ref().err()?;
            let reason = Reason::new(format!("{:?} is missing", self.columns[*number].name)).with(absent.to_string());
            Some(Failure::new(ErrorKind::UnexpectedResponse, reason))
        });
        let values = values.into_iter().map(|value| value.unwrap_or(SelectedValue::Null)).collect();
        Ok(SelectedValues { values, failure })
    }

    fn is_quick(&self, body_bytes: usize) -> bool {
        if self.trees.queries.is_empty() {
            return body_bytes <= AT_ONCE_BYTES || !self.reads_bodies();
        }
        let has_expressions = self.trees.queries.iter().any(|(_, query, _)| query.has_expressions);
        body_bytes <= AT_ONCE_TREE_BYTES && !has_expressions && self.trees.max_visits(body_bytes) <= AT_ONCE_LOOKS
    }

    fn cost(&self, selected: &SelectedValues) -> Option<u64> {
        let index = self.cost?;
        match selected.values.get(index)? {
            SelectedValue::Int64(cost) => u64::try_from(*cost).ok(),
            SelectedValue::Float64(cost) if *cost >= 0.0 => Some(cost.ceil() as u64),
            SelectedValue::Decimal(cost) => {
                let SelectedType::Decimal { scale, .. } = self.columns[index].is_of else { return None };
                let one = 10_u128.pow(scale.unsigned_abs().into());
                Some(u128::try_from(*cost).ok()?.div_ceil(one).try_into().unwrap_or(u64::MAX))
            }
            _ => None,
        }
    }
}

/// Returns a value of at most `bytes` bytes, if there is memory for it.
fn within(memory: &mut ValueMemory<'_>, bytes: usize, value: impl FnOnce() -> Value) -> Value {
    memory.reserve(bytes)?;
    value()
}

/// Returns the values of all headers of a name, as one text; bytes that are not UTF-8 are read as Latin-1.
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

/// Returns the reason why the text of a body can't be parsed, such as the position where it stops being JSON.
fn not_json(body: &[u8], text: &str, error: &serde_json::Error) -> Absent {
    if error.to_string().starts_with("recursion limit exceeded") {
        return Absent::TooLarge("the body is nested too deeply");
    }
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum::<usize>() + error.column().saturating_sub(1);
    Absent::NotJson((body.len() - text.len() + before).min(body.len()))
}
