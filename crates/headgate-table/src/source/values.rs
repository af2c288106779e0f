//! Makes a [`Row`] of the values of a record, whatever its form.

use std::borrow::Cow;

use bytes::Bytes;
use headgate_core::reason::Reason;
use headgate_core::row::{Row, RowHeaders};

use super::cells::{RowPosition, add_defect, defect_row, set_headers, set_method, url_row};
use super::cost::set_cost;
use super::template::bound::RequestTemplates;
use super::template::cell::Cell;

/// The bytes of a value, or why it can't be read.
type ValueBytes<'a> = Result<Cow<'a, [u8]>, Reason>;

/// The values of a record in the columns that are used, or why they can't be read.
pub(super) struct RecordValues<'a> {
    /// `None`: a template makes the URL.
    pub(super) url: Option<ValueBytes<'a>>,
    /// Empty: the job's default.
    pub(super) method: ValueBytes<'a>,
    pub(super) headers: Result<RowHeaders, Reason>,
    pub(super) body: Result<Option<Bytes>, Reason>,
    /// The name of the cost column, and its value.
    pub(super) cost: Option<(&'a str, ValueBytes<'a>)>,
    /// The columns that templates need.
    pub(super) cells: Vec<Cell<'a>>,
}

impl RecordValues<'_> {
    pub(super) fn row(self, ordinal: u64, position: RowPosition, templates: Option<&RequestTemplates>) -> Row {
        let Self { url, method, headers, body, cost, cells } = self;
        let mut row = match (url, templates) {
            (Some(Ok(url)), _) => url_row(ordinal, position, &url),
            (Some(Err(reason)), _) => defect_row(ordinal, position, reason),
            (None, Some(templates)) => templates.row(ordinal, position, &cells),
            (None, None) => defect_row(ordinal, position, "there is no URL"),
        };
        match method {
            Ok(method) => set_method(&mut row, position, &method),
            Err(reason) => add_defect(&mut row, position, reason),
        }
        set_headers(&mut row, position, headers);
        match body {
            Ok(Some(body)) => row.extra.get_or_insert_default().body = Some(body.into()),
            Ok(None) => {}
            Err(reason) => add_defect(&mut row, position, reason),
        }
        match cost {
            Some((column, Ok(cost))) => set_cost(&mut row, position, column, &cost),
            Some((_, Err(reason))) => add_defect(&mut row, position, reason),
            None => {}
        }
        if let Some(templates) = templates {
            templates.fill(&mut row, position, &cells);
        }
        row
    }
}
