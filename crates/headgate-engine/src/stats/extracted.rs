//! Finds extracted columns that never had a value, most likely since their paths are wrong.

use headgate_core::error::ErrorKind;
use headgate_core::grouped::grouped;
use headgate_core::message;
use headgate_core::message::{Message, OptionName};
use headgate_core::row::OutcomeRef;
use headgate_core::selected::SelectedValue;
use headgate_table::columns::select::Selection;

/// Fewer responses say nothing about a column.
const MIN_RESPONSES: u64 = 10;

/// Counts the responses from which columns were extracted, and notes which columns had values.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extracted {
    /// Complete responses with a status 2xx.
    responses: u64,
    /// Those with a body.
    with_body: u64,
    /// Whether each column had a value in any response, whatever its status.
    found: Vec<bool>,
}

impl Extracted {
    /// Counts a row of a source; what callers extract from single responses is theirs.
    pub(super) fn record(&mut self, outcome: OutcomeRef<'_>) {
        let (Some(response), Some(selected)) = (&outcome.response, outcome.selected) else { return };
        if outcome.row.reply_to.is_some() {
            return;
        }
        let is_complete = outcome.failure.is_none_or(|failure| failure.kind == ErrorKind::UnexpectedResponse);
        if (200..300).contains(&response.status) && is_complete && !response.body_truncated {
            self.responses += 1;
            self.with_body += u64::from(response.received_bytes > 0);
        }
        self.found.resize(selected.values.len(), false);
        for (found, value) in self.found.iter_mut().zip(&selected.values) {
            *found |= *value != SelectedValue::Null;
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.responses += other.responses;
        self.with_body += other.with_body;
        self.found.resize(self.found.len().max(other.found.len()), false);
        for (found, other) in self.found.iter_mut().zip(&other.found) {
            *found |= other;
        }
    }

    /// Returns a note for each column that never had a value.
    pub(super) fn notes(&self, selection: &Selection) -> impl Iterator<Item = Message> {
        let columns = selection.sources().zip(&self.found).filter(|(_, found)| !**found);
        columns.filter_map(|((text, is_header), _)| {
            let (responses, question) = if is_header {
                (self.responses, "is the name of the header right?")
            } else {
                (self.with_body, "are its path and its type right?")
            };
            (responses >= MIN_RESPONSES).then(|| {
                let rows = grouped(responses);
                message!(OptionName::Extract, " {text:?} was null in all {rows} rows with a status 2xx: {question}")
            })
        })
    }
}
