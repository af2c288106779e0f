//! JSON bodies that are made of columns. The document is parsed once: text outside its strings stays as it is written, and
//! values go into strings alone. So no value can change the document around it.

use std::fmt;

use headgate_core::error::JobError;
use headgate_core::message::Message;
use headgate_core::reason::Reason;
use serde::de::IgnoredAny;

use super::cell::{Cell, RenderBuffer, text};
use super::parse::{Placeholder, Template, TemplatePiece};

/// A parsed document. A placeholder is within a string if it asks for text; otherwise it replaces the string with a value
/// of the column's own type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JsonTemplate(Template);

/// A mistake in a document, or in binding its templates.
pub(super) enum JsonError {
    Document(Message),
    Binding(JobError),
}

impl JsonTemplate {
    /// Parses a document. `bind` sets the slots of the placeholders of each string.
    ///
    /// # Errors
    /// The document is not JSON, one of its strings is not a template, or those of `bind`.
    pub(super) fn new(
        document: &str,
        mut bind: impl FnMut(&mut Template) -> Result<(), JobError>,
    ) -> Result<Self, JsonError> {
        let refused = |reason: String| JsonError::Document(reason.into());
        serde_json::from_str::<IgnoredAny>(document).map_err(|error| refused(not_json(&error)))?;
        let mut pieces = Template::default();
        let trimmed = document.trim_ascii_end();
        let mut rest = trimmed.trim_ascii_start();
        while let Some(start) = rest.find('"') {
            let string_at = trimmed.len() - rest.len() + start;
            pieces.push_str(&rest[..start]);
            let (string, after) = rest[start..].split_at(string_length(&rest[start..]));
            rest = after;
            // The message has the position and not the string, which may be a secret.
            let in_string = |error: &dyn fmt::Display| {
                let line = 1 + document[..string_at].matches('\n').count();
                refused(format!("in the string on line {line}: {error}"))
            };
            let decoded: String = serde_json::from_str(string).map_err(|error| in_string(&error))?;
            let mut template = Template::parse(&decoded).map_err(|error| in_string(&error))?;
            bind(&mut template).map_err(JsonError::Binding)?;
            let is_key = after.trim_ascii_start().starts_with(':');
            if template.literal() == Some(&*decoded) {
                pieces.push_str(string);
            } else if let Some(placeholder) = template.whole().filter(|whole| !is_key && !whole.as_string) {
                pieces.push(placeholder.clone());
            } else {
                pieces.push_str("\"");
                for piece in template.pieces() {
                    match piece {
                        TemplatePiece::Literal(text) => pieces.push_str(contents(&string_of(text))),
                        TemplatePiece::Column(placeholder) => {
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
    /// A value within a text is missing, or is not valid in JSON.
    pub(super) fn render(&self, cells: &[Cell<'_>], out: &mut RenderBuffer) -> Result<(), Reason> {
        self.0.pieces().iter().try_for_each(|piece| match piece {
            TemplatePiece::Literal(text) => out.push(text.as_bytes()),
            TemplatePiece::Column(placeholder) if placeholder.as_string => {
                let value = text(placeholder, placeholder.bytes(cells)?)?;
                out.check_fits(value.len())?;
                out.push(contents(&string_of(value)).as_bytes())
            }
            TemplatePiece::Column(placeholder) => match (placeholder.cell(cells), &placeholder.default) {
                (Cell::Json(json), _) => out.push(json.as_bytes()),
                (Cell::Null, None) => out.push(b"null"),
                _ => {
                    let value = text(placeholder, placeholder.bytes(cells)?)?;
                    out.check_fits(value.len())?;
                    out.push(string_of(value).as_bytes())
                }
            },
        })
    }
}

fn not_json(error: &serde_json::Error) -> String {
    let reason = format!("not JSON: {error}");
    // How a JSON reader reports a placeholder without quotes.
    if reason.contains("key must be a string") {
        return format!("{reason}; a placeholder is in quotes: \"{{column}}\"");
    }
    reason
}

/// Returns the length of the string that a valid document continues with, including its quotes.
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

/// Returns the string without its quotes.
fn contents(string: &str) -> &str {
    string.strip_prefix('"').and_then(|string| string.strip_suffix('"')).unwrap_or(string)
}
