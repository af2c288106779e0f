//! From the values of a record to a [`Row`], whatever its form.

use std::borrow::Cow;

use bytes::Bytes;

use super::cells::{Place, add_defect, defect_row, set_headers, set_method, url_row};
use super::cost::set_cost;
use super::template::bound::RequestTemplates;
use super::template::cell::Cell;
use crate::model::reason::Reason;
use crate::model::row::{Row, RowHeaders};

/// The bytes of a value, or why it can't be read.
type ValueBytes<'a> = Result<Cow<'a, [u8]>, Reason>;

/// What a record has of the columns that are used, and why it can't be read.
pub(super) struct Values<'a> {
    /// `None`: a template makes it.
    pub(super) url: Option<ValueBytes<'a>>,
    /// Empty: the job's default.
    pub(super) method: ValueBytes<'a>,
    pub(super) headers: Result<RowHeaders, Reason>,
    pub(super) body: Result<Option<Bytes>, Reason>,
    /// With the name of its column.
    pub(super) cost: Option<(&'a str, ValueBytes<'a>)>,
    /// Those that templates need.
    pub(super) cells: Vec<Cell<'a>>,
}

impl Values<'_> {
    pub(super) fn row(self, ordinal: u64, place: Place, templates: Option<&RequestTemplates>) -> Row {
        let Self { url, method, headers, body, cost, cells } = self;
        let mut row = match (url, templates) {
            (Some(Ok(url)), _) => url_row(ordinal, place, &url),
            (Some(Err(trouble)), _) => defect_row(ordinal, place, trouble),
            (None, Some(templates)) => templates.row(ordinal, place, &cells),
            (None, None) => defect_row(ordinal, place, "there is no URL"),
        };
        match method {
            Ok(method) => set_method(&mut row, place, &method),
            Err(trouble) => add_defect(&mut row, place, trouble),
        }
        set_headers(&mut row, place, headers);
        match body {
            Ok(Some(body)) => row.extra.get_or_insert_default().body = Some(body.into()),
            Ok(None) => {}
            Err(trouble) => add_defect(&mut row, place, trouble),
        }
        match cost {
            Some((column, Ok(cost))) => set_cost(&mut row, place, column, &cost),
            Some((_, Err(trouble))) => add_defect(&mut row, place, trouble),
            None => {}
        }
        if let Some(templates) = templates {
            templates.fill(&mut row, place, &cells);
        }
        row
    }
}
