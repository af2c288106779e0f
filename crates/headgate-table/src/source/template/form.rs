//! Forms in the URL encoding (URL standard, "application/x-www-form-urlencoded") that are made of columns.

use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::reason::Reason;

use super::cell::{Cell, RenderBuffer};
use super::parse::{Template, TemplatePiece};
use super::percent;

pub(super) const MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

/// The fields of a form, in their order, as they are sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FormTemplate(Template);

impl FormTemplate {
    /// Adds a field. As in curl, its name is sent as it is written, the text after the `=` is encoded, and a field without
    /// `=` has no name.
    ///
    /// # Errors
    /// curl would read a file here.
    pub(super) fn add(&mut self, field: &Template) -> Result<(), Message> {
        let (before, content) = match field.split_once("=") {
            Some((name, content)) => (Some(name), content),
            None => (None, field.clone()),
        };
        if before.as_ref().unwrap_or(&content).literals().any(|literal| literal.contains('@')) {
            return Err(message!(
                "an @ before any = would have curl read a file: write name={{column}} for a value, or give files with ",
                OptionName::BodyFileColumn
            ));
        }
        if self.0.literal() != Some("") {
            self.0.push_str("&");
        }
        if let Some(name) = before.filter(|name| name.literal() != Some("")) {
            self.push(&name, str::to_owned);
            self.0.push_str("=");
        }
        self.push(&content, percent::encoded);
        Ok(())
    }

    fn push(&mut self, template: &Template, as_sent: impl Fn(&str) -> String) {
        for piece in template.pieces() {
            match piece {
                TemplatePiece::Literal(text) => self.0.push_str(&as_sent(text)),
                TemplatePiece::Column(placeholder) => self.0.push(placeholder.clone()),
            }
        }
    }

    /// # Errors
    /// A value is missing.
    pub(super) fn render(&self, cells: &[Cell<'_>], out: &mut RenderBuffer) -> Result<(), Reason> {
        self.0.render(cells, out, |_, value, out| percent::push(value, out))
    }
}
