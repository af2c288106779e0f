//! The values of a row that templates use.

use std::borrow::Cow;

use headgate_core::reason::Reason;

use super::parse::{Placeholder, Template, TemplatePiece};

/// A value of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell<'a> {
    Null,
    Text(Cow<'a, [u8]>),
    /// A value that is not text, as JSON.
    Json(Cow<'a, str>),
    /// The value can't be read, or is a number that JSON can't hold.
    Unfit(Reason),
}

impl<'a> Cell<'a> {
    /// Returns a value of a form without nulls: an empty one is read as null, as in most readers.
    pub(crate) fn of_text(text: &'a [u8]) -> Self {
        if text.is_empty() { Self::Null } else { Self::Text(text.into()) }
    }

    /// Returns the value as it is, JSON as its text, or `None` if it is null.
    ///
    /// # Errors
    /// Why the value can't be read.
    pub(crate) fn bytes(&self) -> Result<Option<&[u8]>, Reason> {
        match self {
            Self::Null => Ok(None),
            Self::Text(text) => Ok(Some(text)),
            Self::Json(json) => Ok(Some(json.as_bytes())),
            Self::Unfit(reason) => Err(reason.clone()),
        }
    }
}

impl Placeholder {
    /// Returns its cell among those of a row.
    pub(crate) fn cell<'a>(&self, cells: &'a [Cell<'a>]) -> &'a Cell<'a> {
        cells.get(self.slot).unwrap_or(&Cell::Null)
    }

    /// Returns the value or the default, before it is encoded.
    ///
    /// # Errors
    /// There is no value and no default, or the value can't be read.
    pub(crate) fn bytes<'a>(&'a self, cells: &'a [Cell<'a>]) -> Result<&'a [u8], Reason> {
        let value = self.cell(cells).bytes()?;
        let value = value.or(self.default.as_deref().map(str::as_bytes));
        let column = &self.column;
        value.ok_or_else(|| format!("the column {column:?} has no value; {{{column}|}} sends an empty one").into())
    }
}

impl Template {
    /// Renders the template into `out`; `encode` writes each value.
    ///
    /// # Errors
    /// A value is missing, can't be read or can't be encoded, or the result is too long.
    pub(super) fn render<'a>(
        &'a self,
        cells: &'a [Cell<'a>],
        out: &mut RenderBuffer,
        mut encode: impl FnMut(&Placeholder, &'a [u8], &mut RenderBuffer) -> Result<(), Reason>,
    ) -> Result<(), Reason> {
        self.pieces().iter().try_for_each(|piece| match piece {
            TemplatePiece::Literal(text) => out.push(text.as_bytes()),
            TemplatePiece::Column(placeholder) => encode(placeholder, placeholder.bytes(cells)?, out),
        })
    }
}

/// Rendered bytes, up to a bound: values can be of any length.
#[derive(Debug)]
pub(super) struct RenderBuffer {
    pub(super) bytes: Vec<u8>,
    /// Bytes that were taken out.
    removed: usize,
    max: usize,
    what: &'static str,
}

impl RenderBuffer {
    /// Creates an empty buffer of up to `max` bytes. `what` names the output in messages.
    pub(super) fn new(what: &'static str, max: usize) -> Self {
        Self { bytes: Vec::new(), removed: 0, max, what }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        self.check_fits(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Takes the bytes out, which still count.
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.removed += self.bytes.len();
        std::mem::take(&mut self.bytes)
    }

    /// Returns another output, limited to the bytes that are left in this one.
    pub(super) fn like(&self) -> Self {
        Self { bytes: Vec::new(), removed: self.removed + self.bytes.len(), ..*self }
    }

    /// # Errors
    /// `more` bytes would be too many.
    pub(super) fn check_fits(&self, more: usize) -> Result<(), Reason> {
        if more > self.max.saturating_sub(self.removed + self.bytes.len()) {
            return Err(format!("{} is longer than {} bytes", self.what, self.max).into());
        }
        Ok(())
    }
}

/// # Errors
/// The value of this column is not UTF-8.
pub(super) fn text<'a>(placeholder: &Placeholder, value: &'a [u8]) -> Result<&'a str, Reason> {
    std::str::from_utf8(value).map_err(|error| {
        let reason = Reason::new(format!("the column {:?} is not UTF-8", placeholder.column));
        reason.with(format!("after {} valid bytes", error.valid_up_to()))
    })
}
