//! Headers as a JSON object: `{"Accept": "text/html", "Cookie": ["a=1", "b=2"]}`.

use std::borrow::Cow;

use headgate_core::reason::{Reason, shown};
use headgate_core::row::RowHeaders;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::cells::not_utf8;
use super::json_object::members;

/// Returns the headers in the order of the text. The items of a list are repeated headers, null is absent, numbers and
/// booleans are their text as written. An empty text has no headers.
///
/// # Errors
/// What is wrong, for the message of a row's defect.
pub(super) fn parse(text: &[u8]) -> Result<RowHeaders, Reason> {
    if text.is_empty() {
        return Ok(RowHeaders::new());
    }
    let text = std::str::from_utf8(text).map_err(|error| not_utf8("the headers are", text, error))?;
    let mut pairs = Vec::new();
    let read = members(text, |name, value| pairs.push((name, value)));
    read.map_err(|error| no_object("the headers are ", &error))?;

    let mut headers = RowHeaders::with_capacity(pairs.len());
    for (name, value) in pairs {
        let values = if value.get().starts_with('[') {
            serde_json::from_str::<Vec<&RawValue>>(value.get())
                .map_err(|error| reason("the values of a header: ", &error))?
        } else {
            vec![value]
        };
        for value in values {
            if let Some(value) = scalar(&name, value.get())? {
                headers.push((name.as_ref().into(), value));
            }
        }
    }
    Ok(headers)
}

fn scalar(name: &str, json: &str) -> Result<Option<Box<[u8]>>, Reason> {
    let of_this = |reason: Reason| Err(reason.at(shown(name.as_bytes())));
    match json.as_bytes().first() {
        Some(b'{') => of_this("a header is an object: a value is a string or a list of strings".into()),
        Some(b'[') => of_this("a header is a list in a list".into()),
        Some(b'n') => Ok(None),
        Some(b'"') => match serde_json::from_str::<Cow<str>>(json) {
            Ok(value) => Ok(Some(value.as_bytes().into())),
            Err(error) => of_this(reason("a header is not a string: ", &error)),
        },
        _ => Ok(Some(json.as_bytes().into())),
    }
}

/// Returns why a text is not a JSON object; `what` begins the sentence.
pub(super) fn no_object(what: &str, error: &serde_json::Error) -> Reason {
    match error.classify() {
        Category::Data => Reason::new(format!("{what}not a JSON object")),
        Category::Syntax | Category::Eof | Category::Io => reason(&format!("{what}not JSON: "), error),
    }
}

/// Returns the message of `serde_json` without its line, which is always the first. Its column, if any, is the part that
/// varies.
pub(super) fn reason(what: &str, error: &serde_json::Error) -> Reason {
    let text = error.to_string();
    let words = text.rsplit_once(" at line ").map_or(&*text, |(words, _)| words);
    let reason = Reason::new(format!("{what}{words}"));
    if error.column() > 0 { reason.with(format!("column {}", error.column())) } else { reason }
}
