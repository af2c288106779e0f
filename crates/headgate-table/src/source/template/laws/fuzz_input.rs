//! The parsed input of a fuzz target: the text of a template, and values of the columns a, b and c, separated by NULs. The
//! last value may contain NULs. The first byte of a value is its kind: n for null, j for JSON, and anything else for text.

use serde::de::IgnoredAny;

use super::made::{COLUMNS, Letters};
use crate::source::template::bound::Named as _;
use crate::source::template::cell::Cell;
use crate::source::template::parse::{Placeholder, Template, TemplatePiece};

pub(super) struct FuzzInput<'a> {
    pub(super) text: &'a str,
    /// The values of all columns: columns with odd names share the values of others.
    pub(super) cells: Vec<Cell<'a>>,
}

impl<'a> FuzzInput<'a> {
    /// Returns `None` if the template is not UTF-8.
    pub(super) fn new(input: &'a [u8]) -> Option<Self> {
        let mut parts = input.splitn(4, |byte| *byte == 0);
        let text = str::from_utf8(parts.next()?).ok()?;
        let cells: Vec<Cell> = parts.map(cell).chain(std::iter::repeat(Cell::Null)).take(3).collect();
        Some(Self { text, cells: cells.into_iter().cycle().take(COLUMNS.len()).collect() })
    }

    /// Returns whether all values are text.
    pub(super) fn are_texts(&self) -> bool {
        self.texts().len() == self.cells.len()
    }

    /// Returns the values that are text.
    pub(super) fn texts(&self) -> Vec<&str> {
        self.cells.iter().filter_map(|cell| str::from_utf8(cell.bytes().ok()??).ok()).collect()
    }
}

fn cell(bytes: &[u8]) -> Cell<'_> {
    match bytes.split_first() {
        Some((b'n', _)) => Cell::Null,
        Some((b'j', value)) => match str::from_utf8(value) {
            Ok(json) if serde_json::from_str::<IgnoredAny>(json).is_ok() => Cell::Json(json.trim_ascii().into()),
            _ => Cell::Text(value.into()),
        },
        Some((_, value)) => Cell::Text(value.into()),
        None => Cell::Text(bytes.into()),
    }
}

/// Returns a template with the slots of the columns, or `None` if it is invalid or has other columns.
pub(super) fn bound(text: &str) -> Option<Template> {
    let mut template = Template::parse(text).ok()?;
    template.bind(|placeholder| slot(placeholder).ok_or(())).ok()?;
    Some(template)
}

fn slot(placeholder: &mut Placeholder) -> Option<usize> {
    if Letters.has(&placeholder.written) {
        placeholder.use_written_name();
    }
    COLUMNS.iter().position(|column| *column == &*placeholder.column)
}

/// Returns the only column of a template that otherwise has only the placeholders `others`, or `None` if it has none or
/// several.
pub(super) fn only_column(text: &str, others: &[&str]) -> Option<Placeholder> {
    let template = Template::parse(text).ok()?;
    let mut columns = template.placeholders().filter(|each| !others.contains(&&*each.column));
    let mut column = columns.next().filter(|_| columns.next().is_none())?.clone();
    column.slot = slot(&mut column)?;
    Some(column)
}

/// Returns the template with these values, each written by `encode`.
pub(super) fn joined(template: &Template, cells: &[Cell<'_>], encode: impl Fn(&[u8]) -> Vec<u8>) -> Option<Vec<u8>> {
    let piece = |piece: &TemplatePiece| match piece {
        TemplatePiece::Literal(text) => Some(text.as_bytes().to_vec()),
        TemplatePiece::Column(placeholder) => placeholder.bytes(cells).ok().map(&encode),
    };
    template.pieces().iter().map(piece).collect::<Option<Vec<_>>>().map(|pieces| pieces.concat())
}

/// Percent-encodes all bytes but letters, digits and `-._~`.
pub(super) fn encoded(value: &[u8]) -> Vec<u8> {
    let encode = |byte: &u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => vec![*byte],
        byte => format!("%{byte:02X}").into_bytes(),
    };
    value.iter().flat_map(encode).collect()
}
