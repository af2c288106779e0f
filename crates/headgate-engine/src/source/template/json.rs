//! JSON bodies that are made of columns. The document is taken apart once: what stands outside its strings stays as it is
//! written, and values go into strings alone, so that no value can change what is around it.

use std::fmt;

use serde::de::IgnoredAny;

use super::cell::{Cell, Output, text};
use super::parse::{Piece, Placeholder, Template};
use crate::model::error::JobError;
use crate::model::message::Message;
use crate::model::reason::Reason;

/// A document, taken apart. A placeholder is within a string if it asks for text, and else stands for a value of the column's
/// own type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonTemplate(Template);

/// What is wrong with a document, or with what binds its templates.
pub(super) enum JsonTrouble {
    Document(Message),
    Binding(JobError),
}

impl JsonTemplate {
    /// `bind` gives the placeholders of each string their slots.
    ///
    /// # Errors
    /// It is no JSON, one of its strings is no template, or those of `bind`.
    pub(super) fn new(
        document: &str,
        mut bind: impl FnMut(&mut Template) -> Result<(), JobError>,
    ) -> Result<Self, JsonTrouble> {
        let refused = |trouble: String| JsonTrouble::Document(trouble.into());
        serde_json::from_str::<IgnoredAny>(document).map_err(|error| refused(not_json(&error)))?;
        let mut pieces = Template::default();
        let trimmed = document.trim_ascii_end();
        let mut rest = trimmed.trim_ascii_start();
        while let Some(start) = rest.find('"') {
            let string_at = trimmed.len() - rest.len() + start;
            pieces.push_str(&rest[..start]);
            let (string, behind) = rest[start..].split_at(string_length(&rest[start..]));
            rest = behind;
            // It may be a secret: its place is told, and not the string.
            let in_string = |error: &dyn fmt::Display| {
                let line = 1 + document[..string_at].matches('\n').count();
                refused(format!("in the string on line {line}: {error}"))
            };
            let decoded: String = serde_json::from_str(string).map_err(|error| in_string(&error))?;
            let mut template = Template::parse(&decoded).map_err(|error| in_string(&error))?;
            bind(&mut template).map_err(JsonTrouble::Binding)?;
            let is_key = behind.trim_ascii_start().starts_with(':');
            if template.literal() == Some(&*decoded) {
                pieces.push_str(string);
            } else if let Some(placeholder) = template.whole().filter(|whole| !is_key && !whole.as_string) {
                pieces.push(placeholder.clone());
            } else {
                pieces.push_str("\"");
                for piece in template.pieces() {
                    match piece {
                        Piece::Literal(text) => pieces.push_str(contents(&string_of(text))),
                        Piece::Column(placeholder) => {
                            pieces.push(Placeholder { as_string: true, ..placeholder.clone() });
                        }
                    }
                }
                pieces.push_str("\"");
            }
        }
        pieces.push_str(rest);
        Ok(Self(pieces))
    }

    /// # Errors
    /// A value that is missing within a text, or is no text that JSON can have.
    pub(super) fn render(&self, cells: &[Cell<'_>], out: &mut Output) -> Result<(), Reason> {
        self.0.pieces().iter().try_for_each(|piece| match piece {
            Piece::Literal(text) => out.push(text.as_bytes()),
            Piece::Column(placeholder) if placeholder.as_string => {
                let value = text(placeholder, placeholder.bytes(cells)?)?;
                out.check_room(value.len())?;
                out.push(contents(&string_of(value)).as_bytes())
            }
            Piece::Column(placeholder) => match (placeholder.cell(cells), &placeholder.default) {
                (Cell::Json(json), _) => out.push(json.as_bytes()),
                (Cell::Null, None) => out.push(b"null"),
                _ => {
                    let value = text(placeholder, placeholder.bytes(cells)?)?;
                    out.check_room(value.len())?;
                    out.push(string_of(value).as_bytes())
                }
            },
        })
    }
}

fn not_json(error: &serde_json::Error) -> String {
    let trouble = format!("not JSON: {error}");
    // What a placeholder without quotes looks like to a reader of JSON.
    if trouble.contains("key must be a string") {
        return format!("{trouble}; a placeholder is in quotes: \"{{column}}\"");
    }
    trouble
}

/// The length of the string that a valid document goes on with, its quotes included.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().skip(1).position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

fn string_of(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Without its quotes.
fn contents(string: &str) -> &str {
    string.strip_prefix('"').and_then(|string| string.strip_suffix('"')).unwrap_or(string)
}
