//! Messages to the user, with the options in them as data: each interface (the command line, Python) spells them in its own
//! syntax, so that no sentence of the engine contains a flag.
//!
//! ```
//! use headgate_core::message;
//! use headgate_core::message::OptionName;
//!
//! let output = "results";
//! let message = message!("{output} contains another job: replace it with ", OptionName::IfExists.set("overwrite"));
//! assert_eq!("results contains another job: replace it with if_exists=overwrite", message.to_string());
//! ```

use std::fmt;
use std::path::Path;

use serde::{Serialize, Serializer};

pub use crate::option_entries::OptionName;

impl OptionName {
    /// Returns the option with a value, as a user would write both.
    pub fn set(self, value: impl Into<OptionValue>) -> Mention {
        Mention { option: self, value: Some(value.into()) }
    }
}

impl Serialize for OptionName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The value of an option in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum OptionValue {
    Switch(bool),
    Number(u64),
    Text(String),
}

impl From<bool> for OptionValue {
    fn from(on: bool) -> Self {
        Self::Switch(on)
    }
}

impl From<u64> for OptionValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<usize> for OptionValue {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl From<&str> for OptionValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&Path> for OptionValue {
    fn from(path: &Path) -> Self {
        Self::Text(path.display().to_string())
    }
}

/// An option in a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mention {
    pub option: OptionName,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<OptionValue>,
}

impl From<OptionName> for Mention {
    fn from(option: OptionName) -> Self {
        Self { option, value: None }
    }
}

/// A piece of a message. In JSON it is a string, or an object with `option` and perhaps `value`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Piece {
    Text(String),
    Mention(Mention),
}

/// Texts and options; `message!` makes one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Message {
    pieces: Vec<Piece>,
}

impl Message {
    /// Returns the message with more at its end.
    #[must_use]
    pub fn with(mut self, other: impl Into<Self>) -> Self {
        self.push(other);
        self
    }

    /// Adds to its end.
    pub fn push(&mut self, other: impl Into<Self>) {
        for piece in other.into().pieces {
            match (self.pieces.last_mut(), piece) {
                // Equal messages have equal pieces, however they were assembled.
                (Some(Piece::Text(text)), Piece::Text(more)) => text.push_str(&more),
                (_, piece) => self.pieces.push(piece),
            }
        }
    }

    /// Joins messages, with `separator` between them.
    pub fn joined(messages: impl IntoIterator<Item = Self>, separator: &str) -> Self {
        let mut joined = Self::default();
        for (index, message) in messages.into_iter().enumerate() {
            if index > 0 {
                joined.push(separator);
            }
            joined.push(message);
        }
        joined
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self { pieces: vec![Piece::Text(text)] }
    }
}

impl From<&str> for Message {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Mention> for Message {
    fn from(mention: Mention) -> Self {
        Self { pieces: vec![Piece::Mention(mention)] }
    }
}

impl From<OptionName> for Message {
    fn from(option: OptionName) -> Self {
        Mention::from(option).into()
    }
}

/// Shows options by their names, for logs and tests.
impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Mention(Mention { option, value: None }) => f.write_str(option.name()),
            Piece::Mention(Mention { option, value: Some(value) }) => match value {
                OptionValue::Switch(on) => write!(f, "{}={on}", option.name()),
                OptionValue::Number(number) => write!(f, "{}={number}", option.name()),
                OptionValue::Text(text) => write!(f, "{}={text}", option.name()),
            },
        })
    }
}

/// A [`Message`](crate::message::Message) of pieces: literals, which are formatted, and values that can be a
/// message: an option's name, one that is `set` to a value, text, another message.
#[macro_export]
macro_rules! message {
    (@after $before:expr;) => {
        $before
    };
    (@after $before:expr; $text:literal $(, $($rest:tt)*)?) => {
        $crate::message!(@after $before.with(::std::format!($text)); $($($rest)*)?)
    };
    (@after $before:expr; $piece:expr $(, $($rest:tt)*)?) => {
        $crate::message!(@after $before.with($piece); $($($rest)*)?)
    };
    ($($pieces:tt)+) => {
        $crate::message!(@after $crate::message::Message::default(); $($pieces)+)
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_stay_apart_from_text_that_looks_like_them() {
        let file = "with --fresh.txt";
        let message =
            message!(OptionName::IfExists.set("overwrite"), " for {file}, ", OptionName::ReadAhead.set(3_u64));
        let json = r#"[{"option":"if_exists","value":"overwrite"}," for with --fresh.txt, ",{"option":"read_ahead","value":3}]"#;
        assert_eq!(json, serde_json::to_string(&message).expect("JSON"));
        assert_eq!("if_exists=overwrite for with --fresh.txt, read_ahead=3", message.to_string());
    }

    #[test]
    fn messages_are_equal_however_they_were_put_together() {
        let inner = message!("b", OptionName::Output);
        assert_eq!(message!("ab", OptionName::Output, "cde"), message!("a", inner, "c", "de"));
    }
}
