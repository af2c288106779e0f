//! Rows that are not valid requests, counted by their cause.

use std::cmp::Reverse;

use headgate_core::reason::Reason;
use headgate_core::row::Row;
use headgate_core::url_user::without_user;
use serde::Serialize;

/// The maximum number of causes that are told apart: the first ones. Few inputs have more.
const MAX_CAUSES: usize = 20;

/// A cause of invalid requests, with its first row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct InvalidCause {
    pub message: String,
    pub rows: u64,
    pub first_row: u64,
    pub url: String,
    pub detail: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct InvalidRows {
    count: u64,
    causes: Vec<InvalidCause>,
}

impl InvalidRows {
    pub(super) fn add(&mut self, row: &Row, reason: Reason) {
        self.count += 1;
        if let Some(cause) = self.causes.iter_mut().find(|cause| cause.message == reason.message) {
            cause.rows += 1;
        } else if self.causes.len() < MAX_CAUSES {
            self.causes.push(InvalidCause {
                message: reason.message.into_owned(),
                rows: 1,
                first_row: row.ordinal,
                url: without_user(&row.url).into_owned(),
                detail: reason.detail.map(Into::into),
            });
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the causes, the most frequent first.
    pub(super) fn into_causes(mut self) -> Vec<InvalidCause> {
        self.causes.sort_by_key(|cause| Reverse(cause.rows));
        self.causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_bounded_and_the_most_frequent_is_first() {
        let mut invalid = InvalidRows::default();
        for row in 0..100 {
            let cause = if row % 2 == 0 { 7 } else { row };
            invalid.add(&Row::new(row, ""), Reason::from(format!("cause {cause}")).with(row.to_string()));
        }
        assert_eq!(100, invalid.count());
        let causes = invalid.into_causes();
        assert_eq!((20, "cause 7", 51, 0), (causes.len(), &*causes[0].message, causes[0].rows, causes[0].first_row));
        assert_eq!(Some("0"), causes[0].detail.as_deref());
    }
}
