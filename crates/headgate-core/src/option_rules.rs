//! The values that options may have. Each rule exists once, for the command line, Python and `headgate set`.

use std::fmt::Display;
use std::time::Duration;

use crate::error::JobError;
use crate::message;
use crate::message::{Message, OptionName};
use crate::option_entries::OptionKind;

/// A year: beyond it clocks overflow.
const MAX_SECONDS: f64 = 365.0 * 86_400.0;

/// An option with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    pub option: OptionName,
    /// What is wrong, and what would be right: the end of a sentence that begins with the option.
    pub message: Message,
}

impl From<Mistake> for JobError {
    fn from(mistake: Mistake) -> Self {
        vec![mistake].into()
    }
}

impl From<Vec<Mistake>> for JobError {
    fn from(mistakes: Vec<Mistake>) -> Self {
        let sentences = mistakes.into_iter().map(|Mistake { option, message }| message!(option, " ", message));
        Self::usage(Message::joined(sentences, "; "))
    }
}

/// Returns an error that names all of the mistakes, if there are any.
pub fn refuse(mistakes: Vec<Mistake>) -> Result<(), JobError> {
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes.into()) }
}

/// Checks a whole number, which messages have as `shown`.
///
/// # Errors
/// Why the option can't have it.
pub fn whole(option: OptionName, value: i128, shown: impl Display) -> Result<u64, String> {
    let (OptionKind::Whole { range } | OptionKind::Size { range }) = &option.entry().kind else {
        return Err(format!("must be a whole number, not {shown}"));
    };
    match u64::try_from(value) {
        Ok(number) if range.contains(&number) => return Ok(number),
        _ => {}
    }
    let bound = if value < i128::from(*range.start()) {
        format!("at least {}", range.start())
    } else {
        format!("at most {}", range.end())
    };
    let hint = match option {
        OptionName::MaxRedirects => "; to follow none, use redirects none",
        OptionName::MaxBodySize if value > 0 => ": a column can't store a larger body",
        _ => "",
    };
    Err(format!("must be {bound}, not {shown}{hint}"))
}

/// Checks a duration in seconds.
///
/// # Errors
/// Why the option can't have it.
pub fn seconds(option: OptionName, value: f64) -> Result<Duration, String> {
    let may_be_zero = matches!(option.entry().kind, OptionKind::Seconds { or_zero: true });
    let is_allowed = (0.0..=MAX_SECONDS).contains(&value) && (value > 0.0 || may_be_zero);
    if is_allowed {
        return Ok(Duration::from_secs_f64(value));
    }
    let least = if may_be_zero { "0 seconds or more" } else { "more than 0 seconds" };
    let value = if value.is_nan() { "nan".to_owned() } else { value.to_string() };
    Err(format!("must be {least} and at most {MAX_SECONDS}, not {value}"))
}

/// The units of durations, in seconds.
const UNITS: [(&str, f64); 7] =
    [("", 1.0), ("ms", 0.001), ("s", 1.0), ("m", 60.0), ("min", 60.0), ("h", 3_600.0), ("d", 86_400.0)];

/// Parses a duration, `500ms`, `30s`, `5m`, `2h` or `1d`, into seconds; a bare number is seconds.
///
/// # Errors
/// The text is no duration.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let unit = &text.trim()[number.len()..];
    let seconds = number.trim_end().parse::<f64>().ok().zip(UNITS.iter().find(|(name, _)| *name == unit));
    let wrong = || format!("must be a duration such as 30s, 500ms or 5m, not '{text}'");
    seconds.map(|(number, (_, seconds))| number * seconds).ok_or_else(wrong)
}

/// Returns whether a text is a token (RFC 9110 section 5.6.2), as methods and names of headers are.
pub fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}

/// Returns whether text has a character that a header value can't have (RFC 9110 section 5.5): a control character but tab.
pub fn has_control_character(text: &str) -> bool {
    text.chars().any(|char| char.is_ascii_control() && char != '\t')
}

/// Checks ranges of bytes (RFC 9110 section 14.1.1): `0-499,-500`.
///
/// # Errors
/// Why the text is not one.
pub fn byte_range(text: &str) -> Result<(), String> {
    let wrong = || format!("'{text}' is not a range of bytes: write 0-499, 500- or -500");
    let number = |digits: &str| match digits {
        "" => Ok(None),
        _ if digits.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Some(digits.parse::<u128>().map_err(|_| wrong())?)),
        _ => Err(wrong()),
    };
    for part in text.replace(' ', "").split(',') {
        let (first, last) = part.split_once('-').ok_or_else(wrong)?;
        match (number(first)?, number(last)?) {
            (None, None) => return Err(wrong()),
            (Some(first), Some(last)) if first > last => return Err(format!("'{text}' ends before it begins")),
            _ => {}
        }
    }
    Ok(())
}
